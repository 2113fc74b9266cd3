"""Random sources of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.sources.orders import Order
from petabatch.sources.transforms import Transform
from petabatch.sources.view import View
from petabatch.spec.parts import Source
from support.random_networks.tables import Shape, Tables

STILL = ("sequential", "shuffled", "random", "by_movie", "specified")
ITEMS, MARGIN = 9, 8
"""Images of a source, and rows and columns by which they are larger than the layer."""


_ORDER = ("whiten", "resize", "pad", "crop", "grey", "colour", "flip", "normalize", "noise", "frames")
"""Transforms in an order in which they can follow each other."""


class Items:
    """A dataset of images, as torch has them."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __len__(self) -> int:
        return len(self.data)

    def __getitem__(self, number: int) -> np.ndarray:
        return self.data[number]


class Numbered:
    """A function of slice and display."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __call__(self, slice_: int, display: int) -> np.ndarray:
        return self.data[(3 * slice_ + display) % len(self.data)]


def random_source(tables: Tables, shape: Shape, batch: int, margin: bool) -> Source:
    """Draw a source for a layer of this shape; with `margin`, its images are larger than the layer."""
    rng, kind = tables.rng, tables.type_of(Source)
    name = kind.model_fields["type"].default
    chain = _transforms(tables, shape, margin) if name in ("array", "dataset", "function", "reels") else []
    made = {one.type for one in chain}
    channels = (
        3 if "grey" in made else 1 if "colour" in made else shape[2] // 2 if "frames" in made else shape[2]
    )
    room = MARGIN if margin or made & {"crop", "resize"} or (issubclass(kind, View) and not chain) else 0
    data = rng.normal(size=(ITEMS, shape[0] + room, shape[1] + room, channels)).astype(np.float32)
    held = {"array": {"data": data}, "dataset": {"data": Items(data)}, "function": {"call": Numbered(data)},
            "reels": {"data": (data[:2], data[2:5], data[5:6], data[6:])}}  # fmt: skip
    given: dict[str, Any] = held.get(name, {}) | ({"transforms": tuple(chain)} if chain else {})
    if "order" in kind.model_fields and (name == "reels" or "frames" in made):
        given["order"] = _order(tables, batch, ("movie",) if name == "reels" else ("by_movie",))
    more: dict[str, Any] = {"transforms": [], "order": [_order(tables, batch, STILL)]}
    return tables.fill(kind, given, more=more | ({"normalize": []} if chain else {}))


def _order(tables: Tables, batch: int, among: tuple[str, ...] = ()) -> Order:
    kind = tables.type_of(Order, among=among)
    specified = {"start": tuple(int(n) for n in tables.rng.integers(ITEMS, size=batch))}
    more = {"skip": [2, tuple(range(1, batch + 1))]}
    return tables.fill(kind, specified if kind.model_fields["type"].default == "specified" else {}, more=more)


def _transforms(tables: Tables, shape: Shape, margin: bool) -> list[Transform]:
    """Draw up to three transforms, in an order in which they can follow each other; none for most."""
    if tables.chance(0.5):
        return []
    wanted = {tables.one_of(*_ORDER) for _ in range(int(tables.rng.integers(1, 4)))}
    if margin:
        wanted = (wanted - {"pad", "resize"}) | {"crop"}
    if shape[2] % 2:
        wanted.discard("frames")
    if shape[2] != 3:
        wanted.discard("colour")
    if shape[2] != 1:
        wanted.discard("grey")
    given = {"frames": {"count": 2}, "noise": {"deviation": 0.2}}
    by_type = Transform.choices()
    return [by_type[name](**given.get(name, {})) for name in _ORDER if name in wanted]
