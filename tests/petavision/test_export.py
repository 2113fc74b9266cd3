"""Runs as PetaVision's files, and its frames as arrays."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.errors import ArgumentError
from petabatch.petavision import read
from petabatch.petavision.arrays import convert_pvp
from petabatch.petavision.export import export
from petabatch.petavision.pvp import write_activities, write_weights
from petabatch.sources.pvp import Activities, Weights
from petabatch.storage.checkpoint import latest_checkpoint, load_checkpoint
from petabatch.storage.directory import RunDirectory
from support import fuzz_pvp
from support.commands import alone
from support.petavision_checkpoint import checkpoint, net


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
    with pytest.raises(ArgumentError, match=r"(?s)not empty.*choose another folder"):
        list(export(tmp_path / "run", tmp_path / "out"))


def test_the_latest_checkpoint_is_one_of_petavision_from_which_its_network_starts(tmp_path: Path) -> None:
    before = checkpoint(tmp_path)
    alone(net(tmp_path, True), "run")
    written = {path.relative_to(tmp_path / "out") for path, _ in export(tmp_path / "run", tmp_path / "out")}
    after = Path("Checkpoints") / "Checkpoint4"
    names = {"C_V.pvp", "CToO_W.pvp", "CToO_prev_dW.pvp"}
    assert {path.name for path in written if path.parent == after} == names
    for name in names:  # the layout is that of the file before, with other numbers
        now, then = ((folder / name).read_bytes() for folder in (tmp_path / "out" / after, before))
        assert len(now) == len(then)
        assert now[:72] == then[:72]
    (one,) = read(net(tmp_path, False), tmp_path, checkpoint=tmp_path / "out" / after)
    (tmp_path / "again.toml").write_text(one.text)
    found = in_memory.run(petabatch.load(tmp_path / "again.toml"), [0]).states
    head = latest_checkpoint(RunDirectory(tmp_path / "run"))
    assert head is not None
    arrays, _ = load_checkpoint(head, 0, 2)
    for key in ("layers/C/V", "connections/CToO/weights", "connections/CToO/momentum"):
        np.testing.assert_array_equal(found[key][0], arrays[key])
    assert (arrays["connections/CToO/momentum"] != 0).any()


@pytest.mark.parametrize("kind", [3, 4, 5, 6])
def test_files_have_the_layout_of_petavision_to_the_byte(kind: int, tmp_path: Path) -> None:
    """As `BufferUtilsPvp.hpp` has it; the numbers here were written down from its files."""
    values = np.array([0.5, 2.0, 0.0 if kind in (4, 6) else 0.25], np.float32)
    file = tmp_path / "a.pvp"
    if kind in (4, 6):
        write_activities(file, (1, 3, 1), [(4.0, values.reshape(1, 3, 1))], sparse=kind == 6)
        head = (80, 20, kind, 3, 1, 1, 1, *((0, 8) if kind == 6 else (3, 4)), 3, 1, 1, 3, 1, 0, 0, 1, 1, 0.0)
        body = struct.pack("<d", 4.0)
        body += struct.pack("<iIfIf", 2, 0, 0.5, 1, 2.0) if kind == 6 else values.tobytes()
    else:
        write_weights(file, [(4.0, values.reshape(1, 1, 1, 1, 3, 1))], None if kind == 5 else (1, 2))
        head = (104, 26, kind, 1 if kind == 5 else 2, 1, 1, 1, 0, 4, 3, 1, 1, 1, 1, 0, 0, 1, 1, 4.0)
        body = struct.pack("<3i2fi", 3, 1, 1, 0.25, 2.0, 1) + struct.pack("<2HI", 3, 1, 0) + values.tobytes()
    assert file.read_bytes() == struct.pack("<18id", *head) + body


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


def test_damaged_files_are_read_or_refused(tmp_path: Path) -> None:
    """The short form of `tests/support/fuzz_pvp.py`."""
    files = fuzz_pvp.good(tmp_path)
    assert {fuzz_pvp.outcome(number, files, tmp_path) for number in range(100)} == {"read", "refused"}
