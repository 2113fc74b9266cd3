"""Two revisions in turns: this checkout beside another one, each in a process of its own interpreter.

    python benchmarks/revisions.py OTHER [--pairs 21] [--threads 1 2] [--workloads W1 W3 two_layer ...]

OTHER is a checkout with a virtual environment in `.venv`. Both processes hold the same network in memory and
make its one display alternately, as often as there are pairs, each pair in the other order. Printed are the
median and the quartiles of the ratio of times, this checkout over the other: processor time, which is less
sensitive to other load, and time on the clock. NUMBA_CPU_NAME=haswell measures the kernels of processors
without AVX-512.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
WORKLOADS = ["W1", "W1-learned", "W2", "W3", "two_layer", "units256", "until-lca", "fista", "heavy_ball"]


def trial(checkout: Path, name: str) -> Any:
    """Return the trial of a workload, made by the package and the benchmarks of a checkout."""
    sys.path.insert(0, str(checkout / "benchmarks"))
    import small_networks
    import until
    import workloads

    from petabatch.bench.trial import Trial
    from petabatch.spec.load import load
    from petabatch.spec.network import Output, Until

    if name in workloads.WORKLOADS:
        found = workloads.WORKLOADS[name]
        return Trial.of(found.network(), found.steps * found.displays)
    if name == "units256":
        return Trial.of(small_networks.recurrent(256), small_networks.STEPS[256])
    if name in until.CODES or name == "until-lca":
        stop = Until(gap=1e-12, every=1) if name == "until-lca" else None
        network = until.network(
            until.CODES[name.removeprefix("until-")], display=400, displays=1, batch=4, until=stop
        )
        return Trial.of(network.model_copy(update={"output": Output()}), 400)
    return Trial.of(load(checkout / "params" / f"{name}.toml", ["run.displays = 1"]).network, 400)


def serve(checkout: Path, name: str, threads: int) -> None:
    """Make the display once for each line of standard input; print its processor time and wall clock."""
    made = trial(checkout, name)
    from petabatch.bench.trial import run

    for _ in sys.stdin:
        engine = made.engine(threads)
        begin = time.process_time(), time.perf_counter()
        run(engine)
        print("seconds", time.process_time() - begin[0], time.perf_counter() - begin[1], flush=True)


class Server:
    """A process of a checkout that makes displays of one workload."""

    def __init__(self, checkout: Path, name: str, threads: int) -> None:
        python = checkout / ".venv" / "bin" / "python"
        self.process = subprocess.Popen(
            [python, __file__, str(checkout), "--serve", name, "--threads", str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=checkout,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )

    def seconds(self) -> tuple[float, float]:
        """Return the processor time and the wall clock of a display."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(file=self.process.stdin, flush=True)
        for line in self.process.stdout:
            if line.startswith("seconds"):
                spent, passed = map(float, line.split()[1:])
                return spent, passed
        raise RuntimeError(f"the process of a checkout ended with exit code {self.process.wait()}")

    def close(self) -> None:
        """End the process."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def compare(other: Path, name: str, threads: int, pairs: int) -> str:
    """Return the row of a workload."""
    sides = Server(HERE, name, threads), Server(other, name, threads)
    for side in sides:
        side.seconds()  # kernels are loaded, or compiled
    times: tuple[list[tuple[float, float]], ...] = ([], [])
    for pair in range(pairs):
        for side in (0, 1) if pair % 2 else (1, 0):
            times[side].append(sides[side].seconds())
    for side in sides:
        side.close()
    texts = []
    for clock in (0, 1):
        ratios = [a[clock] / b[clock] for a, b in zip(*times, strict=True)]
        low, middle, high = statistics.quantiles(ratios, n=4)
        texts.append(f"{middle:.3f} ({low:.3f} to {high:.3f})")
    return f"{name:12}{threads:>8}{texts[0]:>26}{texts[1]:>26}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("other", type=Path)
    parser.add_argument("--pairs", type=int, default=21)
    parser.add_argument("--threads", type=int, nargs="+", default=[1])
    parser.add_argument("--workloads", nargs="+", default=WORKLOADS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve:
        serve(given.other, given.serve, given.threads[0])
        return
    print(f"{'workload':12}{'threads':>8}{'processor time':>26}{'wall clock':>26}   ({given.pairs} pairs)")
    for threads in given.threads:
        for name in given.workloads:
            print(compare(given.other.resolve(), name, threads, given.pairs), flush=True)


if __name__ == "__main__":
    main()
