"""Runs as PetaVision's files, and its frames as arrays."""

from __future__ import annotations

import re
from pathlib import Path

import h5py
import numpy as np
import pytest

import petabatch
from petabatch.errors import ArgumentError
from petabatch.petavision.arrays import convert_pvp
from petabatch.petavision.export import export
from petabatch.petavision.pvp import write_activities
from petabatch.sources.pvp import Activities, Weights
from support.commands import alone


def test_a_run_is_read_by_petavisions_readers(small: Path, tmp_path: Path) -> None:
    small.write_text(small.read_text() + '[probes.active]\ntype = "l0"\nlayer = "V1"\nevery = "display"\n')
    run = petabatch.open(alone(small, "run"))
    written = {path.name for path, _ in export(tmp_path / "run", tmp_path / "out")}
    assert {"V1.pvp", "V1_V.pvp", "recon.pvp", "dictionary.pvp", "energy_batchElement_1.txt"} <= written
    code = Activities(str(tmp_path / "out" / "V1.pvp"))
    recon = Activities(str(tmp_path / "out" / "recon.pvp"))
    assert (code.header.kind, recon.header.kind) == (6, 4)  # sparse and dense
    for file, name, every in ((code, "V1", 10), (recon, "recon", 20)):
        recorded = np.asarray(run[f"layers/{name}/A"])
        assert file.count == 3 * len(recorded)
        for number in range(file.count):
            np.testing.assert_array_equal(file.frame(number), recorded[number // 3, number % 3])
            assert file.time(number) == every * (1 + number // 3)
    weights = Weights(str(tmp_path / "out" / "dictionary.pvp"))
    recorded = np.asarray(run["connections/dictionary/weights"])
    assert weights.count == len(recorded) == 7
    for number in range(weights.count):
        np.testing.assert_array_equal(weights.frame(number)[0, 0, 0], recorded[number])
    lines = (tmp_path / "out" / "energy_batchElement_1.txt").read_text().splitlines()
    assert lines[0] == "time,index,energy"
    energies = np.asarray(run["probes/energy/total"])
    assert len(lines) == 1 + len(energies)
    assert lines[3] == f"{15:10f}, 1, {energies[2, 1]:10.9f}"
    active = (tmp_path / "out" / "active_batchElement_0.txt").read_text().splitlines()
    assert re.fullmatch(r"10\.000, 0, +288, \d+\.000000", active[0])
    with pytest.raises(ArgumentError, match="not empty"):
        list(export(tmp_path / "run", tmp_path / "out"))


@pytest.mark.parametrize("sparse", [False, True])
def test_frames_become_arrays(sparse: bool, tmp_path: Path) -> None:
    frames = np.random.default_rng(0).normal(size=(3, 4, 5, 2)).astype(np.float32)
    write_activities(tmp_path / "a.pvp", (4, 5, 2), enumerate(frames), sparse)
    assert "frames [3, 4, 5, 2]" in convert_pvp(tmp_path / "a.pvp", tmp_path / "a.npy", False)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), frames)
    convert_pvp(tmp_path / "a.pvp", tmp_path / "a.h5", False)
    with h5py.File(tmp_path / "a.h5") as file:
        np.testing.assert_array_equal(file["frames"], frames)
        assert file["time"][:].tolist() == [0, 1, 2]
    with pytest.raises(ArgumentError, match="this file exists"):
        convert_pvp(tmp_path / "a.pvp", tmp_path / "a.npy", False)
    with pytest.raises(ArgumentError, match=r"\.npy or HDF5"):
        convert_pvp(tmp_path / "a.pvp", None, False)
