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

from petabatch import session
from petabatch.parallel.watchdog import Monitor
from petabatch.storage.checkpoint import latest_checkpoint
from petabatch.storage.directory import RunDirectory
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
