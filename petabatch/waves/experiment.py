"""What waves and pools have in common: points that are computed one after the other, and kept in segments."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.engine.images import files_shown, log_notes, open_images
from petabatch.errors import InputError, RunDirectoryError
from petabatch.logs import log
from petabatch.network.numbers import value_of
from petabatch.network.plan import Plan
from petabatch.parallel.blocking_io import BlockingIO
from petabatch.parallel.consistency import fingerprint
from petabatch.spec.load import Loaded, resolved
from petabatch.spec.network import Network
from petabatch.storage.description import Files
from petabatch.storage.directory import RunDirectory
from petabatch.storage.point_rows import Layout
from petabatch.variable import Coordinate, Stream
from petabatch.waves.compute import Making, Wave
from petabatch.waves.finished import Points
from petabatch.waves.queue import Parts
from petabatch.waves.team import Team

_APART = {
    "run": ("threads", "wall_limit", "stuck_after", "verify"),
    "output": ("flush",),
    "": ("title", "sweep", "checkpoint", "parallel"),
}
"""Keys by table on which no number of a point depends."""


@dataclass(frozen=True)
class Experiment(ABC):
    """Points, and how they are computed."""

    loaded: Loaded
    base: Plan
    """The plan of the first point."""
    whole: bool = field(default=False, kw_only=True)
    """Whether all points are held at once, by all ranks together."""
    began: int = field(default=0, kw_only=True)
    """The step from which points start."""

    @property
    def network(self) -> Network:
        """The network."""
        return self.loaded.network

    @property
    @abstractmethod
    def what(self) -> str:
        """What a point is called."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of points."""

    @property
    @abstractmethod
    def layout(self) -> Layout:
        """What is kept of each point."""

    @abstractmethod
    def held(self, threads: int | None) -> int:
        """Return how many slices are held at once."""

    @abstractmethod
    def points(self, chunk: int = 1, chunks: int = 1) -> Points:
        """Return the points of a chunk, from 1: every `chunks`-th one."""

    @abstractmethod
    def refuse_shortage(self, team: Team) -> None:
        """Raise ResourceError where points cannot be computed for lack of memory; collective."""

    @abstractmethod
    def parts(self, points: Points, team: Team) -> Parts:
        """Return points in parts that are computed together, the same on all ranks; collective."""

    @abstractmethod
    def schedule(self, parts: Parts, team: Team) -> str:
        """Return how parts are computed, for the log."""

    @abstractmethod
    def computed(self, waiting: Iterable[Points], making: Making) -> Iterator[Wave]:
        """Compute parts that wait, and yield them as they are done; raises Stopped when it is stopped.

        The first rank of a team is asked what waits, and yields what is done.
        """

    @abstractmethod
    def coordinates(self, streams: Iterable[Stream], numbers: np.ndarray) -> tuple[Coordinate, ...]:
        """Return what the slices of points of these numbers differ in."""

    def check_input(self) -> None:
        """Open the images that points show, and log what is to be said of them; raises InputError."""
        with self.loaded.placing():
            readers = open_images(self.base, BlockingIO())
        log_notes(readers)
        for reader in readers.values():
            reader.close()

    @cached_property
    def files(self) -> Files:
        """The files of the items that points show; where points are joined, these may be out of reach."""
        try:
            readers = open_images(self.base, BlockingIO())
        except InputError as error:
            log.warning("%s\n    note:     run.h5 does not name the files of its items", error)
            return {}
        found = files_shown(readers)
        for reader in readers.values():
            reader.close()
        return found

    def base_value(self, path: str) -> float | None:
        """Return the number of a key in points that do not sweep it."""
        return value_of(self.network, path)


def identity(network: Network) -> dict[str, Any]:
    """Return the resolved tables of a network without its points.

    The checkpoint that points start from is named alone: a sweep keeps a copy, and its content is compared as
    that of other input.
    """
    table = resolved(network)
    for name, keys in _APART.items():
        for key in keys:
            (table[name] if name else table).pop(key, None)
    if network.run.start_from is not None:
        table["run"]["start_from"] = Path(network.run.start_from).name
    return table


def digest(network: Network) -> str:
    """Return what identifies a network without its points."""
    return fingerprint(json.dumps(identity(network), sort_keys=True))


def same_network(directory: RunDirectory, there: Loaded, here: Loaded) -> None:
    """Raise RunDirectoryError unless a directory is that of the same network, apart from its points."""
    old, new = (_flat(identity(one.network)) for one in (there, here))
    if keys := sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)):
        found = "; ".join(f"{key} = {new.get(key)}, in the directory {old.get(key)}" for key in keys[:5])
        hint = "choose another directory with --out"
        if keys == ["run.start_from"]:
            hint = f"-s run.start_from={there.network.run.start_from}, or {hint}"
        raise RunDirectoryError(
            f"{directory.path}: this directory has points of another network\n    found:    {found}\n"
            f"    expected: the same params, apart from [sweep]\n    hint:     {hint}"
        )


def _flat(table: object, path: str = "") -> dict[str, object]:
    if not isinstance(table, dict):
        return {path: table}
    return {
        key: value
        for name, one in table.items()
        for key, value in _flat(one, f"{path}.{name}".strip(".")).items()
    }
