"""Early stopping (`run.until`): what a look at the gap costs, and what displays that end early save.

    python benchmarks/until.py looks  [--rounds 9]                     # about one minute
    python benchmarks/until.py saving [--slices 16] [--displays 2] [--gaps 1e-2 1e-3] [--codes fista]
    python benchmarks/until.py saving --slices 20 --displays 10 --codes fista      # 200 crops

The network of `params/lca_fixed.toml`: crops of 32 x 32 x 3 of a photograph that the dictionary of 128
features has not seen.

looks: displays of 400 steps that look after every step, for a gap that none comes to, and displays that do
not look take turns on one thread, in processor time. The difference is divided by the looks and by a step.

saving: first each image gets up to `--longest` steps with `run.until`; the largest number it needed is the
fixed display that would certify all of them. Then both are timed, and a fixed display of the mean number,
three times each in turns, in memory, from the same start and with the codes of all images recorded; the least
processor times are printed. The last columns are the time of `until` as a multiple of (mean steps / most
steps) of that of the fixed display, and as one of that of a fixed display of the mean number: early steps,
with more active units, take longer than late ones.
"""

from __future__ import annotations

import argparse
import statistics
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import petabatch
from petabatch import in_memory
from petabatch.bench.trial import Trial, interleaved, run
from petabatch.layers import FISTA, LCA, HeavyBall
from petabatch.probes import Optimality
from petabatch.spec.network import LayerOutput, Network, Output, Until
from petabatch.spec.parts import NEVER, Layer

PARAMS = Path(__file__).parents[1] / "params" / "lca_fixed.toml"
LAMBDA = 0.55
KEYS: dict[str, Any] = {"shape": (16, 16, 128), "threshold": LAMBDA}
CODES: dict[str, Layer] = {
    "fista": FISTA(**KEYS),
    "heavy_ball": HeavyBall(**KEYS, tau=100.0),
    "lca": LCA(**KEYS, tau=100.0),
}
DISPLAY, SLICES = 400, 4
CERTIFICATE = Optimality(
    image="image", reconstruction="recon", code="V1", drive="error_to_V1", coefficient=LAMBDA, every=NEVER
)


def network(code: Layer, **run: Any) -> Network:
    """Return the network with this code layer, recorded at the end of each display."""
    given = petabatch.load(PARAMS).network
    return given.model_copy(
        update={
            "run": given.run.model_copy(update=run),
            "layers": {**given.layers, "V1": code},
            "probes": {"optimality": CERTIFICATE},
            "output": Output(layers={"V1": LayerOutput()}),
        }
    )


def timed(net: Network, threads: int | None) -> tuple[float, in_memory.Result]:
    """Return the processor time of a run in memory, in seconds, and its result."""
    begin = time.process_time()
    done = in_memory.run(net, threads=threads)
    return time.process_time() - begin, done


def looks(rounds: int) -> None:
    """Print the cost of a look."""
    print(f"{'':12}{'kernel':>8}{'step us':>10}{'look, in steps':>16}   (median of {rounds}, quartiles)")
    for name, code in CODES.items():
        trials = {}
        for until in (None, Until(gap=1e-12, every=1)):
            net = network(code, display=DISPLAY, displays=1, batch=SLICES, until=until)
            trials[until is not None] = Trial.of(net.model_copy(update={"output": Output()}), DISPLAY)

        def seconds(trial: Trial) -> float:
            engine = trial.engine(1)
            begin = time.process_time()
            run(engine)
            return time.process_time() - begin

        jobs = {str(key): partial(seconds, trial) for key, trial in trials.items()}
        interleaved(jobs, 1)  # kernels are loaded, or compiled
        found = interleaved(jobs, rounds)
        step = statistics.median(found["False"]) / (SLICES * DISPLAY)
        each = SLICES * DISPLAY * step
        costs = [(a - b) / each for a, b in zip(found["True"], found["False"], strict=True)]
        low, cost, high = statistics.quantiles(costs, n=4)
        kernel = "lazy" if trials[False].plan.method.program.lazy else "dense"
        print(f"{name:12}{kernel:>8}{step * 1e6:>10.0f}{cost:>16.2f}   ({low:.2f} to {high:.2f})", flush=True)


def saving(given: argparse.Namespace) -> None:
    """Print the table of savings."""
    size = {"batch": given.slices, "displays": given.displays}
    print(f"{given.slices * given.displays} images; steps to the gap, and seconds")
    print(
        f"{'':24}{'gap':>8}{'median':>8}{'mean':>8}{'most':>8}{'until s':>10}{'fixed s':>10}{'ratio':>8}"
        f"{'to mean':>9}{'to display of mean':>20}"
    )
    for name in given.codes:
        code = CODES[name]
        for gap in given.gaps:
            until = Until(gap=gap)
            found = timed(network(code, display=given.longest, until=until, **size), given.threads)[
                1
            ].recorded
            steps, reached = found["probes/until/steps"], found["probes/until/gap"]
            if (reached > gap).any():
                print(f"{name:24}{gap:>8g}   {(reached > gap).mean():.0%} not certified in {given.longest}")
                continue
            most = int(steps.max())
            jobs = (most, until), (most, None), (round(steps.mean()), None)
            seconds = [
                [timed(network(code, display=n, until=u, **size), given.threads)[0] for n, u in jobs]
                for _ in range(3)
            ]
            early, fixed, mean = np.min(seconds, axis=0)
            above = early / fixed / (steps.mean() / most)
            print(
                f"{name:24}{gap:>8g}{np.median(steps):>8.0f}{steps.mean():>8.0f}{most:>8}"
                f"{early:>10.2f}{fixed:>10.2f}{fixed / early:>8.2f}{above:>9.3f}{early / mean:>20.3f}",
                flush=True,
            )


def main() -> None:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("looks", "saving"))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--slices", type=int, default=16)
    parser.add_argument("--displays", type=int, default=2)
    parser.add_argument("--gaps", type=float, nargs="+", default=[1e-2, 1e-3])
    parser.add_argument("--codes", nargs="+", choices=tuple(CODES), default=["fista", "heavy_ball"])
    parser.add_argument("--longest", type=int, default=2000)
    parser.add_argument("--threads", type=int)
    given = parser.parse_args()
    if given.what == "looks":
        looks(given.rounds)
    else:
        saving(given)


if __name__ == "__main__":
    main()
