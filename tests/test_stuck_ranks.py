"""A rank that hangs ends all ranks in a stated time, with a message that names it; a slow one does not."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from conftest import BIN, Command
from test_cli import wait_for

from petabatch.storage.checkpoint import latest_checkpoint
from petabatch.storage.directory import RunDirectory

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


def process_of(log: Path) -> int:
    """Return the process id that a rank writes to its log."""
    match = re.search(r"process (\d+)", log.read_text())
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("rank", [0, 1])
def test_a_stopped_rank_ends_all_with_its_name(small: Path, rank: int) -> None:
    run = [BIN / "petabatch", "run", small, "--out", "cut", "-q"]
    more = ["-s", "run.displays=40000", "-s", "run.stuck_after=2s"]
    process = subprocess.Popen(
        [BIN / "mpirun", "-n", "2", *run, *more], cwd=small.parent, stderr=subprocess.PIPE, text=True
    )
    wait_for(small.parent / "cut" / "checkpoints" / "step_000000050.h5", process)
    log = small.parent / "cut" / ("log.txt" if rank == 0 else "log.rank1.txt")
    stopped = process_of(log)
    os.kill(stopped, signal.SIGSTOP)
    began = time.monotonic()
    _, errors = process.communicate(timeout=60)
    assert process.returncode != 0
    assert f"rank {rank} is stuck" in errors
    assert f"does not answer: is it stopped? (process {stopped} on " in errors
    assert time.monotonic() - began < 20
    while Path(f"/proc/{stopped}").exists() and time.monotonic() - began < 20:
        time.sleep(0.1)
    assert not Path(f"/proc/{stopped}").exists()
    # every byte of it is verified
    assert latest_checkpoint(RunDirectory.open(small.parent / "cut")) is not None


def test_a_rank_whose_steps_do_not_go_on_ends_all_with_its_name(small: Path, petabatch: Command) -> None:
    with_naps(small, "nap = 1000.0\nfirst = 25")
    failed = petabatch("run", small, "--out", "cut", "-q", "-s", "run.stuck_after=2s", ranks=3)
    assert failed.returncode != 0
    assert "rank 2 is stuck" in failed.stderr
    assert "it answers, but its steps do not go on" in failed.stderr
    assert (small.parent / "cut" / "checkpoints" / "step_000000020.h5").exists()


def test_a_slow_rank_and_those_that_wait_for_it_are_left_alone(small: Path, petabatch: Command) -> None:
    # A display takes longer than the limit, and a step much less, also on a busy machine.
    with_naps(small, "nap = 0.6")
    more = ("-s", "run.stuck_after=4s", "-s", "run.displays=1", "-s", "probes.energy.every=10")
    done = petabatch("run", small, "--out", "out", "-q", *more, ranks=3)
    assert done.returncode == 0, done.stderr
