"""Panels of sweeps of many or unordered points: a heat map over two values, a cloud against one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from petabatch.plotting.figures import colour_bar
from petabatch.plotting.texts import note

_CURVES = 32
"""Curves, and values along them where several vary, up to which there is a curve for each combination."""
_BINS = 8, 32
"""Fewest and most bins of the axis of a cloud; medians and quartiles are drawn for each."""
_IN_BIN = 10
"""Points in a bin, on average, that have quartiles."""


def many(along: np.ndarray, columns: Mapping[str, np.ndarray]) -> bool:
    """Return whether there are too many points for curves: of several values that all vary."""
    others = [column for column in columns.values() if column is not along]
    curves = len(np.unique(np.stack(others), axis=1).T) if others else 1
    return curves > _CURVES


def unordered(along: np.ndarray, columns: Mapping[str, np.ndarray]) -> bool:
    """Return whether another value follows the one on the axis, but neither rises nor falls with it.

    So it is of points that are drawn, which a curve would join at random.
    """
    first = np.unique(along, return_index=True)[1]
    for column in columns.values():
        steps = np.diff(column[first])
        if follows(column, along) and (steps > 0).any() and (steps < 0).any():
            return True
    return False


def follows(column: np.ndarray, along: np.ndarray) -> bool:
    """Return whether a value is the same wherever the one on the axis is, as those of a zipped sweep are."""
    return len(np.unique(np.stack([along, column]), axis=1).T) == len(np.unique(along))


def gridded(columns: Mapping[str, np.ndarray]) -> tuple[str, str] | None:
    """Return the two values that form a full grid over the slices, None if there is no such pair."""
    counts = {name: len(np.unique(column)) for name, column in columns.items()}
    varying = [name for name, count in counts.items() if count > 1]
    if len(varying) != 2:
        return None
    x, y = sorted(varying, key=lambda name: -counts[name])
    pairs = np.unique(np.stack([columns[x], columns[y]]), axis=1).shape[1]
    return (x, y) if pairs == counts[x] * counts[y] else None


def is_log(values: np.ndarray) -> bool:
    """Return whether drawn values are spread evenly over their logarithms rather than over the numbers."""
    low, high = values.min(), values.max()
    middle = float(np.median(values))
    return bool(low > 0 and high / low >= 8 and middle < np.sqrt(np.sqrt(low * high) * (low + high) / 2))


def heat_map(axes: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray, label: str) -> None:
    """Draw the means of `values` over the grid of x and y; failed points are left white."""
    (xs, column), (ys, row) = (np.unique(one, return_inverse=True) for one in (x, y))
    sound = np.isfinite(values)
    shape, place = (len(ys), len(xs)), (row[sound], column[sound])
    total, count = np.zeros(shape), np.zeros(shape)
    np.add.at(total, place, values[sound])
    np.add.at(count, place, 1)
    means = np.ma.masked_invalid(np.divide(total, count, out=np.full(shape, np.nan), where=count > 0))
    mesh = axes.pcolormesh(xs, ys, means, cmap="viridis", shading="nearest", rasterized=True)
    mesh.places = xs, ys
    colour_bar(axes, mesh, label)
    if np.ma.getmaskarray(means).any():
        note(axes, "White: failed points")


def cloud(axes: Any, x: np.ndarray, values: np.ndarray, colour: str, is_log: bool) -> None:
    """Draw a dot for each slice; of many, medians and quartiles along x. Failed points are left out."""
    sound = np.isfinite(values)
    x, values = x[sound], values[sound]
    size = float(np.clip(100 / np.sqrt(max(len(x), 1)), 1, 4))
    axes.plot(
        x, values, ".", color=colour, ms=size, mew=0, alpha=0.5, rasterized=True, label="a slice", zorder=2
    )
    most = min(_BINS[1], len(x) // _IN_BIN)
    if most < _BINS[0] or len(np.unique(x)) < 2:
        return
    space = np.geomspace if is_log else np.linspace
    edges = space(x.min(), x.max(), most + 1)
    place = np.clip(np.searchsorted(edges, x, side="right") - 1, 0, most - 1)
    bins = [number for number in range(most) if (place == number).any()]
    low, middle, high = np.array(
        [np.quantile(values[place == number], (0.25, 0.5, 0.75)) for number in bins]
    ).T
    at = np.array([np.median(x[place == number]) for number in bins])
    axes.fill_between(at, low, high, color=colour, alpha=0.25, lw=0, zorder=3, label="interquartile range")
    axes.plot(at, middle, color=colour, zorder=4, label="median")
