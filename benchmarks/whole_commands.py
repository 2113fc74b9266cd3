"""Whole commands of two checkouts in turns: what surrounds the steps.

    python benchmarks/whole_commands.py OTHER [--pairs 7] [--only displays sweep brain pool simulator]

OTHER is another checkout; both are run by this interpreter. A command is a process of its own: a run of many
short displays, a sweep of 10,000 points, a sweep of a whole-brain model with delays, a pool of images, and
1,000 calls of 10 steps of a `Simulator`. Printed are the median and the quartiles of the ratio of times, this
checkout over the other: processor time of the process, its start included, and the peak of its memory. The
first pair fills the caches of compiled kernels and is not counted.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pool
import whole_brain

HERE = Path(__file__).resolve().parents[1]
LCA = HERE / "params" / "lca_fixed.toml"
SMALL = """
[run]
batch = 1
display = 100
displays = 1

[layers.cell]
type = "neurons"
shape = [1, 1, 8]
equations = "du/dt = (drive - u) / 20"
parameters = { drive = 1.0 }

[sweep]
wave = 1000
draw = "random"
draws = 10000
layers.cell.parameters.drive = { low = 0.0, high = 2.0 }

[output.layers.cell]
every = "50 steps"
"""
CALLS = """
from workloads import WORKLOADS
from petabatch import Simulator
with Simulator(WORKLOADS["W1"].network(), threads=1) as sim:
    for _ in range(1000):
        sim.step(10)
"""


def settings(lines: list[str]) -> list[str]:
    """Return the options that set keys."""
    return [part for line in lines for part in ("-s", line)]


def commands(folder: Path) -> dict[str, Callable[[Path], list[str]]]:
    """Return the arguments of the interpreter for each workload, by the directory of its output."""
    small, brain = folder / "small.toml", folder / "brain.toml"
    small.write_text(SMALL)
    brain.write_text(whole_brain.PARAMS)
    whole_brain.np.savez(folder / "edges.npz", **whole_brain.edges())
    displays = ["run.batch=4", "run.displays=1000", "run.display=10"]
    draws = ["sweep.draws=2000", "sweep.wave=500", "sweep.draw='random'"]
    ranges = whole_brain.STRENGTH, whole_brain.DRIVE
    for key, (low, high) in zip(whole_brain.KEYS, ranges, strict=True):
        draws.append(f"sweep.{key}={{low={low}, high={high}}}")

    def run(params: Path, lines: list[str]) -> Callable[[Path], list[str]]:
        options = ["--threads", "1", "-q", *settings(lines)]
        return lambda out: ["-m", "petabatch", "run", str(params), "--out", str(out), *options]

    return {
        "displays": run(LCA, displays),
        "sweep": run(small, []),
        "brain": run(brain, draws),
        "pool": run(LCA, pool.settings(100, 32, 1e-3)),
        "simulator": lambda out: ["-c", CALLS],
    }


def measure(checkout: Path, arguments: list[str], folder: Path) -> tuple[float, float]:
    """Return the processor time in seconds and the peak of the memory in MiB of a process."""
    path = os.pathsep.join(map(str, [checkout, checkout / "benchmarks"]))
    process = subprocess.Popen(
        [sys.executable, *arguments], cwd=folder, env={**os.environ, "PYTHONPATH": path}
    )
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{checkout}: {' '.join(arguments)} ended with {process.returncode}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--pairs", type=int, default=7)
    parser.add_argument("--only", nargs="+")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for workload, command in commands(folder).items():
            if given.only and workload not in given.only:
                continue
            ratios: list[tuple[float, float]] = []
            seconds: list[float] = []
            for pair in range(given.pairs + 1):
                found = {}
                order = [HERE, given.other.resolve()]
                for checkout in order if pair % 2 else order[::-1]:
                    out = folder / f"{workload}-{pair}-{order.index(checkout)}"
                    found[checkout] = measure(checkout, command(out), folder)
                    subprocess.run(["rm", "-rf", str(out)], check=True)
                if pair:
                    here, other = (found[checkout] for checkout in order)
                    ratios.append((here[0] / other[0], here[1] / other[1]))
                    seconds.append(here[0])
            low, middle, high = statistics.quantiles([one for one, _ in ratios], n=4)
            memory = statistics.median(one for _, one in ratios)
            print(
                f"{workload:10} {statistics.median(seconds):6.1f} s, {middle:.3f} times the other"
                f" ({low:.3f} to {high:.3f}); memory {memory:.3f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
