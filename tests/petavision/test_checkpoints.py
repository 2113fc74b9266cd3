"""Starts from PetaVision's checkpoint directories."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.petavision import read
from petabatch.petavision.pvp import write_activities, write_weights
from support.petavision_checkpoint import MOMENTUM, POTENTIALS, RNG, WEIGHTS, checkpoint, net
from support.petavision_network import group


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
    (place / "I_FrameNumbers.bin").unlink()
    (place / "I_FrameNumbers.bin").mkdir()
    (one,) = read(file, tmp_path, checkpoint=place)
    said = " ".join(one.text.replace("#", " ").split())
    assert "has no CToO_W.pvp: it starts from weightInitType" in said
    assert "I_FrameNumbers.bin cannot be read: Is a directory" in said


def test_files_of_a_checkpoint_have_the_names_of_petavision(tmp_path: Path) -> None:
    """Also of groups that have other names in petabatch."""
    place = checkpoint(tmp_path)
    file = net(tmp_path, False)
    ends = 'preLayerName = "C"; postLayerName = "O"'
    file.write_text(file.read_text().replace('"CToO" = {', f'"C to O" = {{ {ends};'))
    (place / "CToO_W.pvp").rename(place / "C to O_W.pvp")
    (one,) = read(file, tmp_path, checkpoint=place)
    (tmp_path / "net.toml").write_text(one.text)
    found = states(petabatch.load(tmp_path / "net.toml").network)
    np.testing.assert_array_equal(found["connections/C_to_O/weights"][0, 0], WEIGHTS)
    (place / "C to O_W.pvp").unlink()
    (one,) = read(file, tmp_path, checkpoint=place)
    assert "has no C to O_W.pvp: it starts from" in " ".join(one.text.replace("#", " ").split())


@pytest.mark.parametrize("learns", [False, True])
def test_weights_of_a_checkpoint_are_not_normalised_again(learns: bool, tmp_path: Path) -> None:
    """Those that are not shared have counted in the norm what is cut at the edge, and 0 in the file."""
    weights = RNG.normal(size=(4, 4, 1, 3, 3, 1)).astype(np.float32)
    weights /= np.sqrt((weights**2).sum((3, 4, 5), keepdims=True)) / 2
    for row, column in np.ndindex(4, 4):
        for y, x in np.ndindex(3, 3):
            if not (0 <= row + y - 1 < 4 and 0 <= column + x - 1 < 4):
                weights[row, column, 0, y, x] = 0
    place = tmp_path / "Checkpoint0"
    place.mkdir()
    write_weights(place / "IToO_W.pvp", [(0.0, weights)], (4, 4))
    write_activities(tmp_path / "images.pvp", (4, 4, 1), enumerate(RNG.normal(size=(3, 4, 4, 1))))
    (tmp_path / "net.params").write_text(
        group("HyPerCol", "column", nx=4, ny=4, stopTime=4)
        + group("PvpLayer", "I", inputPath="images.pvp", nf=1, phase=0, displayPeriod=2)
        + group("HyPerLayer", "O", nf=1, phase=1)
        + group(
            "HyPerConn", "IToO", nxp=3, nyp=3, weightInitType="UniformRandomWeight", sharedWeights=False,
            normalizeMethod="normalizeL2", strength=2, channelCode=0, plasticityFlag=learns,
        )
        + group(
            "HyPerConn", "More", preLayerName="I", postLayerName="O", nxp=3, nyp=3, sharedWeights=False,
            weightInitType="UniformRandomWeight", normalizeMethod="normalizeGroup", normalizeGroupName="IToO",
            channelCode=0, plasticityFlag=False,
        )
    )  # fmt: skip
    write_weights(place / "More_W.pvp", [(0.0, weights)], (4, 4))
    (one,) = read(tmp_path / "net.params", tmp_path, checkpoint=place)
    assert one.translation.error() is None
    (tmp_path / "net.toml").write_text(one.text)
    found = in_memory.run(petabatch.load(tmp_path / "net.toml"), [0, 4]).states
    for name in ("IToO", "More"):
        np.testing.assert_array_equal(found[f"connections/{name}/weights"][0, 0], weights)
    changed = found["connections/IToO/weights"][1, 0] != weights
    assert changed.any() == learns
    assert ("norms leave out the weights beyond the edge" in one.report) == learns
    assert "weightInitType: not read by PetaVision" not in one.report
