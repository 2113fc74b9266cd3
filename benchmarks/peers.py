"""Comparison of petabatch with a hand-written torch loop and lca-pytorch on the same inputs.

python benchmarks/peers.py W1 W1-learned        # about four minutes on two slow cores
python benchmarks/peers.py W1 W3 W4 W5
python benchmarks/peers.py W2                   # learning: petabatch and lca-pytorch

Needs torch (`pip install '.[benchmarks]'` in a checkout); lca-pytorch, which is on no package index, is left
out unless it is installed: `pip install git+https://github.com/lanl/lca-pytorch`.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import numpy as np
import torch
from common import introduce, keep, micro, options, table, whole
from torch_loop import LcaPytorch, TorchLoop, fastest
from workloads import WORKLOADS, Workload

from petabatch.bench.floor import Floor
from petabatch.bench.trial import Trial, interleaved, ratio, run

STEPS = {
    "W1": (400, 100),
    "W1-learned": (400, 100),
    "W2": (0, 400),
    "W3": (5, 2),
    "W4": (5, 2),
    "W5": (400, 100),
}
"""Steps of the torch loop and of lca-pytorch that are timed, 0 for none. What they cost does not depend on
the activity, so that a step of theirs is the same early and late; ours costs what its activity makes it cost,
and always makes all steps."""


def agreement(workload: Workload, loop: TorchLoop, steps: int, kernel: str) -> dict[str, float]:
    """Return the distance of the codes of petabatch and of the torch loop after this number of steps."""
    trial = Trial.of(workload.network(kernel), steps)
    engine = trial.engine(2)
    run(engine)
    ring = engine.state.arrays["layers/V1/A"]
    mine, theirs = ring[:, engine.step % ring.shape[1]], loop.code(steps)
    return {
        "difference": float(np.linalg.norm(mine - theirs) / np.linalg.norm(mine)) if mine.any() else 0.0,
        "active": float((mine != 0).mean()),
        "active in torch": float((theirs != 0).mean()),
    }


def measure(name: str, threads: int, rounds: int, kernel: str) -> dict[str, Any]:
    """Return the times of all implementations, per slice and step, for each round."""
    workload = WORKLOADS[name]
    trial = whole(workload.network(kernel))
    assert trial.patches is not None
    torch.set_num_threads(threads)
    floor = Floor.of_loop(trial.patches, workload.slices)
    engine = trial.engine(threads)  # its first images and weights are used by all
    images = engine.state.arrays["layers/image/A"][:, 0]
    weights = engine.state.arrays["connections/dictionary/weights"].reshape(
        workload.features, workload.patch, workload.patch, workload.channels
    )
    short, long = STEPS[name]
    jobs: dict[str, Callable[[], float]] = {
        "floor": lambda: floor.seconds(threads),
        "petabatch": lambda: trial.seconds(threads) / trial.slice_steps,
    }
    found: dict[str, Any] = {}
    if short:
        loop, found["torch loop"] = fastest(workload, images, weights)
        found["agreement"] = agreement(workload, loop, short, kernel)
        jobs["torch"] = lambda: _timed(lambda: loop.run(short), threads, short * workload.slices)
    trial.seconds(threads)
    times = interleaved(jobs, rounds)
    if long and find_spec("lcapt") is not None:
        peer = LcaPytorch(workload, images, weights)
        times["lca-pytorch"] = [_peer(peer, workload, threads, long)]
        found["lca-pytorch"] = f"{peer.active:.2%} active after {long} steps"
    return {"threads": threads, "times": times, **found}


def _peer(peer: LcaPytorch, workload: Workload, threads: int, steps: int) -> float:
    """Return the time of lca-pytorch: of a whole display that learns, else of steps beyond the first.

    A call begins by computing how all features compete, and ends with a reconstruction; of a few steps of a
    large image that would be much, of hundreds it is little.
    """
    if workload.learn:
        return _timed(lambda: peer.display(steps), threads, steps * workload.slices)
    peer.display(1)
    first = _timed(lambda: peer.display(1), threads, 1)
    return (_timed(lambda: peer.display(1 + steps), threads, 1) - first) / (steps * workload.slices)


def _timed(work: Callable[[], object], threads: int, slice_steps: int) -> float:
    torch.set_num_threads(threads)  # an engine that ran before has limited them
    begin = time.perf_counter()
    work()
    return (time.perf_counter() - begin) / slice_steps


def main() -> None:
    parser = options(__doc__, rounds=3)
    parser.add_argument("workloads", nargs="*", default=[])
    given = parser.parse_args()
    names = given.workloads or ["W1", "W1-learned"]
    about = introduce() | {"torch": torch.__version__}
    print(f"torch {torch.__version__}, {torch.__config__.parallel_info().splitlines()[0]}\n", flush=True)
    results = {name: [measure(name, n, given.rounds, given.kernel) for n in given.threads] for name in names}
    rows = []
    for name, found in results.items():
        for one in found:
            times = one["times"]
            cells = [name, one["threads"], micro(times["floor"])]
            for who in ("petabatch", "torch", "lca-pytorch"):
                if who in times:
                    against = times["floor"][: len(times[who])]
                    cells.append(f"{micro(times[who])} ({ratio(times[who], against):.2f})")
                else:
                    cells.append("-")
            mine = statistics.median(times["petabatch"])
            for who in ("torch", "lca-pytorch"):
                cells.append(f"{statistics.median(times[who]) / mine:.1f}" if who in times else "-")
            rows.append(cells)
    table(
        ["workload", "threads", "floor", "petabatch (x floor)", "best torch loop (x floor)",
         "lca-pytorch (x floor)", "torch / petabatch", "lca-pytorch / petabatch"],
        rows,
    )  # fmt: skip
    for name, found in results.items():
        for one in found:
            print(name, one["threads"], {k: v for k, v in one.items() if k not in ("times", "threads")})
    keep({"machine": about, "results": results}, f"peers_{'_'.join(names)}", given.json)


if __name__ == "__main__":
    main()
