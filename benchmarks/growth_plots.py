"""Figures of the results of `growth.py`, one per axis, beside two dense matrix products."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from petabatch.plotting.figures import STYLE, logarithmic
from petabatch.plotting.texts import capital

WALL, FLOOR, BASE = 0, 3, 4
"""Indices into what is stored per point; see `growth.py`."""
PLOTS = Path(__file__).parent / "plots"
COLOURS = {"dense": "C0", "lazy": "C2", "auto": "C1"}
NAMES = {"dense": "all units computed (dense)", "lazy": "silent units sleep (lazy)", "auto": "auto"}
MARKS = {"dense": "o-", "lazy": "s-", "auto": "x--"}


def draw(results: dict[str, Any]) -> None:
    """Draw all axes that were measured into `plots/growth_<axis>.png`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    pyplot.style.use(STYLE)
    PLOTS.mkdir(exist_ok=True)
    for name, found in results.items():
        figure, axes = pyplot.subplots(figsize=(3.5, 2.8), layout="constrained")
        _axis(axes, name, found)
        figure.savefig(PLOTS / f"growth_{name}.png")
        pyplot.close(figure)
        print(f"figure written to {PLOTS / f'growth_{name}.png'}")


def _axis(axes: Any, name: str, found: dict[str, Any]) -> None:
    sparsity, relative = name == "sparsity", name == "slices"
    points = [p for p in found["points"] if not p["name"].endswith("again")]
    points.sort(key=lambda p: p["active"] if sparsity else p["x"])
    x = [100 * p["active"] if sparsity else p["x"] for p in points]

    def times(p: dict[str, Any], kernel: str, index: int) -> list[float]:
        """Return the ratio to the base point of each round."""
        mine = p["times"][kernel]
        if relative:
            return [a / b for a, b in zip(mine[WALL], mine[BASE], strict=True)]
        return [1e6 * value for value in mine[index]]

    kernels = list(points[0]["times"])
    for kernel in kernels:
        rounds = [times(p, kernel, WALL) for p in points]
        middle = [statistics.median(one) for one in rounds]
        low = [statistics.median(one) - min(one) for one in rounds]
        high = [max(one) - statistics.median(one) for one in rounds]
        style = {"color": COLOURS[kernel], "label": NAMES[kernel], "ms": 3, "lw": 1.0, "capsize": 2}
        axes.errorbar(x, middle, [low, high], fmt=MARKS[kernel], **style)
    if relative:
        axes.axhspan(0.95, 1.05, color="0.9", label="within 5 %", zorder=0)
    else:
        floor = [statistics.median(times(p, kernels[0], FLOOR)) for p in points]
        axes.plot(x, floor, "k:", label="two dense sgemm")
    cost = "Time per step and slice"
    axes.set(
        xlabel="Active units (%)" if sparsity else capital(found["label"]),
        ylabel=f"{cost} / that of {found['base']} slices" if relative else f"{cost} (µs)",
    )
    if not sparsity:
        logarithmic(axes, "x")
    if found["power"]:
        logarithmic(axes)
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(f"{found['threads']} threads; bars: smallest and largest of the rounds")
    axes.grid(axis="y")
    axes.legend()
