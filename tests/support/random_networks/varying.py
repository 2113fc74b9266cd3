"""Numbers of random networks that vary: over slices, over time and over the points of a sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.network.numbers import problem_of_values
from petabatch.spec.model import Model
from petabatch.spec.network import Network
from petabatch.spec.over_time import OverTime
from petabatch.spec.sweep import Range, Sweep
from support.random_networks.joining import Joining
from support.random_networks.tables import Wanted
from support.random_networks.words import keys

RUN = "run"
"""What is `beside` the parts of a network."""
VARYING = 2
"""Most numbers that vary in one way."""

Number = tuple[str, float]
"""The key path of a number, and the number."""


class Varying(Joining):
    """Draws which numbers of a network vary."""

    def __init__(self, seed: int, folder: Path, wanted: Wanted, rich: bool) -> None:
        """Begin with nothing; unless it is `rich`, only numbers vary that are to."""
        super().__init__(seed, folder, wanted)
        self.rich, self.beside = rich, dict[str, set[str]]()
        """Words that are to be said of parts when these are drawn: of their output, and how they vary."""

    def some(self, least: int, most: int) -> int:
        """Return how many are drawn of what nothing needs."""
        return int(self.rng.integers(least, most + 1)) if self.rich else 0

    def varied(self, network: Network) -> dict[str, Any]:
        """Return the tables of a network in which its numbers vary."""
        numbers = list(self._numbers())
        found: dict[str, Any] = {"slices": {}, "over_time": {}}
        for way in found:
            paths = _able(network, numbers, way == "over_time")
            for part in [None] * self.some(0, VARYING) + self._varied(way):
                taken = found["slices"].keys() | found["over_time"].keys()
                free = [one for one in paths if one[0] not in taken and self._of(one, part)]
                if not free:
                    continue
                weights = [1 + self._vary(way, path, self.said(_part(path))) for path, _ in free]
                path, value = self.weighted(free, weights)
                found[way][path] = self._slices(value) if way == "slices" else self._course(path, value)
        taken = found["slices"].keys() | found["over_time"].keys()
        free = [one for one in _able(network, numbers) if one[0] not in taken]
        if self.apart and free:
            found["sweep"] = self._sweep(free)
        return found

    def _varied(self, way: str) -> list[str]:
        """Return the parts of which a number is to vary in a way."""
        more = {"over_time": ("OverTime.",), "sweep": ("Sweep.", "Range.")}.get(way, ())
        return [name for name, words in self.beside.items() if any(w.startswith((way, *more)) for w in words)]

    def _of(self, number: Number, part: str | None) -> bool:
        """Return whether a number is of a part, if one is given, or of one that is not asked for."""
        own = _part(number[0])
        return own == part if part is not None else own not in self.beside

    def _numbers(self) -> Iterator[Number]:
        """Yield the numbers of parts and of tables in them, by key path."""
        for kind in ("layers", "connections"):
            for name, part in getattr(self, kind).items():
                yield from numbers_of(f"{kind}.{name}", part)

    def _vary(self, way: str, path: str, said: set[str]) -> float:
        """Return how much it is wanted that a number varies."""
        ways = [way] + ["OverTime.by=update"] * (way == "over_time" and ".learn." in path)
        return sum(self.weight(word, said, set()) for word in ways)

    def _slices(self, value: float) -> tuple[float, ...]:
        return tuple(value * (1 - 0.1 * number) if value else 0.05 * number for number in range(self.batch))

    def _course(self, path: str, value: float) -> OverTime:
        units = [
            "display",
            *["step", "step of display"] * (not self.early),
            *["update"] * (".learn." in path),
        ]
        self.demanded = frozenset(self.beside.get(_part(path), ()))
        by = self.one_of(*([one for one in units if f"OverTime.by={one}" in self.demanded] or units))
        values = (value, value * 0.8 if value else 0.05, value * 0.9)
        course = self.fill(OverTime, {"at": (1, 2, 4), "values": values}, more={"by": [by]})
        self.demanded = frozenset()
        return course

    def _sweep(self, paths: Sequence[Number]) -> Sweep:
        """Draw two points, in which numbers of some parts differ, with those of which it is demanded."""
        asked, columns = self._varied("sweep"), dict[str, Any]()
        for part in [None] * self.some(1, VARYING) + asked:
            free = [one for one in paths if one[0] not in columns and self._of(one, part)]
            if free:
                weights = [1 + self._vary("sweep", path, self.said(_part(path))) for path, _ in free]
                path, value = self.weighted(free, weights)
                columns[path] = (value, value * 0.8 if value else 0.05)
        of_run = self.beside.get(RUN, set())
        if not columns or "Range.spacing=log" in of_run or self.chance(0.5):
            spacing = "log" if "Range.spacing=log" in of_run else self.one_of("linear", "log")
            columns["run.dt"] = Range(start=0.4, stop=0.6, count=2, spacing=spacing)
        return self.fill(Sweep, {"values": columns, "combine": "zip"})


def _part(path: str) -> str:
    """Return the name of the part that a number is of."""
    return path.split(".")[1]


def _able(network: Network, numbers: Sequence[Number], over_time: bool = False) -> list[Number]:
    """Return the numbers that may vary."""
    return [
        (path, value)
        for path, value in numbers
        if problem_of_values(network, path, path, [value], over_time=over_time) is None
    ]


def numbers_of(path: str, table: Any) -> Iterator[Number]:
    """Yield the numbers of a table that are said, and of tables in it, by key path."""
    for key in keys(type(table)) if isinstance(table, Model) else table:
        value = getattr(table, key) if isinstance(table, Model) else table[key]
        if isinstance(value, Model | Mapping):
            yield from numbers_of(f"{path}.{key}", value)
        elif isinstance(value, float) and np.isfinite(value):
            default = type(table).model_fields[key].default if isinstance(table, Model) else None
            if key == "strength" or value != default:
                yield f"{path}.{key}", value
