"""Random sources of images."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.sources.orders import Movie, Order, Specified
from petabatch.sources.transforms import Transform
from petabatch.sources.view import View
from petabatch.spec.parts import Source
from support.random_networks.tables import Shape, Tables

STILL = ("sequential", "shuffled", "random", "by_movie", "specified")
ITEMS, MARGIN = 9, 8
"""Images of a source, and rows and columns by which they are larger than the layer."""
LONG = 26
"""Frames of films that last as long as any run."""


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
    """Draw a source for a layer of this shape; with `margin`, its images are larger than the layer.

    With a batch of 1, all slices are shown the same.
    """
    rng, kind = tables.rng, tables.type_of(Source)
    if same := "slices" in kind.model_fields and (
        batch == 1 or tables.has("TransformedSource.slices=same", 0.15)
    ):
        batch = 1
    name = kind.model_fields["type"].default
    chain = _transforms(tables, shape, margin) if name in ("array", "dataset", "function", "reels") else []
    made = {one.type for one in chain}
    channels = (
        3 if "grey" in made else 1 if "colour" in made else shape[2] // 2 if "frames" in made else shape[2]
    )
    room = MARGIN if margin or made & {"crop", "resize"} or (issubclass(kind, View) and not chain) else 0
    data = rng.normal(size=(ITEMS, shape[0] + room, shape[1] + room, channels)).astype(np.float32)
    held = {"array": {"data": data}, "dataset": {"data": Items(data)}, "function": {"call": Numbered(data)}}
    given: dict[str, Any] = held.get(name, {}) | ({"transforms": tuple(chain)} if chain else {})
    if name == "reels":
        given["order"] = order = _order(tables, batch, ("movie",) if tables.chance(0.7) else ())
        given["data"] = _films(tables, order, data)
    elif "order" in kind.model_fields and "frames" in made:
        given["order"] = _order(tables, batch, ("by_movie",))
    if same:
        given["slices"] = "same"
    more: dict[str, Any] = {"transforms": [], "order": [_order(tables, batch, STILL)], "slices": []}
    return tables.fill(kind, given, more=more | ({"normalize": []} if chain else {}))


def _films(tables: Tables, order: Order, data: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return films of these frames, of lengths at which something follows on some slice's last frame.

    Where a run may not be longer than its films, these are long.
    """
    lengths: tuple[int, ...] = tables.one_of((2, 1, 3, 1, 1, 2), (1, 2, 1), (2, 3, 1, 2))
    if isinstance(order, Movie) and order.at_end == "stop" and order.end in ("hold", "longest"):
        lengths = (LONG if order.end == "longest" else 1, 1, 2, 2, 3, 3)
    elif isinstance(order, Movie) and order.end == "longest":
        lengths = (LONG, 1, 2)
    elif isinstance(order, Movie) and (
        order.end == "shortest" or (order.at_end == "stop" and order.end == "wrap")
    ):
        lengths = (LONG, LONG + 1, LONG)
    frames = np.resize(data, (sum(lengths), *data.shape[1:])) + tables.rng.normal(
        scale=0.1, size=(sum(lengths), 1, 1, 1)
    ).astype(np.float32)
    ends = np.cumsum(lengths)
    return tuple(frames[end - length : end] for length, end in zip(lengths, ends, strict=True))


def _order(tables: Tables, batch: int, among: tuple[str, ...] = ()) -> Order:
    kind = tables.type_of(Order, among=among)
    given: dict[str, Any] = {}
    if kind is Specified:
        given = {"start": tuple(int(n) for n in tables.rng.integers(4, size=batch))}
    elif kind is Movie and "Movie.at_end=stop" in tables.demanded:
        given = {"at_end": "stop", "end": tables.one_of("hold", "longest")}
    later = tuple(range(1, batch + 1))
    return tables.fill(kind, given, more={"skip": [2, later], **({} if given else {"start": [later]})})


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
    given = {"frames": {"count": 2}, "noise": {"std": 0.2}}
    by_type = Transform.choices()
    return [by_type[name](**given.get(name, {})) for name in _ORDER if name in wanted]
