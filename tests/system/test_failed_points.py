"""Points of a sweep in one batch that are not finite: they fail alone, as in waves, on ranks and resumed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.errors import ArgumentError, StoppedEarly
from petabatch.results import Results
from petabatch.session import RunSession
from petabatch.storage.checkpoint import load_checkpoint
from support.commands import Command, alone, set_all

STRENGTHS = "sweep.connections.recon_to_error.strength=[1.0, -80.0, 0.5]"
SETTINGS = ("connections.dictionary.learn.every='never'", "run.displays=3", "run.display=400", STRENGTHS)


def recorded(run: Results) -> dict[str, np.ndarray]:
    """Return all that a run recorded, and what its slices differ in."""
    with run:
        return {name: run[name][...] for name in run} | run.coordinates


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare what two runs recorded, to the bit."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tobytes() == values.tobytes(), name


@pytest.fixture
def in_waves(small: Path) -> dict[str, np.ndarray]:
    """What the same points record that are computed one by one."""
    return recorded(results.open(alone(small, "waves", *SETTINGS, "sweep.wave=1")))


@pytest.mark.parametrize("ranks", [0, pytest.param(2, marks=pytest.mark.mpi)])
def test_they_record_what_they_do_in_waves(
    small: Path, petabatch: Command, in_waves: dict[str, np.ndarray], ranks: int
) -> None:
    out = small.parent / "batch"
    done = petabatch("run", small, "--out", out, "-q", *set_all(*SETTINGS), ranks=ranks)
    assert done.returncode == 4, done.stderr
    assert "1 points failed" in done.stderr
    assert "point 1 failed at step 400" in (out / "log.txt").read_text()
    with results.open(out) as run:
        assert (run.status, run.failed, run.steps_reached) == ("done", 1, 1200)
    assert_same(recorded(results.open(out)), in_waves)
    page = petabatch("info", out).stdout
    assert "display 3 of 3, 1 failed points" in page
    assert "strength -80: step 400: " in page
    with pytest.raises(ArgumentError, match="in waves alone"):
        simulation.resume(out, mpi=False, quiet=True, retry_failed=True)


def test_checkpoints_have_them_and_resumed_runs_leave_them_alone(
    small: Path, in_waves: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    out = small.parent / "batch"
    with monkeypatch.context() as patched:
        patched.setattr(RunSession, "_out_of_time", lambda session: session.engine.step >= 800)
        with pytest.raises(StoppedEarly):
            alone(small, "batch", *SETTINGS)
    head = out / "checkpoints" / "step_000000800.h5"
    arrays, meta = load_checkpoint(head, 0, 9)
    assert [[number, step] for number, _, step in meta["failed"]] == [[3, 400], [4, 400], [5, 400]]
    assert not arrays["layers/V1/V"][3:6].any()
    assert all(np.isfinite(array).all() for array in arrays.values() if array.dtype.kind == "f")
    assert_same(recorded(simulation.resume(out, mpi=False, quiet=True)), in_waves)


def test_a_checkpoint_before_they_are_found_has_their_numbers(
    small: Path, in_waves: dict[str, np.ndarray], monkeypatch: pytest.MonkeyPatch
) -> None:
    out, settings = small.parent / "batch", (*SETTINGS, "checkpoint.every='100 steps'")
    with monkeypatch.context() as patched:
        patched.setattr(RunSession, "_out_of_time", lambda session: session.engine.step >= 300)
        with pytest.raises(StoppedEarly):
            alone(small, "batch", *settings)
    arrays, meta = load_checkpoint(out / "checkpoints" / "step_000000300.h5", 0, 9)
    assert "failed" not in meta
    assert not np.isfinite(arrays["layers/V1/V"][3:6]).all()
    assert_same(recorded(simulation.resume(out, mpi=False, quiet=True)), in_waves)


def test_a_run_that_starts_from_theirs_is_told(small: Path, caplog: pytest.LogCaptureFixture) -> None:
    first = alone(small, "first", *SETTINGS)
    with caplog.at_level("WARNING", "petabatch"):
        alone(small, "second", *SETTINGS[:1], "run.displays=4", *SETTINGS[2:], f"run.start_from={first}")
    assert "slices 3, 4, 5 had failed there" in caplog.text


def test_without_a_sweep_they_end_the_run(small: Path, petabatch: Command) -> None:
    settings = (*SETTINGS[:3], "connections.recon_to_error.strength=-80.0")
    done = petabatch("run", small, "--out", small.parent / "one", "-q", *set_all(*settings))
    assert done.returncode == 1
    assert "is no longer finite at step 400" in done.stderr
