"""Figures of what `growth.py` measured, one for each axis, with the floor drawn in."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

PLOTS = Path(__file__).parent / "plots"
COLOURS = {"dense": "tab:blue", "lazy": "tab:green", "auto": "tab:orange"}
NAMES = {"dense": "all units computed (dense)", "lazy": "silent units sleep (lazy)", "auto": "auto"}
MARKS = {"dense": "o-", "lazy": "s-", "auto": "x--"}


def draw(results: dict[str, Any]) -> None:
    """Draw all axes that were measured into `plots/growth_<axis>.png`."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    PLOTS.mkdir(exist_ok=True)
    for name, found in results.items():
        figure, axes = pyplot.subplots(figsize=(5, 3.6))
        _axis(axes, name, found)
        figure.tight_layout()
        figure.savefig(PLOTS / f"growth_{name}.png", dpi=110)
        pyplot.close(figure)
        print(f"drawn in {PLOTS / f'growth_{name}.png'}")


def _axis(axes: Any, name: str, found: dict[str, Any]) -> None:
    points, sparsity = found["points"], name == "sparsity"
    x = [100 * p["active"] if sparsity else p["x"] for p in points]
    order = sorted(range(len(x)), key=x.__getitem__)
    x = [x[i] for i in order]

    def column(kernel: str, index: int) -> list[float]:
        return [1e6 * statistics.median(points[i]["times"][kernel][index]) for i in order]

    kernels = list(points[0]["times"])
    for kernel in kernels:
        times = [points[i]["times"][kernel][0] for i in order]
        low = [1e6 * (statistics.median(t) - min(t)) for t in times]
        high = [1e6 * (max(t) - statistics.median(t)) for t in times]
        style = {"color": COLOURS[kernel], "label": NAMES[kernel], "ms": 4, "lw": 1.2, "capsize": 2}
        axes.errorbar(x, column(kernel, 0), [low, high], fmt=MARKS[kernel], **style)
    axes.plot(x, column(kernels[0], 3), "k:", label="floor: two dense sgemm")
    axes.set(xlabel="active units (%)" if sparsity else found["label"], ylabel="us for a step of a slice")
    axes.set_xscale("log", base=2 if name == "features" else 10)
    if found["power"]:
        axes.set_yscale("log")
    else:
        axes.set_ylim(bottom=0)
    axes.set_title(f"{found['threads']} threads; bars: least and most of the rounds", fontsize=8, loc="right")
    axes.grid(alpha=0.25, which="both", lw=0.5)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8)
