"""Speed of the engine on every workload, relative to the floor: two dense `sgemm` per step.

python benchmarks/engine.py [W1 W1-learned W2 W3 W4 W5] [--threads 1 2] [--rounds 5] [--kernel auto]

Complete runs by the engine, with input and learning, but without files; interleaved with the floor. Two to
four minutes in total. W2 learns: its column `learning` covers the whole weight update.
"""

from __future__ import annotations

import statistics
from typing import Any

from common import introduce, keep, micro, options, table, whole
from workloads import WORKLOADS

from petabatch.bench.floor import Floor
from petabatch.bench.profile import profile
from petabatch.bench.trial import interleaved, ratio

LONG = 8.0
"""Seconds of a run beyond which it is measured less often."""


def measure(name: str, threads: list[int], rounds: int, kernel: str) -> dict[str, Any]:
    """Return the times of a workload and its floor, per slice and step, for each round."""
    workload = WORKLOADS[name]
    trial = whole(workload.network(kernel))
    assert trial.patches is not None
    floor = Floor.of_loop(trial.patches, workload.slices)
    jobs = {}
    for n in threads:
        jobs[f"floor {n}"] = lambda n=n: floor.seconds(n)
        jobs[f"run {n}"] = lambda n=n: trial.seconds(n) / trial.slice_steps
    first = trial.seconds(max(threads))  # warm-up
    found = interleaved(jobs, rounds if first < LONG / 2 else 2)
    shares, active, computed = profile(trial)
    return {
        "workload": str(workload), "times": found, "shares": shares, "active": active, "computed": computed,
    }  # fmt: skip


def main() -> None:
    parser = options(__doc__, rounds=5)
    parser.add_argument("workloads", nargs="*", default=[])
    given = parser.parse_args()
    about = introduce()
    names = given.workloads or list(WORKLOADS)
    results = {name: measure(name, given.threads, given.rounds, given.kernel) for name in names}

    rows = []
    for name, found in results.items():
        for n in given.threads:
            times = found["times"]
            mine, floor = times[f"run {n}"], times[f"floor {n}"]
            best = min(a / b for a, b in zip(mine, floor, strict=True))
            gain = ratio(times[f"run {given.threads[0]}"], mine)
            rows.append(
                [name, f"{found['active']:.1%}", n, micro(floor), micro(mine),
                 f"**{ratio(mine, floor):.2f}** ({best:.2f})", f"{1 / statistics.median(mine):,.0f}",
                 f"{gain:.2f}"]
            )  # fmt: skip
    table(
        ["workload", "active", "threads", "floor", "step of a slice", "x floor, median (best)",
         "slice steps/s", "speed-up"],
        rows,
    )  # fmt: skip
    parts = list(dict.fromkeys(part for found in results.values() for part in found["shares"]))
    table(
        ["share on one thread", *parts, "units computed"],
        [
            [
                name,
                *(f"{found['shares'].get(part, 0):.1%}" for part in parts),
                f"{found['computed'].get('V1', 1):.1%}",
            ]
            for name, found in results.items()
        ],
    )
    keep({"machine": about, "kernel": given.kernel, "results": results}, "engine", given.json)


if __name__ == "__main__":
    main()
