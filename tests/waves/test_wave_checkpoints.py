"""Checkpoints inside waves: a wave that is killed goes on, with the bits of one that is not."""

from __future__ import annotations

import logging
import signal
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import results, simulation
from petabatch.errors import StoppedEarly
from petabatch.report.information import describe
from petabatch.storage import wave
from petabatch.storage.wave import SavedWave
from petabatch.waves import checkpoints, compute, session
from petabatch.waves.checkpoints import WaveCheckpoints
from support.commands import Command

KEY = "layers.V1.threshold"
SETTINGS = ("connections.dictionary.learn.every='never'", "run.displays=2", "checkpoint.every=3")
SWEEP = (f"sweep.{KEY}=[0.2, 0.25, 0.3, 0.35, 0.4]", "sweep.wave=3")
GAINS = ("sweep.connections.recon_to_error.strength=[1.0, -80.0, 0.5]", "sweep.wave=3", "run.display=400")
"""One point makes numbers that are not finite, at the end of the first display."""


class Kill(Exception):
    """The process ends here."""


def start(file: Path, name: str, *settings: str) -> results.Results:
    """Run a sweep into a folder beside its params file."""
    loaded = simulation.read(file, [*SETTINGS, *settings])
    return simulation.run(loaded, file.parent / name, mpi=False, quiet=True)


def recorded(run: results.Results) -> dict[str, np.ndarray]:
    """Return all that a run recorded, and close it."""
    with run:
        return {name: run[name][...] for name in run} | run.coordinates


def assert_same(found: dict[str, np.ndarray], expected: dict[str, np.ndarray]) -> None:
    """Compare what two runs recorded, to the bit."""
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].tobytes() == values.tobytes(), name


def kill_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Make a checkpoint at each step at which slices meet, and end the process after so many."""
    monkeypatch.setattr(checkpoints, "_EVERY", 0.0)
    monkeypatch.setattr(checkpoints, "_PAUSE", 0.0)
    save = WaveCheckpoints.save
    left = [count]

    def counted(self: WaveCheckpoints, saved: SavedWave) -> None:
        save(self, saved)
        left[0] -= 1
        if not left[0]:
            raise Kill

    monkeypatch.setattr(WaveCheckpoints, "save", counted)


def steps_gone_on_from(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that receives the steps that waves go on from."""
    found, go_on = [], compute._go_on

    def seen(engine: object, before: SavedWave) -> None:
        found.append(before.step)
        go_on(engine, before)  # type: ignore[arg-type]

    monkeypatch.setattr(compute, "_go_on", seen)
    return found


def killed(small: Path, monkeypatch: pytest.MonkeyPatch, count: int, *settings: str) -> Path:
    """Return the directory of a run that was killed after its `count`-th checkpoint, and the file of that."""
    with monkeypatch.context() as patched:
        kill_after(patched, count)
        with pytest.raises(Kill):
            start(small, "waves", *settings)
    (file,) = wave.waves_of(small.parent / "waves")
    return file


@pytest.mark.parametrize(("count", "step"), [(1, 3), (5, 12)])  # slices meet after step 10, too
def test_a_killed_wave_goes_on_from_its_checkpoint(
    small: Path, monkeypatch: pytest.MonkeyPatch, count: int, step: int
) -> None:
    file = killed(small, monkeypatch, count, *SWEEP)
    assert "checkpoints        1, for a wave in progress\n" in describe(small.parent / "waves") + "\n"
    steps = steps_gone_on_from(monkeypatch)
    run = simulation.resume(small.parent / "waves", mpi=False, quiet=True)
    assert "checkpoints        none\n" in describe(small.parent / "waves") + "\n"
    assert steps == [step]
    assert not file.exists()
    assert_same(recorded(run), recorded(start(small, "whole", *SWEEP)))


def test_a_wave_does_not_keep_what_it_has_gone_on_from(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its state and its records would be held twice, and its file would stay open."""
    killed(small, monkeypatch, 1, *SWEEP)
    found, kept = list[weakref.ref[SavedWave]](), list[bool]()
    load, put = wave.load, compute.Recorded.put

    def noted(path: Path) -> SavedWave:
        saved = load(path)
        found.append(weakref.ref(saved))
        return saved

    def seen(*arguments: Any) -> None:
        kept.extend(one() is not None for one in found)
        put(*arguments)

    monkeypatch.setattr(wave, "load", noted)
    monkeypatch.setattr(compute.Recorded, "put", seen)
    simulation.resume(small.parent / "waves", mpi=False, quiet=True).close()
    assert kept
    assert not any(kept)


def test_a_wave_that_is_killed_twice_goes_on_from_the_later_checkpoint(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed(small, monkeypatch, 1, *SWEEP)
    with monkeypatch.context() as patched:
        kill_after(patched, 2)
        with pytest.raises(Kill):
            simulation.resume(small.parent / "waves", mpi=False, quiet=True)
    assert len(wave.waves_of(small.parent / "waves")) == 2
    steps = steps_gone_on_from(monkeypatch)
    run = simulation.resume(small.parent / "waves", mpi=False, quiet=True)
    assert steps == [9]
    assert not wave.waves_of(small.parent / "waves")
    assert_same(recorded(run), recorded(start(small, "whole", *SWEEP)))


def test_a_signal_stops_a_wave_with_a_checkpoint(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    due = WaveCheckpoints.due.fget
    assert due is not None

    def signalled(self: WaveCheckpoints) -> bool:
        signal.raise_signal(signal.SIGTERM)
        return due(self)

    with monkeypatch.context() as patched:
        patched.setattr(WaveCheckpoints, "due", property(signalled))
        with pytest.raises(StoppedEarly, match="stopped with 0 of 5 points"):
            start(small, "waves", *SWEEP)
    steps = steps_gone_on_from(monkeypatch)
    run = simulation.resume(small.parent / "waves", mpi=False, quiet=True)
    assert steps == [6]  # the signal came after the look at whether to stop at step 3
    assert_same(recorded(run), recorded(start(small, "whole", *SWEEP)))


def test_a_point_that_failed_before_the_checkpoint_stays_failed(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    every = ("checkpoint.every=450", *GAINS)
    file = killed(small, monkeypatch, 1, *every)
    assert {step for _, step in wave.load(file).failures.values()} == {400}
    run = simulation.resume(small.parent / "waves", mpi=False, quiet=True)
    assert run.coordinates["failed"].tolist() == [-1] * 3 + [400] * 3 + [-1] * 3
    assert_same(recorded(run), recorded(start(small, "whole", *every)))


def test_a_damaged_checkpoint_is_not_used(
    small: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = killed(small, monkeypatch, 1, *SWEEP)
    text = bytearray(file.read_bytes())
    text[len(text) // 2] ^= 4
    file.write_bytes(text)
    steps = steps_gone_on_from(monkeypatch)
    with caplog.at_level(logging.WARNING, "petabatch"):
        run = simulation.resume(small.parent / "waves", mpi=False)
    assert "damaged" in caplog.text
    assert steps == []
    assert_same(recorded(run), recorded(start(small, "whole", *SWEEP)))


def test_a_checkpoint_of_other_software_is_not_used(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = killed(small, monkeypatch, 1, *SWEEP)
    monkeypatch.setattr(session, "other_software", lambda *_: ["numpy 1.0"])
    steps = steps_gone_on_from(monkeypatch)
    simulation.resume(small.parent / "waves", mpi=False, quiet=True)
    assert steps == []
    assert not file.exists()


def test_ranks_go_on_with_a_wave_of_one(
    small: Path, monkeypatch: pytest.MonkeyPatch, petabatch: Command
) -> None:
    killed(small, monkeypatch, 1, *SWEEP)
    done = petabatch("resume", small.parent / "waves", "-q", ranks=2)
    assert done.returncode == 0, done.stderr
    assert not wave.waves_of(small.parent / "waves")
    found = recorded(results.open(small.parent / "waves"))
    assert_same(found, recorded(start(small, "whole", *SWEEP)))


def test_a_wave_of_one_long_display_meets_on_its_way(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    long = ("run.displays=1", "run.display=400", "checkpoint.every='never'", *SWEEP)
    monkeypatch.setattr(compute, "_OPERATIONS", 1e3)
    assert wave.step_of(killed(small, monkeypatch, 1, *long)) < 400
