"""Hang detection: a rank that hangs ends all ranks within a stated time and is named; a slow one does not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import Simulator, session
from petabatch.engine import group, pool
from petabatch.engine.engine import Engine
from petabatch.parallel import watchdog
from petabatch.parallel.comm import Serial
from petabatch.parallel.watchdog import _DONE as DONE
from petabatch.parallel.watchdog import Monitor
from petabatch.storage.checkpoint import latest_checkpoint
from petabatch.storage.directory import RunDirectory
from petabatch.waves import checkpoints
from petabatch.waves import session as session_of_waves
from support.commands import BIN, Command, alone
from support.processes import (
    PATIENCE,
    descendants,
    process_of,
    wait_for_checkpoint,
    wait_for_end,
    wait_until,
)

pytestmark = pytest.mark.mpi

SLEEPY = """
import time
from typing import Literal
from petabatch.layers import Linear

class Sleepy(Linear):
    type: Literal["sleepy"] = "sleepy"
    nap: float
    first: int = 1

    def update(self, now, state, drive, previous, activity):
        if 2 in now.slices and now.step >= self.first:
            time.sleep(self.nap)
        super().update(now, state, drive, previous, activity)
"""


def with_naps(small: Path, naps: str) -> None:
    """Make the reconstruction of the last slice a layer that sleeps."""
    (small.parent / "sleepy.py").write_text(SLEEPY)
    text = small.read_text().replace(
        '[layers.recon]\ntype = "linear"', f'[layers.recon]\ntype = "sleepy"\n{naps}'
    )
    small.write_text('plugins = ["sleepy.py"]\n' + text)


def launched(small: Path, *more: str, ranks: int = 2, out: str = "cut") -> subprocess.Popen[str]:
    """Start a long run whose output is read when it ends."""
    run = ["-n", str(ranks), BIN / "petabatch", "run", small, "--out", out, "-q", "--threads", "1", *more]
    return subprocess.Popen([BIN / "mpirun", *run], cwd=small.parent, stderr=subprocess.PIPE, text=True)


FROZEN = ("-s", "connections.dictionary.learn.every='never'", "-s", "run.displays=2")
LONG = ("-s", "run.displays=1000000")
STUCK = ("-s", "run.stuck_after=200s")
SIMULATOR = """
import petabatch
network = petabatch.load("small.toml", ["run.stuck_after=200s", *{settings!r}])
with petabatch.Simulator(network, mpi=True) as sim:
    while True:
        sim.step(10)
        if sim.n_steps == 50:
            open(f"reached_{{sim.slices.start}}", "w").close()
"""


def ranks_of(process: subprocess.Popen[str]) -> dict[int, int]:
    """Return the processes of the ranks that mpirun has started, by rank."""
    found = {}
    for pid in descendants(process.pid):
        with suppress(OSError):
            environment = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
            ranks = [one.partition(b"=")[2] for one in environment if one.startswith(b"PMI_RANK=")]
            if ranks and not descendants(pid):
                found[int(ranks[0])] = pid
    return found


def stop_one(process: subprocess.Popen[str], rank: int) -> None:
    """Stop a rank, and see that all end with its name, within the time for a rank that is silent."""
    stopped = ranks_of(process)[rank]
    os.kill(stopped, signal.SIGSTOP)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode != 0
    assert 10 <= idle(errors, rank) <= 60
    assert f"(process {stopped} on " in errors
    assert "no heartbeat: is the process stopped" in errors
    wait_for_end([stopped])


@pytest.mark.long
@pytest.mark.parametrize(
    ("rank", "split"), [(0, ()), (1, ()), (1, ("-s", "parallel.rows=2"))], ids=["first", "last", "rows"]
)
def test_a_stopped_rank_ends_all_with_its_name(small: Path, rank: int, split: tuple[str, ...]) -> None:
    process = launched(small, *LONG, *STUCK, *split)
    wait_for_checkpoint(small.parent / "cut", 50, process)
    stop_one(process, rank)
    # every byte of it is verified
    assert latest_checkpoint(RunDirectory.open(small.parent / "cut")) is not None


@pytest.mark.long
@pytest.mark.parametrize("way", ["waves", "pool"])
def test_a_rank_that_is_stopped_among_points_ends_all_with_its_name(small: Path, way: str) -> None:
    """Points, or slices, that end at once are followed by some that do not."""
    settings = {
        "waves": ("-s", "sweep.run.seed={count=100000, start=1, stop=100000}", "-s", "sweep.wave=1"),
        "pool": ("-s", "run.pool=true", "-s", "run.batch=100000"),
    }[way]
    process = launched(small, *FROZEN, *settings, *STUCK)
    files = small.parent / "cut" / "points"
    wait_until(lambda: len(list(files.glob("*.h5"))) > 2)
    stop_one(process, 1)


@pytest.mark.long
@pytest.mark.parametrize("split", [[], ["parallel.rows=2"]], ids=["slices", "rows"])
def test_a_rank_that_is_stopped_under_a_simulator_ends_all_with_its_name(
    small: Path, split: list[str]
) -> None:
    (small.parent / "steps.py").write_text(SIMULATOR.format(settings=split))
    command = [BIN / "mpirun", "-n", "2", sys.executable, "steps.py"]
    process = subprocess.Popen(command, cwd=small.parent, stderr=subprocess.PIPE, text=True)
    wait_until(lambda: bool(list(small.parent.glob("reached_*"))))
    time.sleep(1)
    stop_one(process, 1)


@pytest.mark.timeout(900)
@pytest.mark.long
def test_without_any_settings_a_loop_without_end_ends_all_in_seconds(small: Path) -> None:
    with_naps(small, "nap = 1e6\nfirst = 25")
    process = launched(small, ranks=3)
    # A rank may take ten times as long as ever before, which is long if it stood still before.
    _, errors = process.communicate(timeout=600)
    assert process.returncode != 0
    assert idle(errors, 2) >= 15
    assert "heartbeats arrive, but its steps make no progress (" in errors
    assert (small.parent / "cut" / "checkpoints" / "step_000000020.h5").exists()


def idle(errors: str, rank: int) -> int:
    """Return for how many seconds a rank made no progress, by the message that ended the run."""
    match = re.search(rf"rank {rank} is stuck: no progress for (\d+) s\n", errors)
    assert match is not None, errors
    return int(match[1])


@pytest.mark.long
def test_a_slow_rank_and_those_that_wait_for_it_are_left_alone(small: Path, petabatch: Command) -> None:
    # A display takes longer than a hung rank would be given (10 s), and a step much less, also on a busy
    # machine.
    with_naps(small, "nap = 1.2")
    more = ("-s", "run.stuck_after=200s", "-s", "run.displays=1", "-s", "probes.energy.every=10")
    done = petabatch("run", small, "--out", "out", "-q", *more, ranks=3)
    assert done.returncode == 0, done.stderr


@pytest.mark.long
def test_ranks_are_watched_before_one_compiles_what_others_wait_for(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        real = getattr(session, name)
        return lambda *about, **more: (entered.append(name), real(*about, **more))[1]

    for name in ("Watch", "Progress"):  # kernels are compiled while progress is shown
        monkeypatch.setattr(session, name, noted(name))
    alone(small, "out", "run.displays=1")
    assert entered == ["Watch", "Progress"]


class Beats:
    """A ring of one rank, which keeps what it sends."""

    def __init__(self) -> None:
        self.sent: list[tuple[int, int]] = []

    def send(self, message: np.ndarray) -> None:
        self.sent.append((int(message[0]), int(message[1])))

    def receive(self) -> None:
        """Nothing comes."""


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Beats:
    """What a single process sends, which is watched as a rank is."""
    beats = Beats()
    monkeypatch.setattr(Serial, "ring", lambda self: beats)
    return beats


def test_a_callback_may_take_its_time(small: Path, beats: Beats) -> None:
    """Nothing is known of what a user's function does: it may draw, or ask."""
    seen: list[tuple[int, int]] = []
    with Simulator(small, mpi=False) as sim:
        sim.callback(lambda _: seen.append(beats.sent[-1]), every=[2])
        sim.step(3)
        assert seen == [(DONE, 0)]
        assert max(beats.sent) > (0, 0)
        assert beats.sent[-1] == (DONE, 0)


def test_a_rank_that_has_no_more_points_watches_another_until_all_have_none(
    small: Path, beats: Beats, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    leave, meet = watchdog.Watch.__exit__, Serial.any
    monkeypatch.setattr(watchdog.Watch, "__exit__", lambda *about: (done.append("leaves"), leave(*about))[1])
    monkeypatch.setattr(Serial, "any", lambda *about: (done.append("meets"), meet(*about))[1])
    alone(small, "out", *FROZEN[1::2], "sweep.run.seed=[1, 2]", "sweep.wave=1")
    assert done[-2:] == ["meets", "leaves"]


@pytest.mark.parametrize("way", [("sweep.run.seed=[1, 2]", "sweep.wave=2"), ("run.pool=true",)])
def test_planning_a_wave_or_a_pool_may_take_longer_than_a_rank_may_be_stuck(
    small: Path, beats: Beats, monkeypatch: pytest.MonkeyPatch, way: tuple[str, ...]
) -> None:
    start, during = Engine.start, list[tuple[int, int]]()
    # It watches itself.
    monkeypatch.setattr(beats, "receive", lambda: np.array([*beats.sent[-1], os.getpid()]))

    def slow(engine: Engine) -> None:
        first = len(beats.sent)
        wait_until(lambda: len(beats.sent) > first + 8)
        during.extend(beats.sent[first : first + 8])
        start(engine)

    monkeypatch.setattr(Engine, "start", slow)
    alone(small, "out", *FROZEN[1::2], *way, "run.stuck_after=40s")
    watching = Monitor(10.0)
    for beat in during:  # one in two seconds
        watching.note(2.0, np.array([*beat, os.getpid()]))
        assert not watching.stuck
    assert len(during) >= 8


def test_slices_of_a_pool_may_be_written_for_long(
    small: Path, beats: Beats, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[int, int]] = []
    commit = session_of_waves.PointsWriter.commit

    def committed(*about: Any) -> None:
        seen.append(beats.sent[-1])
        commit(*about)

    monkeypatch.setattr(checkpoints, "_COMMIT", 0.0)
    monkeypatch.setattr(session_of_waves.PointsWriter, "commit", committed)
    alone(small, "out", *FROZEN[1::2], "run.pool=true")
    assert seen
    assert all(flags & 2 for _, flags in seen)


def test_a_slice_of_a_pool_makes_progress_between_sync_events(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[pool.Pool] = []
    seen: list[int] = []
    make, begin = group.Group._make, pool.Pool.__init__

    def begun(self: pool.Pool, *about: Any) -> None:
        pools.append(self)
        begin(self, *about)

    def made(*about: Any) -> int:
        found = make(*about)
        seen.append(pools[0].progress)
        return found

    monkeypatch.setattr(pool.Pool, "__init__", begun)
    monkeypatch.setattr(group.Group, "_make", made)
    alone(small, "out", FROZEN[1], "run.batch=1", "run.displays=1", "run.pool=true")
    assert seen[-1] == 10  # of ten steps to the first sync event, which is not yet counted


def test_the_time_in_which_a_rank_was_not_watched_is_no_measure_of_its_steps() -> None:
    monitor = Monitor(200)
    monitor.note(0.1, np.array([1, 0, 1]))
    for _ in range(1000):
        monitor.note(1.0, np.array([DONE, 0, 1]))
    assert not monitor.stuck
    for _ in range(12):
        monitor.note(1.0, np.array([2, 0, 1]))
    assert monitor.stuck


STALLING = """
import ctypes
from typing import Literal
from petabatch.sources import ImageArray

class Stalling(ImageArray):
    type: Literal["stalling"] = "stalling"

    def open(self, shape, batch, seed):
        read = super().open(shape, batch, seed)

        def stalling(number, item):
            if number == 2 and item == 4:
                ctypes.PyDLL(None).sleep(12)  # blocks every other thread, as opening a file with h5py does
            return read(number, item)

        return stalling
"""


@pytest.mark.long
def test_a_run_survives_a_file_system_that_stalls_and_a_job_that_is_suspended(small: Path) -> None:
    (small.parent / "stalling.py").write_text(STALLING)
    stalling = small.read_text().replace('type = "array"', 'type = "stalling"')
    small.write_text('plugins = ["stalling.py"]\n' + stalling)
    # ten seconds for anything but files
    process = launched(small, "-s", "run.displays=1000000", "-s", "run.stuck_after=200s")
    wait_for_checkpoint(small.parent / "cut", 60, process)
    ranks = [process_of(small.parent / "cut" / log) for log in ("log.txt", "log.rank1.txt")]
    for rank in ranks:
        os.kill(rank, signal.SIGSTOP)
    time.sleep(12)
    for rank in ranks:
        os.kill(rank, signal.SIGCONT)
    time.sleep(1)
    os.kill(ranks[1], signal.SIGUSR1)
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3, errors
    assert "stopped at step" in errors


@pytest.mark.parametrize("times", [1, 30])
def test_how_long_a_rank_may_be_silent_or_make_no_progress_depends_on_what_it_does(times: int) -> None:
    waits, busy, new, works = 1, 2, 4, 0
    limit = 20.0 * times  # a twentieth is `times` seconds

    def given(flags: int, answers: bool, step: float) -> float:
        """Return after how many seconds a rank counts as stuck, when its steps took `step` seconds so far."""
        monitor, progress = Monitor(limit), 0
        for _ in range(5):
            progress += 1
            monitor.note(step, np.array([progress, works, 1]))
        monitor.note(0.01, np.array([progress, flags, 1]))
        for tenth in range(1000 * times):
            monitor.note(0.1, np.array([progress, flags, 1]) if answers else None)
            if monitor.stuck:
                return (tenth + 1) / 10
        return float("inf")

    assert given(works, False, 0.01) == pytest.approx(times, abs=0.2)
    assert given(works, True, 0.01) == pytest.approx(times, abs=0.2)
    assert given(works, False, 0.5 * times) == pytest.approx(times, abs=0.2)
    assert given(works, True, 0.5 * times) == pytest.approx(5 * times, abs=0.2)
    assert given(works, True, 5.0 * times) == pytest.approx(limit, abs=0.2)
    assert given(new, True, 0.01) == pytest.approx(limit, abs=0.2)
    assert given(new, False, 0.01) == pytest.approx(times, abs=0.2)
    assert given(busy, True, 0.01) == pytest.approx(limit, abs=0.2)
    assert given(busy, False, 0.01) == pytest.approx(limit, abs=0.2)
    assert given(waits, True, 0.01) == float("inf")
    assert given(waits, False, 0.01) == pytest.approx(times, abs=0.2)
