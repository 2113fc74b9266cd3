"""Time to the first step of a run, and the cost of writing files.

python benchmarks/startup.py [--rounds 5]

Each measurement is a new process, with kernels already compiled. Less than a minute.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from common import introduce, keep, options, table

PARAMS = Path(__file__).parents[1] / "params" / "lca_fixed.toml"
COMMAND = str(Path(sys.executable).with_name("petabatch"))
FIRST = """
import os, sys, time
from pathlib import Path
from petabatch.engine.driver import drive
from petabatch import simulation
from petabatch.bench.trial import Trial
imported = time.time()
engine = Trial.of(simulation.read(Path(sys.argv[2])).network, 1).engine(len(os.sched_getaffinity(0)))
started = time.time()
for _ in drive(engine):
    print(imported - float(sys.argv[1]), started - imported, time.time() - started)
"""


def main() -> None:
    given = options(__doc__, rounds=5).parse_args()
    about = introduce()
    parts: dict[str, list[float]] = {
        "imports": [],
        "reading, checking, state of step 0": [],
        "the first step of 16 slices, with starting threads and loading kernels": [],
    }
    whole: list[float] = []
    for turn in range(given.rounds + 1):
        done = subprocess.run(
            [sys.executable, "-c", FIRST, str(time.time()), str(PARAMS)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        begin = time.perf_counter()
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(
                [COMMAND, "run", str(PARAMS), "-s", "run.displays=1", "-q",
                 "--out", f"{folder}/run"],
                check=True,
            )  # fmt: skip
        seconds = time.perf_counter() - begin
        if turn:  # the first turn is a warm-up
            for values, part in zip(parts.values(), done.stdout.split(), strict=True):
                values.append(float(part))
            whole.append(seconds)
    parts["all of `petabatch run` with one display of 400 steps and its files"] = whole
    table(
        ["a fresh process, kernels compiled before", "median"],
        [[name, f"{statistics.median(values):.2f} s"] for name, values in parts.items()],
    )
    keep({"machine": about, "seconds": parts}, "startup", given.json)


if __name__ == "__main__":
    main()
