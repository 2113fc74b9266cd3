"""Cost of the weight modes: a dictionary per slice, or a patch per unit.

python benchmarks/modes.py [--rounds 9] [--threads 1]

`shared` and `extra_shared`: `params/natural_images.toml`, a display with its update, in turns. `non_shared`
and `extra_non_shared`: one slice of the same network without learning. Its weights, a patch for each unit,
are far larger than the caches. A step has to read all weights at least once; the limit is the time this takes
at the rate at which the BLAS of one thread computes the sum of squares of an array of their size.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.bench.trial import Trial, interleaved, ratio, run
from petabatch.spec.load import load

PARAMS = Path(__file__).parents[1] / "params" / "natural_images.toml"
QUIET = ["output={}", "probes={}"]


def trial(mode: str, *overrides: str, learn: bool = True) -> Trial:
    """Return a measurement of a display of the main network in a weight mode."""
    network = load(PARAMS, [f"connections.dictionary.mode={mode}", *QUIET, *overrides]).network
    conv = network.connections["dictionary"]
    if not learn:
        conv = conv.model_copy(update={"learn": None})
    network = network.model_copy(update={"connections": {**network.connections, "dictionary": conv}})
    return Trial.of(network, network.run.display)


def clock(one: Trial, threads: int) -> float:
    """Return the processor time of all steps, which is less sensitive to other load than wall time."""
    engine = one.engine(threads)
    begin = time.process_time()
    run(engine)
    return time.process_time() - begin


def reading(size: int) -> float:
    """Return the bytes per second at which one thread reads an array of `size` bytes, the best of five."""
    values, seconds = np.ones(size // 4, np.float32), []
    with threadpool_limits(1):
        for _ in range(5):
            begin = time.process_time()
            np.dot(values, values)
            seconds.append(time.process_time() - begin)
    return values.nbytes / min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()

    modes = {mode: trial(mode) for mode in ("extra_shared", "shared")}
    jobs = {mode: lambda one=one: clock(one, given.threads) for mode, one in modes.items()}
    interleaved(jobs, 1)
    found = interleaved(jobs, given.rounds)
    for mode, seconds in found.items():
        print(f"{mode:13} {1e6 * min(seconds) / modes[mode].slice_steps:8.1f} us per slice and step, best")
    print(f"shared / extra_shared: {ratio(found['shared'], found['extra_shared']):.3f} (median of ratios)")

    for mode in ("non_shared", "extra_non_shared"):
        own = trial(mode, "run.batch=1", "run.display=40", learn=False)
        size = own.engine(1).state.arrays["connections/dictionary/weights"].nbytes
        jobs = {"step": lambda own=own: clock(own, 1) / own.steps, "rate": lambda size=size: reading(size)}
        interleaved(jobs, 1)
        found = interleaved(jobs, given.rounds)
        limit = [size / rate for rate in found["rate"]]
        print(
            f"{mode:16} {1e3 * min(found['step']):5.2f} ms per step, best; {size / 2**20:.0f} MiB of weights "
            f"read at {max(found['rate']) / 1e9:.1f} GB/s: {ratio(found['step'], limit):.2f} times the limit"
        )


if __name__ == "__main__":
    main()
