"""Small networks: a batch of recurrent nets against batched NumPy; two branches of a slice on two threads.

    python benchmarks/small_networks.py [--rounds 9] [--json FILE]

Recurrent nets of 256 and of 1024 units, 64 slices, x+ = e x + W (1 + tanh x) / 2 + I with I of each slice,
in turns: NumPy, all slices in one array, BLAS on one thread; petabatch on one thread and on two; the same
with the trajectory of x recorded. A check says how far the trajectories are apart. On one thread processor
time counts, which is less sensitive to other load; on more the time on the clock.

Branches: two images with a code each, one slice, dense steps, on one thread and on two, and two processes
with a branch each, which is what the machine can give; and a branch alone on one thread and on two, which
share its operations by row tiles. Threads meet in each stage of a step. Shown are medians and quartiles over
the rounds.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from common import introduce, keep, table
from threadpoolctl import threadpool_limits

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.bench.trial import Trial, interleaved, run
from petabatch.connections import Conv, Identity, Transpose
from petabatch.layers import LCA, Input, LeakyIntegrator, Linear, Sigmoid
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP, Connection, Layer
from petabatch.weights import Gaussian

SLICES, TAU = 64, 10.0
STEPS = {256: 4000, 1024: 400}
"""Steps of the one display by the number of units; beginning it takes some 10 ms."""
BRANCH_STEPS = 1000


def noise(ny: int, nx: int, nf: int, std: float = 0.1, slices: int = SLICES) -> ImageArray:
    """Return an image of noise for each slice."""
    return ImageArray(data=np.random.default_rng(1).normal(0, std, (slices, ny, nx, nf)).astype("f4"))


def recurrent(units: int, recorded: bool = False, slices: int = SLICES) -> Network:
    """Return a net of rates with weights that all slices share."""
    shape = (1, 1, units)
    layers: dict[str, Layer] = {
        "I": Input(shape=shape, source=noise(*shape, slices=slices)),
        "rate": Sigmoid(shape=shape, width=0.5),
        "x": LeakyIntegrator(shape=shape, tau=TAU),
    }
    connections: dict[str, Connection] = {
        "input": Identity(pre="I", post="x"),
        "fire": Identity(pre="x", post="rate", feedback=True),
        "W": Conv(pre="rate", post="x", patch=(1, 1), init=Gaussian(std=0.1 / units**0.5)),
    }
    output = Output(layers={"x": LayerOutput(every=STEP)}) if recorded else Output()
    steps = STEPS[units]
    run = Run(batch=slices, steps=steps, display=steps, dt=1.0)
    return Network(run=run, layers=layers, connections=connections, output=output)


def batched_numpy(weights: np.ndarray, given: np.ndarray, steps: int, kept: list[np.ndarray] | None) -> Any:
    """Return x after some steps of all slices; the weights are `[from, to]`."""
    x, e, half = np.zeros_like(given), np.float32(np.exp(-1 / TAU)), np.float32(0.5)
    for _ in range(steps):
        x = e * x + (half + half * np.tanh(x)) @ weights + given
        if kept is not None:
            kept.append(x)
    return x


def branches(count: int) -> Network:
    """Return images with a code each."""
    layers: dict[str, Layer] = {}
    connections: dict[str, Connection] = {}
    image, code = (48, 48, 3), (24, 24, 64)
    for n in range(count):
        layers |= {
            f"image{n}": Input(shape=image, source=noise(*image, 1.0)),
            f"error{n}": Linear(shape=image),
            f"code{n}": LCA(shape=code, tau=50.0, threshold=0.5),
            f"recon{n}": Linear(shape=image),
            f"read{n}": Linear(shape=code),
        }
        connections |= {
            f"see{n}": Identity(pre=f"image{n}", post=f"error{n}"),
            f"explain{n}": Identity(pre=f"recon{n}", post=f"error{n}", channel="inh", feedback=True),
            f"dictionary{n}": Conv(pre=f"code{n}", post=f"recon{n}", patch=(8, 8), init=Gaussian(std=0.05)),
            f"drive{n}": Transpose(pre=f"error{n}", post=f"code{n}", of=f"dictionary{n}"),
            f"read{n}": Identity(pre=f"code{n}", post=f"read{n}"),
        }
    run = Run(batch=1, steps=BRANCH_STEPS, display=BRANCH_STEPS, dt=1.0, kernel="dense")
    return Network(run=run, layers=layers, connections=connections)


def clock(trial: Trial, threads: int) -> float:
    """Return the seconds of a step: of the processor on one thread, else on the clock."""
    engine = trial.engine(threads)
    timer = time.process_time if threads == 1 else time.perf_counter
    begin = timer()
    run(engine)
    return (timer() - begin) / trial.steps


def wall(trial: Trial, threads: int) -> float:
    """Return the seconds of a step on the clock."""
    return trial.seconds(threads) / trial.steps


def quartiles(values: np.ndarray, form: str) -> str:
    low, middle, high = np.percentile(values, [25, 50, 75])
    return f"{middle:{form}} ({low:{form}} to {high:{form}})"


def measure_recurrent(units: int, rounds: int) -> dict[str, Any]:
    """Return the seconds of a step of everything, round by round, and how far the results are apart."""
    plain, recorded = (Trial.of(recurrent(units, kept), STEPS[units]) for kept in (False, True))
    print(f"{units} units: {plain.plan.method}")
    engine = plain.engine(1)
    arrays = engine.state.arrays
    weights = arrays["connections/W/weights"].reshape(units, units).copy()
    given = arrays["layers/I/A"][:, 0].reshape(SLICES, units).copy()
    run(engine)
    mine = arrays["layers/x/A"][:, STEPS[units] % arrays["layers/x/A"].shape[1]].reshape(SLICES, units)

    def theirs(record: bool) -> float:
        with threadpool_limits(1):
            begin, kept = time.process_time(), [] if record else None
            batched_numpy(weights, given, STEPS[units], kept)
            return (time.process_time() - begin) / STEPS[units]

    apart = abs(mine - batched_numpy(weights, given, STEPS[units], None)).max()
    jobs: dict[str, Callable[[], float]] = {
        "NumPy": lambda: theirs(False),
        "1 thread": lambda: clock(plain, 1),
        "NumPy, recorded": lambda: theirs(True),
        "1 thread, recorded": lambda: clock(recorded, 1),
        "1 thread, on the clock": lambda: wall(plain, 1),
        "2 threads, on the clock": lambda: wall(plain, 2),
    }
    interleaved(jobs, 1)
    return {"apart": float(apart), "seconds": interleaved(jobs, rounds)}


def show_recurrent(units: int, found: dict[str, Any]) -> None:
    times = {name: np.array(seconds) for name, seconds in found["seconds"].items()}
    against = {
        "1 thread": ("NumPy", lambda a, b: a / b),
        "1 thread, recorded": ("NumPy, recorded", lambda a, b: a / b),
        "2 threads, on the clock": ("1 thread, on the clock", lambda a, b: b / a),
    }
    rows = []
    for name, seconds in times.items():
        other, how = against.get(name, ("", None))
        ratio = "-" if how is None else quartiles(how(seconds, times[other]), ".2f")
        what = {"": "-", "1 thread, on the clock": "speed-up"}.get(other, f"/ {other}")
        rows.append((units, name, quartiles(1e6 * seconds / SLICES, ".2f"), ratio, what))
    table(("units", "", "us per slice and step", "ratio", "of"), rows)
    print(f"largest difference of x from NumPy's: {found['apart']:.1e}\n")


def _one_branch(begin: Any, seconds: Any, rounds: int) -> None:
    trial = Trial.of(branches(1), BRANCH_STEPS)
    wall(trial, 1)
    for _ in range(rounds):
        begin.wait()
        seconds.put(wall(trial, 1))


def measure_branches(rounds: int) -> dict[str, list[float]]:
    """Return the seconds of a step, round by round; of two processes those of the slower one."""
    one, two = (Trial.of(branches(count), BRANCH_STEPS) for count in (1, 2))
    print(two.plan.method)
    context = multiprocessing.get_context("spawn")
    begin, seconds = context.Barrier(3), context.Queue()
    processes = [context.Process(target=_one_branch, args=(begin, seconds, rounds)) for _ in range(2)]
    for process in processes:
        process.start()

    def apart() -> float:
        begin.wait()
        return max(seconds.get() for _ in processes)

    jobs: dict[str, Callable[[], float]] = {
        "a branch, 1 thread": lambda: wall(one, 1),
        "a branch, 2 threads": lambda: wall(one, 2),
        "1 thread": lambda: wall(two, 1),
        "2 threads": lambda: wall(two, 2),
        "2 processes": apart,
    }
    wall(one, 2), wall(two, 2)
    found = interleaved(jobs, rounds)
    for process in processes:
        process.join()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    result: dict[str, Any] = {"machine": introduce()}
    for units in STEPS:
        result[f"{units} units"] = measure_recurrent(units, given.rounds)
        show_recurrent(units, result[f"{units} units"])
    result["branches"] = measure_branches(given.rounds)
    times = {name: np.array(seconds) for name, seconds in result["branches"].items()}
    rows = []
    for name, seconds in times.items():
        alone = times["a branch, 1 thread" if name.startswith("a branch") else "1 thread"]
        rows.append((name, quartiles(1e6 * seconds, ".0f"), quartiles(alone / seconds, ".2f")))
    table(("one slice", "us per step", "speed-up"), rows)
    keep(result, "small_networks", given.json)


if __name__ == "__main__":
    main()
