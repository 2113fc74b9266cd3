"""Stepping a Simulator in calls of 1 and of 10 steps against one call, and opening and closing many.

    python benchmarks/simulator.py [--rounds 7] [--opened 1000] [--threads 1 2]

W1 with 16 slices, and 64 slices of 256 recurrent units, in turns, in one process: the processor time of the
same steps from the same state, and its ratio to that of one call (medians over the rounds, with the least and
the largest). NUMBA_CPU_NAME=haswell measures the kernels of processors without AVX-512. Then simulators of a
small network are opened, stepped and closed; printed is the memory of the process after each tenth of them.
"""

from __future__ import annotations

import argparse
import gc
import resource
import statistics
import time
from functools import partial
from pathlib import Path

from small_networks import recurrent
from workloads import WORKLOADS

from petabatch import Simulator
from petabatch.bench.trial import interleaved
from petabatch.simulator import Saved
from petabatch.spec.network import Network


def seconds(sim: Simulator, start: Saved, steps: int, each: int) -> float:
    """Return the processor time of `steps` steps in calls of `each`, from a state."""
    sim.load(start)
    sim.step()  # a copy of what was loaded is made in the first call
    begin = time.process_time()
    for _ in range(steps // each):
        sim.step(each)
    return time.process_time() - begin


def compare(name: str, network: Network, steps: int, rounds: int, threads: int) -> None:
    """Print how much longer calls of few steps take."""
    with Simulator(network, threads=threads) as sim:
        sim.step(2 * steps)
        start = sim.save()
        jobs = {each: partial(seconds, sim, start, steps, each) for each in (steps, 10, 1)}
        found = interleaved({str(each): job for each, job in jobs.items()}, rounds)
    whole = found[str(steps)]
    each_step = statistics.median(whole) / steps * 1e6
    print(f"{name}, {threads} threads: {each_step:.0f} us a step of all slices in one call; in calls")
    for each in (10, 1):
        ratios = [a / b for a, b in zip(found[str(each)], whole, strict=True)]
        middle = statistics.median(ratios)
        print(f"    of {each:2} steps: {middle:.3f} times as long ({min(ratios):.3f} to {max(ratios):.3f})")


def resident() -> float:
    """Return the resident memory of this process in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def opened(count: int) -> None:
    """Print the memory while simulators are opened and closed."""
    network = recurrent(256)
    for number in range(1, count + 1):
        with Simulator(network) as sim:
            sim.step(3)
        if number == 1 or number % max(1, count // 10) == 0:
            gc.collect()
            print(f"    {number:5} opened and closed: {resident():.1f} MiB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--opened", type=int, default=1000)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    options = parser.parse_args()
    for threads in options.threads:
        compare("W1, 16 slices", WORKLOADS["W1"].network(), 200, options.rounds, threads)
        compare("256 recurrent units, 64 slices", recurrent(256), 1000, options.rounds, threads)
    opened(options.opened)


if __name__ == "__main__":
    main()
