"""How the cost of a step grows with slices, image area, features and activity.

python benchmarks/growth.py [slices area features sparsity] [--threads 2] [--rounds 3]

About three minutes for all. Plots go to benchmarks/plots/, drawn from the JSON alone with --draw FILE.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from common import introduce, keep, micro, options, table, whole
from workloads import WORKLOADS, Workload

from petabatch.bench.floor import Floor
from petabatch.bench.trial import interleaved, run

PLOTS = Path(__file__).parent / "plots"
WORK = 6e10
"""Dense multiply-adds of one measurement, about a second of one core: small ones make more displays."""
BASE = replace(WORKLOADS["W1"], slices=2, steps=50, photograph="astronaut")


def repeated(workload: Workload) -> Workload:
    """Return the workload with as many displays as are worth measuring."""
    each = 2 * workload.units**2 * workload.features * workload.patch**2 * workload.channels
    return replace(workload, displays=max(1, round(WORK / (each * workload.slices * workload.steps))))


def series(points: dict[float, Workload], threads: int, rounds: int, kernel: str) -> dict[str, Any]:
    """Measure workloads in turns; return seconds per slice and step, floor and activity of each."""
    jobs: dict[str, Callable[[], float]] = {}
    active, floors = {}, {}
    for x, workload in points.items():
        trial = whole(repeated(workload).network(kernel))
        engine = trial.engine(threads)
        run(engine)
        active[x] = trial.active(engine)
        if trial.patches is not None:
            floors[x] = Floor(trial.patches, workload.slices)
            jobs[f"floor {x}"] = lambda x=x: floors[x].seconds(threads)
        jobs[f"run {x}"] = lambda trial=trial: trial.seconds(threads) / trial.slice_steps
    times = interleaved(jobs, rounds)
    found = [
        {
            "x": x,
            "seconds": statistics.median(times[f"run {x}"]),
            "least": min(times[f"run {x}"]),
            "floor": statistics.median(times[f"floor {x}"]) if x in floors else None,
            "active": active[x],
        }
        for x in points
    ]  # fmt: skip
    return {"threads": threads, "points": found}


def slices() -> dict[float, Workload]:
    return {n: replace(BASE, slices=n) for n in (2, 16, 64, 250, 1000)}


def area() -> dict[float, Workload]:
    return {n * n: replace(BASE, image=n) for n in (16, 32, 64, 128, 256, 512)}


def features() -> dict[float, Workload]:
    return {n: replace(BASE, features=n) for n in (32, 64, 128, 256, 512, 1024)}


def sparsity() -> dict[float, Workload]:
    return {x: replace(BASE, threshold=x, steps=200) for x in (0.1, 0.2, 0.4, 0.55, 0.8, 1.2, 2.0)}


def show(name: str, found: dict[str, Any]) -> None:
    """Print one series."""
    points = found["points"]
    base = points[0]
    rows = [
        [p["x"], micro([p["seconds"]]), _relative(name, p, base), _floor(p), f"{p['active'] or 0:.1%}"]
        for p in points
    ]
    print(f"{name}, {found['threads']} threads")
    title = {"area": "per pixel, of the first", "features": "per feature, of the first"}
    table([name, "step of a slice", title.get(name, "of the first"), "x floor", "active"], rows)
    if name in ("area", "features"):
        x, y = (np.log([p[key] for p in points]) for key in ("x", "seconds"))
        print(f"exponent over the last three points: {np.polyfit(x[-3:], y[-3:], 1)[0]:.3f}\n")
    if name == "slices":
        least = [p["least"] for p in points]
        print(f"largest over smallest cost, least of each: {max(least) / min(least):.3f}\n")


def _relative(name: str, p: dict[str, Any], base: dict[str, Any]) -> str:
    per = p["x"] / base["x"] if name in ("area", "features") else 1
    return f"{p['seconds'] / base['seconds'] / per:.2f}"


def _floor(p: dict[str, Any]) -> str:
    return f"{p['seconds'] / p['floor']:.2f}" if p["floor"] else "-"


def draw(results: dict[str, Any]) -> None:
    """Draw every series that grows with a number."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    labels = {
        "slices": "slices",
        "area": "pixels of an image",
        "features": "features",
        "sparsity": "active units (%)",
    }
    drawn = [name for name in labels if name in results]
    if not drawn:
        return
    figure, all_axes = pyplot.subplots(1, len(drawn), figsize=(3.2 * len(drawn), 2.8), squeeze=False)
    for name, axes in zip(drawn, all_axes[0], strict=True):
        points = results[name]["points"]
        x = [100 * p["active"] if name == "sparsity" else p["x"] for p in points]
        axes.plot(x, [p["seconds"] * 1e6 for p in points], "o-", label="petabatch")
        axes.plot(x, [p["floor"] * 1e6 for p in points], "k:", label="two dense sgemm")
        axes.set(xlabel=labels[name], ylabel="us per slice and step")
        if name == "sparsity":
            axes.set_ylim(bottom=0)
        else:
            axes.set_xscale("log", base=2 if name == "features" else 10)
        if name in ("area", "features"):
            axes.set_yscale("log")
        if name == "slices":
            axes.set_ylim(bottom=0)
        axes.spines[["top", "right"]].set_visible(False)
    all_axes[0][0].legend(frameon=False, fontsize=8)
    figure.tight_layout()
    PLOTS.mkdir(exist_ok=True)
    figure.savefig(PLOTS / "growth.png", dpi=90)
    print(f"drawn in {PLOTS / 'growth.png'}")


def main() -> None:
    parser = options(__doc__, rounds=3, threads=(2,))
    parser.add_argument("series", nargs="*", default=[])
    parser.add_argument("--draw", type=Path, help="draw this result; measure nothing")
    given = parser.parse_args()
    if given.draw:
        draw(json.loads(given.draw.read_text(encoding="utf-8"))["results"])
        return
    makers = {"slices": slices, "area": area, "features": features, "sparsity": sparsity}
    about, results = introduce(), {}
    for name in given.series or makers:
        results[name] = series(makers[name](), given.threads[0], given.rounds, given.kernel)  # type: ignore[operator]
        show(name, results[name])
    keep({"machine": about, "kernel": given.kernel, "results": results}, "growth", given.json)
    draw(results)


if __name__ == "__main__":
    main()
