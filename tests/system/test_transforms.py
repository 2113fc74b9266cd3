"""Transforms in whole runs: the same bits on ranks, threads and after resuming; what is fitted is kept."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import coding, results, simulation
from petabatch.errors import InputFileError, RunDirectoryError
from petabatch.sources.transforms import ZCA
from support.commands import BIN, SMALL, Command, alone, contents
from support.processes import kill_all, wait_for_checkpoint, with_gate

STEPS = """
    { type = "crop", size = [10, 10], jitter = [1, 0] }, { type = "flip" }, { type = "resize" },
    { type = "zca", samples = 60, epsilon = 0.01 }, { type = "noise", std = 0.1 },
    { type = "normalize" },
"""
SOURCE = f'{{ type = "array", file = "images.npy", order = "shuffled", transforms = [{STEPS}] }}'
TEXT = SMALL.replace('{ type = "array", file = "images.npy" }', SOURCE)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run on one rank and two threads."""
    folder = tmp_path_factory.mktemp("transforms")
    images = np.random.default_rng(3).normal(size=(7, 12, 12, 3))
    np.save(folder / "images.npy", (images + np.roll(images, 1, axis=2)).astype(np.float32))
    (folder / "small.toml").write_text(TEXT)
    alone(folder / "small.toml", "one", threads=2)
    return folder


def refuse(self: ZCA, read: Any) -> ZCA:
    raise AssertionError("it is fitted again")


@pytest.mark.mpi
@pytest.mark.long
def test_a_run_on_two_ranks_that_is_killed_goes_on_with_the_same_bits_and_what_was_fitted(
    folder: Path, petabatch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    held, gate = with_gate(folder / "small.toml", 20)
    command = [BIN / "mpirun", "-n", "2", BIN / "petabatch", "run", held, "--out", "cut", "-q"]
    process = subprocess.Popen(command, cwd=folder)
    wait_for_checkpoint(folder / "cut", 20, process)
    kill_all(process)
    gate.unlink()
    resumed = petabatch("resume", folder / "cut", "-q", ranks=3)
    assert resumed.returncode == 0, resumed.stderr
    assert contents(folder / "cut" / "run.h5") == contents(folder / "one" / "run.h5")
    monkeypatch.setattr(ZCA, "fitted", refuse)
    with pytest.raises(RunDirectoryError, match="already done"):  # after its images are opened
        simulation.resume(folder / "cut", mpi=False, quiet=True, threads=1)


def test_images_are_encoded_with_the_transforms_of_the_run_but_for_random_choices(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ZCA, "fitted", refuse)
    images = np.load(folder / "images.npy")[:3]
    found = coding.encode(images, folder / "one", size=(12, 12), threads=1)
    kept = {array.ndim: array for array in map(np.load, sorted((folder / "one" / "data").glob("*.npy")))}
    with results.open(folder / "one") as run:
        learned = run.weights("dictionary")[-1]
    steps = [
        {"type": "crop", "size": (10, 10), "position": "center"}, {"type": "resize"},
        {"type": "zca", "mean": kept[1], "matrix": kept[2], "epsilon": 0.01}, {"type": "normalize"},
    ]  # fmt: skip
    table = {"type": "array", "data": images, "transforms": steps}
    expected = coding.encode(table, learned, 0.3, stride=2, size=(12, 12), threads=1)
    np.testing.assert_array_equal(found.activity, expected.activity)
    plain = coding.encode(images, folder / "one", normalize="none", threads=1)
    assert not np.array_equal(plain.activity, found.activity)


def test_a_file_of_codes_says_how_images_were_transformed(folder: Path) -> None:
    import h5py

    out = folder / "codes.h5"
    coding.encode(np.load(folder / "images.npy")[:1], folder / "one", size=(12, 12), threads=1, out=out)
    with h5py.File(out) as file:
        steps = json.loads(file.attrs["transforms"])
    assert [step["type"] for step in steps] == ["crop", "resize", "zca", "normalize"]
    assert steps[2]["matrix"].startswith("in memory: float64 [432, 432]")


def test_what_only_held_out_images_need_is_fitted_once_and_kept(
    folder: Path, petabatch: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    np.save(folder / "own.npy", 3 * np.load(folder / "images.npy")[::-1])
    held_out = '{ type = "array", file = "own.npy", transforms = [{ type = "zca", samples = 7 }] }'
    text = SMALL + f'\n[evaluate]\nsource = {held_out}\nevery = "3 displays"\n'
    (folder / "own.toml").write_text(text)
    calls = []
    fitted = ZCA.fitted
    monkeypatch.setattr(ZCA, "fitted", lambda self, read: calls.append(1) or fitted(self, read))
    run = alone(folder / "own.toml", "own")
    assert len(calls) == 1
    (step,) = json.loads((run / "params.json").read_text())["evaluate"]["source"]["transforms"]
    assert step["matrix"].startswith("in memory: float64 [432, 432]")
    (folder / "own.toml").write_text(text.replace("own.npy", "gone.npy"))
    with pytest.raises(InputFileError, match=r"own.toml:\d+: evaluate.source.file: "):
        simulation.run(folder / "own.toml", folder / "gone", mpi=False, quiet=True)
