"""Scaling over two ranks, each pinned to a core and with one thread; cost and error of exact sums.

    mpirun -n 2 python benchmarks/ranks.py              # all; about five minutes
    mpirun -n 2 python benchmarks/ranks.py scaling run.kernel=dense      # or reduce, error; with overrides

scaling: the main job (params/natural_images.toml) on one rank, in two independent processes at the same
time, and on two ranks, one display of each in turn; and a breakdown of the time of two ranks.
reduce: exact and overlapped sums, interleaved, and how overlapping affects learning. error: the exact sum
against rational arithmetic.
"""

from __future__ import annotations

import math
import os
import statistics
import sys
import time
from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import cycle, permutations
from pathlib import Path

import numpy as np

from petabatch import simulation
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.parallel.comm import Comm, Pending, Serial, Sums, share
from petabatch.parallel.launch import connect
from petabatch.parallel.reduce import ExactSum

JOB = Path(__file__).parents[1] / "params" / "natural_images.toml"
ROUNDS, DISPLAYS = 20, 100


class Waiting:
    """Reductions over ranks that record how long this rank waits for them."""

    def __init__(self, sums: Sums) -> None:
        self.sums, self.seconds = sums, 0.0

    def start_sum(self, array: np.ndarray) -> Pending:
        """Start a sum."""
        return Waited(self, self.sums.start_sum(array))

    def start_max(self, array: np.ndarray) -> Pending:
        """Start a maximum."""
        return Waited(self, self.sums.start_max(array))


class Waited:
    """A pending operation whose wait is timed."""

    def __init__(self, waiting: Waiting, pending: Pending) -> None:
        self.waiting, self.pending = waiting, pending

    def test(self) -> bool:
        """Advance it."""
        return self.pending.test()

    def wait(self) -> None:
        """Wait until it is done."""
        begin = time.perf_counter()
        self.pending.wait()
        self.waiting.seconds += time.perf_counter() - begin


class Job:
    """The main job in memory, a display at a time."""

    def __init__(self, comm: Comm, *overrides: str) -> None:
        self.engine = Assembly.of(simulation.read(JOB, overrides).network, comm, threads=1).engine()
        self.waiting = self.engine.updates.reduction.sums = Waiting(comm)
        self.engine.start()
        self.steps: Iterator[int] = drive(self.engine)
        self.update = self.engine.updates.make
        self.engine.updates.make = self._timed_update  # type: ignore[method-assign]
        self.updating = 0.0

    def _timed_update(self, step: int) -> None:
        begin = time.perf_counter()
        self.update(step)
        self.updating += time.perf_counter() - begin

    def show(self) -> float:
        """Show every slice one image; return the seconds it took this rank."""
        self.waiting.seconds = self.updating = 0.0
        plan, begin = self.engine.plan, time.perf_counter()
        for step in self.steps:
            if step % plan.flush == 0:
                self.engine.recorder.take(step)
                self.engine.flushed()
            if step % plan.graph.network.run.display == 0:
                break
        return time.perf_counter() - begin

    def parts(self, seconds: float) -> tuple[float, float, float]:
        """Split the `seconds` of the last display into steps, updates and waiting for other ranks."""
        return seconds - self.updating, self.updating - self.waiting.seconds, self.waiting.seconds

    def energy(self) -> float:
        """Return the energy of the last display, the mean over local slices."""
        found = self.engine.recorder.latest("total")
        assert found is not None
        return found


def together(comm: Comm, seconds: float) -> float:
    """Return the time of the slowest rank."""
    return max(comm.broadcast(comm.gather(seconds)))


def alone(comm: Comm, job: Job) -> float:
    """Return the time rank 0 takes while the other ranks sleep."""
    seconds = job.show() if comm.rank == 0 else 0.0
    # any other collective would keep the cores of waiting ranks busy
    comm.start_max(np.zeros(1)).wait()
    return together(comm, seconds)


def scaling(comm: Comm, overrides: Sequence[str]) -> list[str]:
    half = (*overrides, "run.batch=8")
    small, large = Job(Serial(), *half), Job(Serial(), *overrides)
    copies, ranks = Job(Serial(), *half), Job(comm, *overrides)
    times: list[tuple[float, float, float, float]] = []
    factors: list[tuple[float, ...]] = []
    waits: list[list[float]] = []
    for _ in range(ROUNDS + 1):
        one, both = alone(comm, small), alone(comm, large)
        comm.barrier()
        apart = together(comm, copies.show())
        comm.barrier()
        mine = ranks.show()
        two = together(comm, mine)
        times.append((one, both, apart, two))
        steps, updates, waited = zip(*comm.broadcast(comm.gather(ranks.parts(mine))), strict=True)
        by_itself = comm.broadcast(large.parts(both))
        cores, images = by_itself[0] / sum(steps), statistics.mean(steps) / max(steps)
        factors.append((cores, images, both / two / 2 / cores / images))
        waits.append([min(waited), max(waited), statistics.mean(updates)])
    one, both, apart, two = (statistics.median(column) for column in zip(*times[1:], strict=True))
    weak, near, strong = (
        statistics.median(ratio)
        for ratio in zip(*((a / d, c / d, b / d / 2) for a, b, c, d in times[1:]), strict=True)
    )
    return [
        f"## Scaling: seconds a display (400 steps), median of {ROUNDS}\n",
        "| | slices | seconds | efficiency of two ranks against it |",
        "|---|---|---|---|",
        f"| one rank, the other core idle | 8 | {one:.3f} | {weak:.3f} (weak scaling) |",
        f"| one rank, the other core idle | 16 | {both:.3f} | {strong:.3f} (strong scaling) |",
        f"| two processes that know nothing of each other | 8 each | {apart:.3f} | {near:.3f} |",
        f"| two ranks | 16 | {two:.3f} | |",
        "\nStrong scaling is the product of three factors, median (mean):\n",
        "| | |",
        "|---|---|",
        *(
            f"| {what} | {statistics.median(column):.3f} ({statistics.mean(column):.3f}) |"
            for what, column in zip(
                (
                    "cores: steps by one rank, the other core idle, against those of two ranks, in sum",
                    "images: steps of a rank, the mean against those of the rank whose images are harder",
                    "petabatch: messages, updates that each rank makes, and all else",
                ),
                zip(*factors[1:], strict=True),
                strict=True,
            )
        ),
        "\nMilliseconds of a display, mean: "
        + ", ".join(
            f"{what} {1e3 * statistics.mean(column):.2f}"
            for what, column in zip(
                ("wait of the rank that is last", "of the other", "update without waits"),
                zip(*waits[1:], strict=True),
                strict=True,
            )
        ),
    ]


def reduce(comm: Comm, overrides: Sequence[str]) -> list[str]:
    ways = ("exact", "overlapped")
    jobs = {way: Job(comm, *overrides, f"run.reduce={way}") for way in ways}
    times: dict[str, list[float]] = {way: [] for way in ways}
    energies: dict[str, list[float]] = {way: [] for way in ways}
    # All orders equally often, since the order makes a difference of a few per cent.
    orders = cycle(permutations(ways))
    for _ in range(DISPLAYS):
        for way in next(orders):
            comm.barrier()
            times[way].append(together(comm, jobs[way].show()))
            energies[way].append(statistics.mean(comm.broadcast(comm.gather(jobs[way].energy()))))
    lines = [
        f"## Ways to sum: two ranks, batch 16, {DISPLAYS} displays in turns\n",
        "| `reduce` | seconds a display, median | median of ratios to `exact` |",
        "|---|---|---|",
    ]
    for way in ways:
        ratios = [a / b for a, b in zip(times[way][2:], times["exact"][2:], strict=True)]
        lines.append(f"| `{way}` | {statistics.median(times[way]):.4f} | {statistics.median(ratios):.4f} |")
    lines += [
        "\nEnergy at the end of a display, mean over slices and over ten displays:\n",
        "| displays | `exact` | `overlapped` | `overlapped` / `exact` |",
        "|---|---|---|---|",
    ]
    for first in range(0, DISPLAYS, 10):
        exact, late = (statistics.mean(energies[way][first : first + 10]) for way in ("exact", "overlapped"))
        lines.append(f"| {first + 1} to {first + 10} | {exact:.2f} | {late:.2f} | {late / exact:.4f} |")
    return lines


def error(comm: Comm, _: Sequence[str]) -> list[str]:
    lines = [
        "## Error of the exact sum, against rational arithmetic\n",
        "| slices | values | largest error / largest \\|x\\| of the feature | stated bound |",
        "|---|---|---|---|",
    ]
    rng = np.random.default_rng(1)
    for slices in (2, 16, 100):
        shape = (slices, 1, 1, 8, 8, 8, 3)
        kinds = {"normal": rng.normal(size=shape), "log-normal": np.exp(8 * rng.normal(size=shape))}
        for kind, values in kinds.items():
            lo, hi = share(slices, comm.rank, comm.size)
            found = ExactSum({"x": values[lo:hi]}, comm, slices, lo).wait()["x"].reshape(8, -1)
            flat = values.reshape(slices, 8, -1)
            worst = max(
                abs(Fraction(found[f, i]) - sum(map(Fraction, flat[:, f, i])))
                / Fraction(abs(flat[:, f]).max())
                for f in range(8)
                for i in range(found.shape[1])
            )
            # and half a unit in the last place, because the sum itself is a float64 here
            bound = 2.0 ** (2 * math.ceil(math.log2(slices)) - 63) + slices * 2.0**-53
            text = f"2^{math.log2(worst):.1f}" if worst else "0"
            lines.append(f"| {slices} | {kind} | {text} | 2^{math.log2(bound):.1f} |")
    return lines


def main() -> None:
    comm = connect(None)
    if comm.size != 2:
        sys.exit("start it on two ranks: mpirun -n 2 python benchmarks/ranks.py")
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[comm.local_rank % len(cores)]})
    parts = {"scaling": scaling, "reduce": reduce, "error": error}
    overrides = [one for one in sys.argv[1:] if "=" in one]
    for name in [one for one in sys.argv[1:] if "=" not in one] or parts:
        lines = parts[name](comm, overrides)
        if comm.rank == 0:
            print("\n".join(lines), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
