"""What points record: its layout, and the rows of finished points in memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from petabatch.variable import Stream

POINT = "point"
"""Column of events: the number of the point in the file."""


@dataclass(frozen=True)
class Layout:
    """What is kept of each point."""

    network: str
    """Digest of the network without its points."""
    paths: tuple[str, ...]
    """Key paths of the values."""
    batch: int
    """Slices of each point."""
    streams: tuple[Mapping[str, Any], ...]
    """What is recorded of each point: the fields of `Stream`, with the shape of one point."""
    steps: Mapping[str, Sequence[int]]
    """Steps at whose end they are recorded, by path."""

    @cached_property
    def known(self) -> dict[str, Stream]:
        """The streams by path, with the shape of one point."""
        return {table["path"]: Stream.of(table) for table in self.streams}

    @cached_property
    def recorded(self) -> dict[str, tuple[int, ...]]:
        """The shape of what a point records by each path, `[times, batch, ...]`, but for what is empty."""
        found = (
            (path, (len(self.steps[path]), *one.shape)) for path, one in self.known.items() if one.batched
        )
        return {path: shape for path, shape in found if 0 not in shape}

    @cached_property
    def events(self) -> dict[str, np.dtype]:
        """The columns of events by their folder, such as `spikes/e`: first the point and the step."""
        found: dict[str, list[tuple[str, str]]] = {}
        for path, one in self.known.items():
            if one.events:
                columns = found.setdefault(path.rpartition("/")[0], [(POINT, "<i8"), ("step", "<i8")])
                columns.append((one.leaf, one.dtype))
        return {folder: np.dtype(columns) for folder, columns in found.items()}

    @property
    def nbytes(self) -> int:
        """Bytes of what a point records, but for events."""
        sizes = (
            math.prod(shape) * np.dtype(self.known[path].dtype).itemsize
            for path, shape in self.recorded.items()
        )
        return sum(sizes)

    @property
    def table(self) -> dict[str, Any]:
        """The same for JSON."""
        steps = {path: list(map(int, steps)) for path, steps in self.steps.items()}
        about = {"network": self.network, "paths": self.paths, "batch": self.batch}
        return {**about, "streams": self.streams, "steps": steps}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Layout:
        """Return the layout that `table` describes."""
        return cls(
            table["network"], tuple(table["paths"]), table["batch"], tuple(table["streams"]), table["steps"]
        )


def with_places(values: np.ndarray, length: int) -> np.ndarray:
    """Return values with `length` places along the last axis: zeros after theirs, or without the last.

    Points of which each slice has synapses of its own have the more places, the more synapses any point of
    their sweep can have: a sweep that was extended may have more, or fewer.
    """
    if values.shape[-1] == length:
        return values
    found = np.zeros((*values.shape[:-1], length), values.dtype)
    most = min(length, values.shape[-1])
    found[..., :most] = values[..., :most]
    return found


Room = Callable[[tuple[int, ...], str], np.ndarray]
"""Gives room for an array of zeros, by its shape and dtype."""


@dataclass(frozen=True)
class Rows:
    """What finished points have recorded, a row for each."""

    values: np.ndarray
    """`[points, keys]`."""
    failed: np.ndarray
    """The step at which each failed, -1 if it did not."""
    columns: Mapping[str, np.ndarray]
    """By path, `[points, times, batch, ...]`."""
    events: dict[str, np.ndarray]
    """By folder, in the order of points, steps, slices and units; their columns are those of the layout."""
    why: dict[int, str]
    """Why points failed, by the number of their row."""
    common: dict[str, np.ndarray]
    """What was recorded once for all points, by path."""

    @classmethod
    def of(cls, layout: Layout, values: np.ndarray, room: Room = np.zeros) -> Rows:
        """Return rows of points of which nothing is recorded yet."""
        count = len(values)
        columns = {
            path: room((count, *shape), layout.known[path].dtype) for path, shape in layout.recorded.items()
        }
        events = {folder: np.zeros(0, dtype) for folder, dtype in layout.events.items()}
        return cls(values, np.full(count, -1), columns, events, {}, {})

    def __len__(self) -> int:
        return len(self.values)

    @classmethod
    def joined(cls, parts: Sequence[Rows]) -> Rows:
        """Return the rows of all parts, one after the other."""
        if len(parts) == 1:
            return parts[0]
        begins = np.cumsum([0, *map(len, parts)])[:-1].tolist()
        return cls(
            np.concatenate([one.values for one in parts]),
            np.concatenate([one.failed for one in parts]),
            {path: np.concatenate([one.columns[path] for one in parts]) for path in parts[0].columns},
            joined_events([one.events for one in parts], begins),
            {at + row: text for at, one in zip(begins, parts, strict=True) for row, text in one.why.items()},
            next((one.common for one in parts if one.common), {}),
        )


def joined_events(parts: Sequence[Mapping[str, np.ndarray]], begins: Sequence[int]) -> dict[str, np.ndarray]:
    """Return the events of several parts, whose points begin at these rows."""
    found = {folder: np.concatenate([one[folder] for one in parts]) for folder in parts[0]}
    for folder, events in found.items():
        events[POINT] += np.repeat(begins, [len(one[folder]) for one in parts])
    return found
