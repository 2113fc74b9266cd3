"""Dictionaries as patches of images; those of a second layer are projected through the first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from petabatch.errors import InputError
from petabatch.geometry import Axis, Link, make_link, pre_perspective
from petabatch.plotting.select import check_slice, choose, recorded, with_records
from petabatch.plotting.words import of_slice
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.weight_mode import over_positions


@dataclass(frozen=True)
class Dictionary:
    """One patch for each feature of a code layer."""

    connection: str
    weights: np.ndarray
    """`[feature, py, px, channel]`."""
    code: str
    """Layer whose units have these patches."""
    onto: str
    """Layer that they lie on."""
    step: int
    y: Axis
    x: Axis
    """Where the patch of a unit begins: `y.start(row)`."""
    through: tuple[str, ...] = ()
    """Connections through which the patches were projected."""
    whose: str = ""
    """What tells its slice from others, where each has weights of its own."""

    @property
    def name(self) -> str:
        """The connection, and whose weights these are, for a title."""
        return f"{self.connection} of {self.whose}" if self.whose else self.connection

    @property
    def title(self) -> str:
        """What this is, for a title."""
        count, height, width, _ = self.weights.shape
        seen = f" through {', '.join(self.through)}" if self.through else ""
        return f"{self.name}: {count:,} features of {height} × {width}{seen}"


def find_weights(run: Results, connection: str | None = None, records: int = 1) -> Series:
    """Return recorded weights, by default the first with so many records, or with most; raises InputError."""

    def wanted(name: str) -> int:
        there = f"connections/{name}/weights" in run and _weighted(run, name)
        return there and 1 + min(_records(run, name), records)

    hint = 'record them in [output.connections], such as dictionary = { every = "10 displays" }'
    connection = connection or choose(run, "connections", wanted, "dictionary", hint)
    return with_records(run, run.weights(connection))


def read_dictionary(
    run: Results,
    connection: str | None = None,
    time: int = -1,
    slice: int = 0,
    position: tuple[int, int] | None = None,
) -> Dictionary:
    """Return the dictionary of a connection at a recorded time.

    `slice` matters where each slice has its own weights, `position` (row, column; by default the
    centre) where each unit has. Patches on the code of another layer are projected through its dictionary.
    """
    series = find_weights(run, connection)
    name = series.name.split("/")[1]
    check_slice(run, slice)
    found = _on_layer(run, name, series, time, slice, position)
    while (lower := _dictionary_of(run, found)) is not None:
        below = run.weights(lower)
        nearest = int(np.abs(below.steps - found.step).argmin())
        found = _projected(found, _on_layer(run, lower, below, nearest, slice, position))
    return found


def _records(run: Results, name: str) -> int:
    """Return how often the weights of a connection have been recorded."""
    return len(run.weights(name)) if f"connections/{name}/weights" in run else 0


def _weighted(run: Results, name: str) -> bool:
    return "patch" in run.params.get("connections", {}).get(name, {})


def _link(run: Results, name: str) -> tuple[Link, dict[str, Any]]:
    """Return how the connection joins its layers, and its params; raises InputError if it has no patches."""
    table, layers = run.params["connections"][name], run.params["layers"]
    if not _weighted(run, name):
        found = f"{name}, of type {table['type']}"
        raise InputError(f"{run.path}: this connection has no patches\n    found:    {found}")
    pre, post = (tuple(layers[table[end]]["shape"]) for end in ("pre", "post"))
    return make_link(pre, post, tuple(table["patch"]), over_positions(table["mode"])), table


def _on_layer(
    run: Results, name: str, series: Series, time: int, slice: int, position: tuple[int, int] | None
) -> Dictionary:
    values = series[time, slice] if series.dims[1] == "batch" else series[time]
    link, table = _link(run, name)
    kernels = values.ndim == 6
    if link.scatter:
        coarse, fine = table["pre"], table["post"]
        if kernels:
            row, column = _position(run, values.shape[:2], position)
            values = values[row, column]
    else:
        coarse, fine = table["post"], table["pre"]
        if not link.patches.shared:
            raise InputError(
                f"{run.path}: the weights of {name} are patches of {table['pre']}, one for each unit\n"
                "    expected: weights from a code to its reconstruction, or shared ones"
            )
        values = many_to_one(values, link)
    step, (y, x) = int(series.steps[time]), (link.patches.y, link.patches.x)
    whose = of_slice(run, slice % run.batch) if series.dims[1] == "batch" and run.batch > 1 else ""
    return Dictionary(name, values.astype(float), coarse, fine, step, y, x, whose=whose)


def many_to_one(weights: np.ndarray, link: Link) -> np.ndarray:
    """Return shared weights of a many-to-one connection as patches, `[feature, py, px, channel]`."""
    (ky, iy), (kx, ix) = pre_perspective(link.patches.y), pre_perspective(link.patches.x)
    gathered = weights[ky[:, None], kx[None], :, iy[:, None], ix[None], :]  # [py, px, channel, feature]
    return np.moveaxis(gathered, -1, 0)


def _position(run: Results, kernels: tuple[int, ...], position: tuple[int, int] | None) -> tuple[int, int]:
    row, column = position or (kernels[0] // 2, kernels[1] // 2)
    if not (0 <= row < kernels[0] and 0 <= column < kernels[1]):
        raise InputError(
            f"{run.path}: there is no unit at this position\n    found:    {row}, {column}\n"
            f"    expected: rows from 0 to {kernels[0] - 1}, columns from 0 to {kernels[1] - 1}"
        )
    return row, column


def _dictionary_of(run: Results, found: Dictionary) -> str | None:
    """Return the recorded dictionary of the code that patches lie on; None if they lie on an image."""
    layers, connections = run.params["layers"], run.params["connections"]
    shape, seen = layers[found.onto]["shape"], {found.connection, *found.through}
    known = [name for name in recorded(run, "connections") if _records(run, name)]
    if any(layer["type"] == "input" and layer["shape"] == shape for layer in layers.values()):
        return None
    for name, table in connections.items():
        if name in seen or not _weighted(run, name):
            continue
        link, _ = _link(run, name)
        coarse, fine = (table["pre"], table["post"]) if link.scatter else (table["post"], table["pre"])
        if layers[coarse]["shape"] == shape and layers[fine]["shape"] != shape and name in known:
            return str(name)
    return None


def _projected(upper: Dictionary, lower: Dictionary) -> Dictionary:
    """Return the patches of `upper`, which lie on the code of `lower`, on the layer below."""
    features, height, width, _ = upper.weights.shape
    _, py, px, channels = lower.weights.shape
    y, x = (_through(a, b) for a, b in ((upper.y, lower.y), (upper.x, lower.x)))
    total = np.zeros((features, y.size, x.size, channels))
    for row in range(height):
        for column in range(width):
            top, left = row * lower.y.stride, column * lower.x.stride
            total[:, top : top + py, left : left + px] += np.tensordot(
                upper.weights[:, row, column], lower.weights, 1
            )
    through = (*upper.through, lower.connection)
    return Dictionary(upper.connection, total, upper.code, lower.onto, upper.step, y, x, through, upper.whose)


def _through(upper: Axis, lower: Axis) -> Axis:
    """Return the axis of patches of patches."""
    size = (upper.size - 1) * lower.stride + lower.size
    stride = upper.stride * lower.stride
    return _Composed(upper.coarse, lower.fine, stride, size, upper=upper, lower=lower)


@dataclass(frozen=True)
class _Composed(Axis):
    upper: Axis | None = None
    lower: Axis | None = None

    def start(self, unit: int) -> int:
        """Return the first index of the patch of `unit`, two layers down."""
        assert self.upper is not None
        assert self.lower is not None
        return self.lower.start(self.upper.start(unit))
