"""Scaling of the cost of a step with slices, image area, features and activity.

python benchmarks/growth.py [slices area features sparsity] [--plot] [--threads 2] [--rounds 5]

Twenty minutes in total on two idle cores. Every round measures each kernel at each point; before and after
each measurement come the floor, two dense `sgemm` on as many threads, and the base point of the axis. The
point is compared with their mean, since the speed of a machine drifts. Every second round runs in reverse
order. In the table, `wall` and `processor` are medians over rounds, and `undisturbed` is the processor time
of displays with little other load; ratios are medians of the ratios within a round; in brackets is their
spread, (largest - smallest) / median.

--plot writes one figure per axis to benchmarks/plots/; --draw FILE does so for an earlier result.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path
from typing import Any

import numpy as np
from common import introduce, keep, micro, options, table
from growth_axes import AXES, Axis
from growth_plots import draw
from growth_stream import Stream

from petabatch.bench.floor import Floor

WALL, PROCESSOR, UNDISTURBED, FLOOR, BASE = range(5)
"""What is stored per point: a `growth_stream.Cost`, the floor, and the cost of the base point."""
ALLOWED = 1.05
"""Largest allowed ratio of the cost at the most and the least expensive number of slices."""


def measure(axis: Axis, threads: int, rounds: int, kernels: tuple[str, ...]) -> dict[str, Any]:
    """Return wall and processor time of every kernel, point and round, with the floors."""
    streams = {
        (point, kernel): Stream.of(axis.points[point], kernel, threads)
        for point in range(len(axis.points))
        for kernel in kernels
    }
    floors: dict[Any, Floor] = {}
    for stream in streams.values():
        patches = stream.trial.patches
        assert patches is not None
        # The same for all numbers of slices: the floor of many.
        floors.setdefault(patches, Floor.of_loop(patches, max(threads, len(stream.point.pool))))
    found: dict[Any, list[list[float]]] = {key: [] for key in streams}
    start = next(index for index, point in enumerate(axis.points) if point.x == axis.base)
    for turn in range(rounds):
        for key in list(streams)[:: -1 if turn % 2 else 1]:
            base, floor = streams[start, key[1]], floors[streams[key].trial.patches]
            around = [(floor.seconds(threads), *base.cost(threads))]
            cost = streams[key].cost(threads)
            around.append((floor.seconds(threads), *base.cost(threads)))
            beside = np.mean(around, axis=0)
            found[key].append([*cost, *beside])
    points = [
        {
            "x": point.x,
            "name": str(point),
            "active": streams[index, kernels[0]].active,
            "lazy in auto": bool(streams[index, "auto"].trial.plan.method.program.lazy)
            if "auto" in kernels
            else None,
            "times": {kernel: np.transpose(found[index, kernel]).tolist() for kernel in kernels},
        }
        for index, point in enumerate(axis.points)
    ]
    about = {"threads": threads, "label": axis.label, "base": axis.base, "power": axis.power}
    return {**about, "points": points}


def show(name: str, found: dict[str, Any]) -> dict[str, Any]:
    """Print the table of an axis and what follows from it; return the latter."""
    points, power = found["points"], found["power"]
    base = next(p for p in points if p["x"] == found["base"])
    rows = []
    for p in points:
        for kernel, times in p["times"].items():
            wall, processor, undisturbed, floor = times[:BASE]
            share = (found["base"] / p["x"]) ** power
            against = [_ratio(times[i], times[BASE + i]) * share for i in (WALL, UNDISTURBED)]
            rows.append(
                [p["name"], f"{p['active']:.1%}", kernel, micro(wall) + _spread(wall), micro(processor),
                 micro(undisturbed) + _spread(undisturbed), micro(floor) + _spread(floor),
                 f"{_ratio(wall, floor):.3f}", *(f"{value:.3f}" for value in against)]
            )  # fmt: skip
    per = {0: "", 1: ", per unit of x"}[power]
    print(f"{name}, {found['threads']} threads; {len(points[0]['times']['dense'][0])} rounds")
    table(
        [found["label"], "active", "kernel", "wall", "processor", "undisturbed", "floor", "wall x floor",
         f"wall against {base['name']}{per}", "undisturbed likewise"],
        rows,
    )  # fmt: skip
    verdict = {"slices": _same, "sparsity": _choice}.get(name, _exponent)(found)
    for line in verdict:
        print(line)
    print()
    return {**found, "verdict": verdict}


def _same(found: dict[str, Any]) -> list[str]:
    """Say whether the cost is the same at all points, with its uncertainty."""
    lines = []
    points = [p for p in found["points"] if not p["name"].endswith("again")]
    (again,) = (p for p in found["points"] if p["name"].endswith("again"))
    for kernel in again["times"]:
        for index, what in ((WALL, "wall"), (UNDISTURBED, "undisturbed processor")):
            cost = {
                p["name"]: _ratio(p["times"][kernel][index], p["times"][kernel][BASE + index]) for p in points
            }
            control = _ratio(again["times"][kernel][index], again["times"][kernel][BASE + index])
            most, least = max(cost, key=cost.__getitem__), min(cost, key=cost.__getitem__)
            ratio = cost[most] / cost[least]
            lines.append(
                f"{kernel}, {what} time: dearest ({most} slices) over cheapest ({least}) {ratio:.3f}, "
                f"{'within' if ratio <= ALLOWED else 'MORE THAN'} {ALLOWED}; "
                f"the same point measured twice differs by {abs(control - 1):.3f}"
            )
    return lines


def _exponent(found: dict[str, Any]) -> list[str]:
    """Give the power of x with which the cost grows, over all points and over the largest three."""
    lines, points = [], found["points"]
    x = np.log([p["x"] for p in points])
    for kernel in points[0]["times"]:
        powers = []
        for index in (WALL, UNDISTURBED, FLOOR):
            y = np.log([statistics.median(p["times"][kernel][index]) for p in points])
            powers += [np.polyfit(x[-n:], y[-n:], 1)[0] for n in (len(x), 3)]
        lines.append(
            f"{kernel}: wall time grows as x ** {powers[0]:.3f} (last three points {powers[1]:.3f}), "
            f"undisturbed processor time {powers[2]:.3f} ({powers[3]:.3f}), "
            f"the floor {powers[4]:.3f} ({powers[5]:.3f})"
        )
    return lines


def _choice(found: dict[str, Any]) -> list[str]:
    """Say where `auto` chooses the slower kernel."""
    wrong = []
    for p in found["points"]:
        times: dict[str, Any] = p["times"]
        if "lazy" not in times or "auto" not in times:
            continue
        cost = {kernel: times[kernel][UNDISTURBED] for kernel in times}
        best = min(("dense", "lazy"), key=lambda kernel: _ratio(cost[kernel], cost["dense"]))
        loss = _ratio(cost["auto"], cost[best])
        if loss > ALLOWED:
            wrong.append(
                f"{p['name']} ({p['active']:.1%} active): {best} is {loss:.2f} times as fast as auto"
            )
    return [f"auto is slower than the better kernel at {found['label']} {line}" for line in wrong] or [
        f"auto is nowhere more than {ALLOWED} times as slow as the better kernel"
    ]


def _ratio(mine: list[float], theirs: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(mine, theirs, strict=True))


def _spread(values: list[float]) -> str:
    return f" ({(max(values) - min(values)) / statistics.median(values):.0%})"


def main() -> None:
    parser = options(__doc__, rounds=5, threads=(2,))
    parser.set_defaults(kernel=None)
    parser.add_argument("axes", nargs="*", default=[])
    parser.add_argument("--plot", action="store_true", help="write figures to benchmarks/plots")
    parser.add_argument("--draw", type=Path, help="plot this result instead of measuring")
    given = parser.parse_args()
    if given.draw:
        draw(json.loads(given.draw.read_text(encoding="utf-8"))["results"])
        return
    about, results = introduce(), {}
    for name in given.axes or AXES:
        axis = AXES[name]()
        kernels = axis.kernels if given.kernel is None else (given.kernel,)
        results[name] = show(name, measure(axis, given.threads[0], given.rounds, kernels))
    keep({"machine": about, "results": results}, "growth", given.json)
    if given.plot:
        draw(results)


if __name__ == "__main__":
    main()
