"""Curves of per-slice quantities over the run."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import cycle
from typing import Any

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.figures import COLOURS, figure_of, styled


@styled
def energy(
    steps: Any,
    total: Any,
    parts: Mapping[str, Any] | None = None,
    *,
    name: str = "total",
    ylabel: str = "energy",
    display: int | None = None,
    log: bool = False,
    title: str = "",
) -> Any:
    """Return curves over the steps: the mean over slices as a line, percentiles 10 to 90 as a band.

    `steps` is `[step]`; `total` and each of `parts` (name to values) are `[step, batch]`. `display` is the
    number of steps for which an image is shown. Raises InputError when the shapes do not match.
    """
    steps = np.asarray(steps)
    curves = {name: np.asarray(total), **{k: np.asarray(v) for k, v in (parts or {}).items()}}
    for label, values in curves.items():
        if values.ndim != 2 or len(values) != len(steps) or 0 in values.shape:
            raise InputError(
                f"{label}: the shape of the values does not match {len(steps)} steps\n"
                f"    found:    {list(values.shape)}\n    expected: [step, batch]"
            )
    figure, (axes,) = figure_of((6.4, 3.6), 1, 1)
    for (label, values), colour in zip(curves.items(), cycle(COLOURS), strict=False):
        marker = "o" if len(steps) == 1 else None
        axes.plot(steps, values.mean(axis=1), marker=marker, color=colour, lw=1.8, label=label, zorder=3)
        if values.shape[1] > 1:
            low, high = np.percentile(values, (10, 90), axis=1)
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set(
        xlabel=f"step ({display} per image)" if display else "step",
        ylabel=ylabel,
        yscale="log" if log else "linear",
    )
    axes.margins(x=0.01)
    if not log and min(values.min() for values in curves.values()) >= 0:
        axes.set_ylim(bottom=0)
    if len(curves) > 1:
        axes.legend(ncols=len(curves), loc="lower right", bbox_to_anchor=(1.0, 1.0), borderaxespad=0.2)
    if title:
        axes.set_title(title, loc="left")
    if (slices := curves[name].shape[1]) > 1:
        axes.text(
            0.0, -0.17, f"mean and 10–90 % of {slices} slices",
            transform=axes.transAxes, fontsize=8, color="#707070", va="top",
        )  # fmt: skip
    return figure
