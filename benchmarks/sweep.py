"""Time of a sweep of 8 thresholds x 4 slices against the 8 runs of 4 slices, in turns.

    python benchmarks/sweep.py [--rounds 5] [--threads 2] [--json FILE]

Steps: engines in this process, from the first step to the last, without files, for the sparse-coding loop by
the kernel that `auto` chooses and for two layers. Whole runs: `petabatch run` of the loop in processes of
their own, with their start and files. Of both, the time on the clock and the time of the processor. Shown are
medians and quartiles over rounds of the ratio; the goal is at most 1.05.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from common import introduce, keep, options, table

from petabatch import simulation
from petabatch.bench.trial import Trial, run

KEY, VALUES = "layers.V1.threshold", (0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65)
SWEPT = f"{KEY}={','.join(map(str, VALUES))}"
NETWORKS = {
    "loop": ("params/lca_fixed.toml", ("run.batch=4", "run.displays=1")),
    "two layers": ("params/two_layer.toml", ("run.batch=4", "run.display=100")),
}
_ROOT = Path(__file__).parents[1]
Seconds = tuple[float, float]
"""On the clock, of the processor."""


def steps(trials: Sequence[Trial], threads: int) -> Seconds:
    """Return the seconds of all steps of these networks, one after the other."""
    wall = processor = 0.0
    for trial in trials:
        engine = trial.engine(threads)
        begin = time.process_time()
        wall += run(engine)
        processor += time.process_time() - begin
    return wall, processor


def processes(commands: Sequence[Sequence[str]]) -> Seconds:
    """Return the seconds of these runs, one after the other, from their start to their end."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    for command in commands:
        with tempfile.TemporaryDirectory() as folder:
            out = ["--out", str(Path(folder) / "out"), "-q"]
            subprocess.run([sys.executable, "-m", "petabatch", "run", *command, *out], cwd=_ROOT, check=True)
    wall, after = time.perf_counter() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def in_turns(together: Callable[[], Seconds], apart: Callable[[], Seconds], rounds: int) -> dict[str, Any]:
    """Return the seconds of both, round by round; who comes first alternates."""
    found: dict[str, list[Seconds]] = {"together": [], "apart": []}
    for number in range(rounds):
        jobs = [("together", together), ("apart", apart)]
        for name, job in jobs if number % 2 else jobs[::-1]:
            found[name].append(job())
    return found


def of_steps(file: str, settings: Sequence[str], threads: int, rounds: int) -> dict[str, Any]:
    """Measure the steps of a network."""
    given = [[f"sweep.{KEY}={list(VALUES)}"], *([f"{KEY}={value}"] for value in VALUES)]
    networks = (simulation.read(_ROOT / file, [*settings, *more]).network for more in given)
    swept, *alone = (Trial.of(network, network.run.length) for network in networks)
    assert {one.plan.method.stepper for one in alone} == {swept.plan.method.stepper}
    steps([swept, *alone], threads)  # compiles
    return in_turns(lambda: steps([swept], threads), lambda: steps(alone, threads), rounds)


def of_runs(file: str, settings: Sequence[str], threads: int, rounds: int) -> dict[str, Any]:
    """Measure whole runs of a network."""
    given = [flag for one in (*settings, f"run.threads={threads}") for flag in ("-s", one)]
    swept = [file, *given, "--sweep", SWEPT]
    alone = [[file, *given, "-s", f"{KEY}={value}"] for value in VALUES]
    return in_turns(lambda: processes([swept]), lambda: processes(alone), rounds)


def row(name: str, found: dict[str, Any]) -> tuple[str, ...]:
    """Return the name, the ratios with their quartiles, and the median of the seconds apart."""
    together, apart = (np.array(found[how]) for how in ("together", "apart"))
    low, middle, high = np.percentile(together / apart, [25, 50, 75], axis=0)
    ratios = [f"{m:.3f} ({a:.3f} to {b:.3f})" for a, m, b in zip(low, middle, high, strict=True)]
    return name, *ratios, f"{np.median(apart[:, 0]):.1f} s"


def main() -> None:
    """Measure, print and keep."""
    wanted = options(__doc__, 5, threads=[2]).parse_args()
    result: dict[str, Any] = {"machine": introduce(), "seconds": {}}
    for threads in wanted.threads:
        plural = f"{threads} thread{'s' * (threads > 1)}"
        for name, (file, settings) in NETWORKS.items():
            found = of_steps(file, (*settings, f"run.kernel={wanted.kernel}"), threads, wanted.rounds)
            result["seconds"][f"{name}, steps, {plural}"] = found
        file, settings = NETWORKS["loop"]
        found = of_runs(file, (*settings, f"run.kernel={wanted.kernel}"), threads, wanted.rounds)
        result["seconds"][f"loop, whole runs, {plural}"] = found
    rows = [row(name, found) for name, found in result["seconds"].items()]
    table(("8 points x 4 slices against 8 runs", "clock", "processor", "8 runs"), rows)
    keep(result, "sweep", wanted.json)


if __name__ == "__main__":
    main()
