"""Pools of slices on an emulated GPU, against those on the CPU."""

from __future__ import annotations

import signal
from pathlib import Path

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.engine import assembly
from petabatch.engine.gpu.arrays import slice_bytes
from petabatch.engine.gpu.prefetch import Prefetch
from petabatch.engine.pool import Pool
from petabatch.errors import StoppedEarly
from petabatch.network.build import build
from petabatch.report.information import describe
from petabatch.waves import items
from petabatch.waves import run as runs
from support.commands import Command
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
FROZEN = (
    "connections.dictionary.learn.every='never'",
    "run.batch=7",
    "run.display=30",
    "run.displays=2",
    "run.until={gap=0.2, every=5}",
    "layers.V1.tau=5.0",
    "layers.V1.threshold={slices=[0.3, 0.35, 0.3, 0.4, 0.45, 0.3, 0.5]}",
    "layers.V1.start={V={type='gaussian', std=0.1, per_slice=true}}",
    "probes.optimality={type='optimality', image='image', reconstruction='recon', code='V1', drive='drive', "
    "coefficient=0.3, every='display'}",
)
POOL = ("run.pool=true", "run.device='gpu'")


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedGpu:
    device = EmulatedGpu()
    monkeypatch.setattr(assembly, "choose", lambda wanted, _: device if wanted.run.device == "gpu" else None)
    monkeypatch.setattr(runs, "require", lambda: None)
    monkeypatch.setattr(items, "MOST", 3)
    return device


def coded(file: Path, name: str, *settings: str) -> results.Results:
    """Code seven images into a folder beside the params file."""
    loaded = simulation.read(file, [*FROZEN, *settings])
    return simulation.run(loaded, file.parent / name, mpi=False, quiet=True)


def compare(found: results.Results, expected: results.Results, slices: list[int]) -> None:
    """Compare what is recorded of some slices; close both runs."""
    with found, expected:
        assert found.differing.keys() == expected.differing.keys()
        for name in expected:
            assert found[name].shape == expected[name].shape
            batched = expected[name].dims[1:2] == ("batch",)
            mine, theirs = (one[name][:, slices] if batched else one[name][...] for one in (found, expected))
            scale = np.abs(theirs).max(initial=1e-30)
            np.testing.assert_allclose(mine, theirs, rtol=0, atol=3e-4 * scale, err_msg=name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("kernel", "most"), [("display", 1), ("display", 3), ("step", 1), ("step", 7), ("array", 1), ("array", 3)]
)
def test_slices_are_those_of_the_cpu(
    small: Path, monkeypatch: pytest.MonkeyPatch, kernel: str, most: int
) -> None:
    monkeypatch.setattr(items, "MOST", most)
    run = coded(small, "pool", *POOL, f"run.kernel='{kernel}'")
    assert run.attributes["points"] == {"all": 7, "finished": 7, "failed": 0, "why": {}}
    assert len(np.unique(run["probes/until/steps"][...])) > 2
    compare(run, coded(small, "whole"), list(range(7)))


def test_slices_that_do_not_fit_take_turns(small: Path, gpu: EmulatedGpu) -> None:
    graph = build(simulation.read(small, [*FROZEN, *POOL]).network)
    gpu.memory = 2.5 * slice_bytes(graph) / 0.85
    compare(coded(small, "pool", *POOL), coded(small, "whole"), list(range(7)))


def test_one_that_fails_lets_the_others_go_on(small: Path) -> None:
    expected = coded(small, "whole")
    images = np.load(small.parent / "images.npy")
    images[4] = np.nan
    np.save(small.parent / "images.npy", images)
    run = coded(small, "pool", *POOL, "run.kernel='array'")
    assert run.coordinates["failed"].tolist() == [-1] * 4 + [0] + [-1] * 2
    compare(run, expected, [n for n in range(7) if n != 4])
    assert "failed             threshold 0.45: step 0: " in describe(small.parent / "pool")


def test_no_memory_is_kept_for_slices_that_have_left(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = []
    before = Prefetch.fill

    def fill(self: Prefetch, name: str, slices: range, item: int, into: object) -> None:
        before(self, name, slices, item, into)
        kept.append(len(self._buffers))

    monkeypatch.setattr(Prefetch, "fill", fill)
    coded(small, "pool", *POOL)
    assert max(kept) == 3


def test_one_that_was_stopped_goes_on_with_what_is_left(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Pool._together

    def together(self: Pool, slot: range, numbers: list[int]) -> object:
        done = made(self, slot, numbers)
        signal.raise_signal(signal.SIGTERM)
        return done

    with monkeypatch.context() as patched:
        patched.setattr(Pool, "_together", together)
        with pytest.raises(StoppedEarly, match=r"with [036] of 7 slices"):
            coded(small, "pool", *POOL)
    again = simulation.resume(small.parent / "pool", mpi=False, quiet=True)
    compare(again, coded(small, "whole"), list(range(7)))


def test_check_says_how_many_at_once_where_there_is_no_gpu(small: Path, petabatch: Command) -> None:
    settings = [f"-s{text}" for text in (*FROZEN, *POOL)]
    done = petabatch("check", small, *settings)
    assert done.returncode == 0, done.stderr
    assert "7 slices, up to 7 at a time on a GPU, which wait for each other" in " ".join(done.stdout.split())
