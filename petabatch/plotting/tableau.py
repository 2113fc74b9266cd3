"""Plot of a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.plotting.figures import COLOURS, figure_of, images, show, styled


@styled
def dictionary(weights: Any, use: Any = None, *, columns: int | None = None, title: str = "") -> Any:
    """Return a tableau of features, the most used first, with a bar chart of their use below.

    `weights` is `[feature, py, px, channel]` with 1 or 3 channels; each feature is scaled by its own largest
    absolute weight, and zero is middle grey. `use` is `[feature]`, the fraction of units that were active.
    """
    weights = images(weights, "weights [feature, py, px, channel]")
    count, height, width, _ = weights.shape
    order = np.arange(count) if use is None else np.argsort(-np.asarray(use), kind="stable")
    columns = columns or _columns(count, height / width)
    rows = -(-count // columns)
    largest = np.abs(weights).max(axis=(1, 2, 3), keepdims=True)
    patches = 0.5 + 0.5 * (weights / np.where(largest > 0, largest, 1))[order]
    gap = max(1, round(0.1 * max(height, width)))
    tableau = np.ones((rows * (height + gap) - gap, columns * (width + gap) - gap, weights.shape[-1]))
    for number, patch in enumerate(patches):
        y, x = number // columns * (height + gap), number % columns * (width + gap)
        tableau[y : y + height, x : x + width] = patch
    inches = 6.4
    tall = inches * tableau.shape[0] / tableau.shape[1]
    figure, (top, *below) = figure_of(
        (inches, tall + (0.5 if use is None else 1.7)),
        1 if use is None else 2,
        1,
        height_ratios=[1.0] if use is None else [tall, 1.0],
    )
    show(top, tableau)
    top.set_title(title or f"{count} features of {height} × {width}", loc="left")
    for axes in below:
        percent = 100 * np.asarray(use)[order]
        axes.bar(np.arange(1, count + 1), percent, width=1.0, color=COLOURS[0], linewidth=0)
        axes.set(xlim=(0.5, count + 0.5), xlabel="feature, most used first", ylabel="active (%)")
    return figure


def _columns(count: int, aspect: float) -> int:
    """Return the number of columns: an aspect ratio of about 3:2, preferring full rows."""
    ideal = np.sqrt(1.5 * count * aspect)
    near = range(max(1, int(0.75 * ideal)), max(2, int(1.4 * ideal) + 1))
    full = [n for n in near if count % n == 0]
    return min(full, key=lambda n: abs(n - ideal)) if full else max(1, round(ideal))
