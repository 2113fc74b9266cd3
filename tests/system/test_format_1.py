"""A run of format 1, written by two ranks of an earlier version, opens, is merged and resumed."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import numpy as np
import pytest

import petabatch
from petabatch import simulation
from petabatch.errors import DamagedError, NotRecorded
from petabatch.storage.directory import RunDirectory
from petabatch.storage.merge import merge
from petabatch.storage.recovery import name_initial, refuse_unnamed
from petabatch.storage.rows import expected_segments
from support.commands import datasets

DATA = Path(__file__).parents[1] / "data" / "format_1.tar.xz"


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("format")
    with tarfile.open(DATA) as archive:
        archive.extractall(folder, filter="data")
    return folder / "format_1"


def test_it_opens_and_merges(old: Path, tmp_path: Path) -> None:
    with petabatch.open(old) as run:
        assert (run.attributes["petabatch_format"], run.status, run.steps_reached) == (1, "stopped", 40)
        code = run.layer("V1")[...]
        assert run.layer("V1").steps.tolist() == [10, 20, 30, 40]
    merged = merge(old, tmp_path / "merged.h5")
    assert np.array_equal(datasets(merged)["layers/V1/A"], code)


def test_it_is_resumed_as_if_it_had_never_stopped(old: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(old, tmp_path / "run")
    simulation.resume(folder, mpi=False, quiet=True, threads=1)
    simulation.run(simulation.read(folder / "params.py"), tmp_path / "new", mpi=False, quiet=True, threads=1)
    found, expected = (datasets(merge(path, f"{path}.h5")) for path in (folder, tmp_path / "new"))
    before = datasets(merge(old, tmp_path / "before.h5"))
    for name in ("layers/V1/A", "layers/V1/V", "probes/energy/total", "connections/dictionary/weights"):
        assert np.array_equal(found[name][: len(before[name])], before[name])
        # it was computed on another processor
        np.testing.assert_allclose(found[name], expected[name], rtol=1e-3, atol=1e-4, err_msg=name)
    with petabatch.open(folder) as run:  # what was shown before was not recorded
        assert run.shown("image", step=41) == run.shown("image", step=50)
        for step in (1, 40):
            with pytest.raises(
                NotRecorded, match="expected: a step of a display that has ended: steps 41 to"
            ):
                run.shown("image", step=step)
    named = (folder / "manifest.txt").read_text()
    assert all(segment.name in named for segment in expected_segments(RunDirectory.open(folder)))


def test_its_checkpoints_are_verified(old: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(old, tmp_path / "run")
    for path in (folder / "checkpoints").glob("*_rank_00001_*"):
        path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(DamagedError, match="rank_00001"):
        simulation.resume(folder, mpi=False, quiet=True, threads=1)


def test_it_is_resumed_however_early_it_was_killed(old: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(old, tmp_path / "run")
    directory = RunDirectory.open(folder)
    (folder / "run.h5").unlink()
    refuse_unnamed(directory)
    for path in (folder / "checkpoints").iterdir():
        path.unlink()
    refuse_unnamed(directory)
    name_initial(directory)
    named = {line.split(" ")[4] for line in (folder / "manifest.txt").read_text().splitlines()}
    assert named == {
        "params.json",
        "inputs.jsonl",
        *(f"data/{path.name}" for path in directory.data.iterdir()),
    }
