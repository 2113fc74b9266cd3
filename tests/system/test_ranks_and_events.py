"""Signals, faults and schedules on several ranks, with real mpirun."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import numpy as np
import pytest

from petabatch import results
from support.commands import BIN, Command, alone, contents
from support.processes import PATIENCE, process_of, wait_for_checkpoint, with_gate

pytestmark = pytest.mark.mpi

FLIPPING = """
import os
from typing import Literal

from petabatch.learning import Hebbian


class Flipping(Hebbian):
    type: Literal["flipping"] = "flipping"

    def change(self, weights, product, counts, state, update, slices, xp):
        super().change(weights, product, counts, state, update, slices, xp)
        if update == 2 and os.environ.get("PMI_RANK") == "1":
            bits = weights.reshape(-1).view("uint32")
            bits[17] ^= 1 << 20
"""


def test_one_flipped_bit_on_one_rank_is_caught_at_the_next_check(small: Path, petabatch: Command) -> None:
    (small.parent / "flipping.py").write_text(FLIPPING)
    text = small.read_text().replace('learn = { type = "hebbian"', 'learn = { type = "flipping"')
    small.write_text('plugins = ["flipping.py"]\n' + text)
    failed = petabatch("run", small, "--out", "out", "-q", "-s", "run.verify=2", ranks=3)
    assert failed.returncode != 0
    assert "weights of connection dictionary: differs between ranks" in failed.stderr
    assert "on ranks 0, 2" in failed.stderr
    assert "on rank 1" in failed.stderr
    # update 2 is made at step 30, the check is with update 3 at step 40: no checkpoint holds that step
    steps = sorted((small.parent / "out" / "checkpoints").glob("step_?????????.h5"))
    assert [int(path.stem[5:]) for path in steps] == [20, 30]


@pytest.mark.long
def test_sigusr1_to_one_rank_stops_all_and_they_resume_on_other_threads(
    small: Path, petabatch: Command
) -> None:
    more = ["-q", "-s", "run.displays=30", "-s", "run.batch=4"]
    held, gate = with_gate(small, 50)
    process = subprocess.Popen(
        [BIN / "mpirun", "-n", "2", BIN / "petabatch", "run", held, "--out", "cut", "--threads", "1", *more],
        cwd=small.parent,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_checkpoint(small.parent / "cut", 50, process)
    os.kill(process_of(small.parent / "cut" / "log.rank1.txt"), signal.SIGUSR1)
    gate.unlink()
    _, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 3
    assert "stopped at step" in errors
    assert petabatch("resume", "cut", "-q", "--threads", "2").returncode == 0
    expected = contents(alone(small, "one", "run.displays=30", "run.batch=4") / "run.h5")
    assert contents(small.parent / "cut" / "run.h5") == expected


def test_a_run_goes_on_with_the_other_kernel_to_rounding(small: Path, petabatch: Command) -> None:
    alone(small, "whole")
    first = ("-s", "run.displays=3", "-s", "run.kernel=array")
    assert petabatch("run", small, "--out", "array", "-q", *first).returncode == 0
    on = petabatch("run", small, "--out", "auto", "-q", "-s", "run.start_from=array", ranks=2)
    assert on.returncode == 0, on.stderr
    with results.open(small.parent / "whole") as whole, results.open(small.parent / "auto") as auto:
        np.testing.assert_allclose(auto.weights("dictionary")[-1], whole.weights("dictionary")[-1], atol=1e-4)
        total = whole.probe("energy")["total"][-1]
        np.testing.assert_allclose(auto.probe("energy")["total"][-1], total, rtol=1e-4)


COUNTING = """
from typing import Literal

from petabatch.learning import Hebbian


class Counting(Hebbian):
    type: Literal["counting"] = "counting"

    def change(self, weights, product, counts, state, update, slices, xp):
        weights += self.rate_at(update)
"""


def test_rates_and_triggers_follow_the_images_on_any_number_of_ranks(small: Path, petabatch: Command) -> None:
    (small.parent / "counting.py").write_text(COUNTING)
    learn = (
        'learn = { type = "counting", every = "2 displays", offset = 5, rate = 1.0, '
        "rate_decay = { every = 1, fraction = 0.5 } }"
    )
    lines = [learn if line.startswith("learn") else line for line in small.read_text().splitlines()]
    lines = [line for line in lines if not line.startswith("normalize")]
    small.write_text("\n".join(['plugins = ["counting.py"]', *lines]))
    for ranks in (0, 3):
        done = petabatch("run", small, "--out", f"ranks{ranks}", "-q", ranks=ranks)
        assert done.returncode == 0, done.stderr
        with results.open(small.parent / f"ranks{ranks}") as run:
            weights = run.weights("dictionary")
            added = [float((weights[k + 1] - weights[0]).mean()) for k in range(6)]
        # updates at the steps 5, 25 and 45; weights are written at 10, 20, ... 60
        np.testing.assert_allclose(added, [1, 1, 1.5, 1.5, 1.75, 1.75], atol=1e-6)
