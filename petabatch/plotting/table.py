"""Tables of what figures draw, as CSV: numbers, the parts of a network, or times."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

_MOST = 200_000
"""Rows of a table; of what has more, every n-th is written."""
HEAD = ("panel", "series", "x", "y", "value")
_SIZES = ("rows", "columns", "features")
_WORDS = ("pre", "post", "channel", "feedback", "mode", "of", "learn", "delay_steps")


def as_csv(figure: Any) -> str:
    """Return the numbers of lines, bars, dots, bands and maps: one row for each, by panel and series.

    Maps have their value at column x and row y, images in colour three: red, green and blue from 0 to 1.
    """

    def rows() -> Iterator[list[Any]]:
        for number, axes in enumerate(figure.axes, 1):
            title = axes.get_title(loc="left") or axes.get_title() or axes.get_ylabel() or axes.get_xlabel()
            panel = " ".join(title.split()) or f"panel {number}"
            for series, x, y, value in _drawn(axes):
                for row in zip(*_thinned(x, y, value), strict=True):
                    yield [panel, series, *(_short(each) for each in row)]

    return _written(HEAD, rows())


def network_as_csv(
    layers: Mapping[str, Mapping[str, Any]], connections: Mapping[str, Mapping[str, Any]]
) -> str:
    """Return the layers and connections of a drawing: one row for each, connections by their numbers.

    Rows, columns and features are the shape of a layer, and those of a patch.
    """
    parts = [("layer", "", *pair) for pair in layers.items()]
    parts += [("connection", str(number), *pair) for number, pair in enumerate(connections.items(), 1)]

    def rows() -> Iterator[list[Any]]:
        for part, number, name, table in parts:
            shape = [*table.get("shape" if part == "layer" else "patch", ())]
            shape += [""] * (len(_SIZES) - len(shape))
            learn = (table.get("learn") or {}).get("type")
            words = [learn if word == "learn" else table.get(word) for word in _WORDS]
            yield [
                part,
                number,
                name,
                table["type"],
                *shape,
                *("" if each is None else each for each in words),
            ]

    return _written(("part", "number", "name", "type", *_SIZES, *_WORDS), rows())


def times_as_csv(times: Mapping[str, float]) -> str:
    """Return one row for each activity: its seconds, and their fraction of all; nothing of no times."""
    whole = sum(times.values()) or 1.0
    rows = ((name, _short(seconds), _short(seconds / whole)) for name, seconds in times.items())
    return _written(("activity", "seconds", "fraction"), rows) if times else ""


def _written(head: Iterable[str], rows: Iterable[Iterable[Any]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(head)
    writer.writerows(rows)
    return text.getvalue()


def _drawn(axes: Any) -> Iterator[tuple[str, Any, Any, Any]]:
    """Yield what axes show: the name of a series, and x, y and values."""
    from matplotlib.collections import PathCollection, PolyCollection, QuadMesh
    from matplotlib.container import BarContainer

    def named(artist: Any, otherwise: str) -> str:
        label = str(artist.get_label())
        return otherwise if label.startswith("_") or not label else label

    if axes.get_label() == "<colorbar>":
        return
    nothing = np.array([np.nan])
    for number, line in enumerate(axes.lines, 1):
        x, y = (np.asarray(each, float) for each in (line.get_xdata(), line.get_ydata()))
        if line.get_transform() == axes.transData:
            yield named(line, f"line {number}"), x, y, nothing
    for number, bars in enumerate(axes.containers, 1):
        if isinstance(bars, BarContainer):
            boxes = [bar.get_bbox() for bar in bars.patches]
            x, y = np.array([[(box.x0 + box.x1) / 2, box.y1] for box in boxes]).reshape(-1, 2).T
            yield named(bars, f"bars {number}"), x, y, nothing
    for number, one in enumerate(axes.collections, 1):
        if isinstance(one, QuadMesh):
            read: Any = one.get_array()
            values = np.ma.filled(read, np.nan)
            x, y = np.meshgrid(*one.places)  # type: ignore[attr-defined]
            yield "map", x.ravel(), y.ravel(), values.ravel()
        elif isinstance(one, PathCollection):
            places: Any = np.ma.filled(np.ma.asarray(one.get_offsets(), float), np.nan)
            yield named(one, f"dots {number}"), *places.T, nothing
        elif isinstance(one, PolyCollection) and len(one.get_facecolor()):  # a frame has none
            for path in one.get_paths():
                outline: Any = path.vertices
                yield named(one, f"edge of band {number}"), *outline.T, nothing
    for image in axes.images:
        values = np.ma.filled(np.ma.asarray(image.get_array(), float), np.nan)
        left, right, bottom, top = image.get_extent()
        rows, columns = values.shape[:2]
        across = left + (np.arange(columns) + 0.5) * (right - left) / columns
        down = top + (np.arange(rows) + 0.5) * (bottom - top) / rows  # the first row is at the top
        y, x = (each.ravel() for each in np.meshgrid(down, across, indexing="ij"))
        if values.ndim == 2:
            yield "map", x, y, values.ravel()
            continue
        for name, channel in zip(("red", "green", "blue"), np.moveaxis(values, -1, 0), strict=False):
            yield name, x, y, channel.ravel()


def _thinned(*columns: np.ndarray) -> tuple[np.ndarray, ...]:
    every = max(1, -(-len(columns[0]) // _MOST))
    return tuple(each[::every] for each in np.broadcast_arrays(*columns))


def _short(value: float) -> str:
    return "" if np.isnan(value) else f"{value:.7g}"
