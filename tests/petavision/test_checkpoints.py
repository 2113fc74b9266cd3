"""Starts from PetaVision's checkpoint directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import petabatch
from petabatch import in_memory
from petabatch.petavision import read
from support.petavision_checkpoint import MOMENTUM, POTENTIALS, WEIGHTS, checkpoint, net


def states(network: Any) -> dict[str, np.ndarray]:
    return dict(in_memory.run(network, [0]).states)


def test_groups_with_the_flag_start_from_the_directory_of_the_column(tmp_path: Path) -> None:
    checkpoint(tmp_path)
    found = states(petabatch.load(net(tmp_path, True)).network)
    np.testing.assert_array_equal(found["layers/C/V"][0], POTENTIALS)
    np.testing.assert_array_equal(found["connections/CToO/weights"][0, 0], WEIGHTS)
    np.testing.assert_array_equal(found["connections/CToO/momentum"][0, 0], MOMENTUM)
    assert found["layers/I/A"][0, :, 0, 0, 0].tolist() == [2.0, 3.0]


def test_a_network_starts_from_a_checkpoint_of_its_run(tmp_path: Path) -> None:
    """It has the random weights and potentials of the run in PetaVision."""
    place = checkpoint(tmp_path)
    file = net(tmp_path, False)
    before = states(petabatch.load(file).network)
    assert (before["connections/CToO/weights"][0, 0] != WEIGHTS).any()
    (one,) = read(file, tmp_path, checkpoint=place)
    (tmp_path / "net.toml").write_text(one.text)
    found = states(petabatch.load(tmp_path / "net.toml").network)
    np.testing.assert_array_equal(found["layers/C/V"][0], POTENTIALS)
    np.testing.assert_array_equal(found["connections/CToO/weights"][0, 0], WEIGHTS)
    np.testing.assert_array_equal(found["connections/CToO/momentum"][0, 0], MOMENTUM)
    assert found["layers/I/A"][0, :, 0, 0, 0].tolist() == [2.0, 3.0]
    (place / "CToO_W.pvp").unlink()
    (one,) = read(file, tmp_path, checkpoint=place)
    said = " ".join(one.text.replace("#", " ").split())
    assert "has no CToO_W.pvp: it starts from weightInitType" in said
