"""The axes of `growth.py`: along each, all points process the same pixels.

A point shows a fixed pool of K images to any number of slices, in turn: slices start evenly spread over the
pool and go on to the next image at each display. So all numbers of slices see the same images follow one
another equally often, wherever K and the number of slices divide one another. The dictionaries are random,
of a fixed seed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from workloads import WORKLOADS, Workload

from petabatch.sources import Photographs

CROPS = 8
"""Images of a pool."""
BASE = replace(WORKLOADS["W1"], slices=CROPS)
"""Workload W1 on the pool."""


@dataclass(frozen=True)
class Point:
    """One measurement of an axis."""

    x: float
    workload: Workload
    """Its `displays` are the timed ones."""
    pool: np.ndarray
    """`[K, ny, nx, channels]`."""
    settled: int = 1
    """Untimed displays at the start, since the first ones start from zero."""
    name: str = ""

    def __str__(self) -> str:
        return self.name or f"{self.x:g}"


@dataclass(frozen=True)
class Axis:
    """A series of points, compared with the point `base`."""

    name: str
    label: str
    points: list[Point]
    base: float
    power: float
    """The cost is expected to grow with this power of x."""
    kernels: tuple[str, ...] = ("dense", "auto")


def crops(size: int, count: int = CROPS) -> np.ndarray:
    """Return a pool of random crops of one photograph, each standardised, `[count, size, size, 3]`."""
    source = Photographs(names=("coffee",), crop="random", contrast=0.05, normalize="standard")
    read = source.open((size, size, 3), count, 1)
    return np.stack([read(index, 0) for index in range(count)])


def mosaics(size: int, whole: int) -> np.ndarray:
    """Return two pictures of `whole` pixels a side, cut into squares of `size`: always the same pixels."""
    source = Photographs(names=("astronaut",), crop="center", normalize="standard")
    picture = source.open((whole, whole, 3), 1, 1)(0, 0)
    n = whole // size
    squares = np.stack([picture, picture[:, ::-1]]).reshape(2, n, size, n, size, 3).swapaxes(2, 3)
    return np.ascontiguousarray(squares.reshape(-1, size, size, 3))


def slices() -> Axis:
    """More slices, all of the same crops; 8 against itself shows the accuracy of the comparison.

    A display is four time constants long, as in W1, and a quarter as many steps: 1000 slices take a while.
    """
    pool, base = crops(BASE.image), replace(BASE, steps=100, tau=25.0)
    counts = {2: 64, 8: 16, 40: 4, 200: 1, 1000: 1}
    points = [Point(n, replace(base, slices=n, displays=displays), pool) for n, displays in counts.items()]
    again = replace(points[1], name="8 again")
    return Axis("slices", "slices", [*points, again], base=8, power=0)


def area() -> Axis:
    """Two pictures, whole or cut into smaller and smaller ones, starting from zero."""
    points = []
    for size in (16, 32, 64, 128, 256):
        pool = mosaics(size, 256)
        one = replace(BASE, image=size, slices=len(pool), steps=200)
        points.append(Point(size * size, one, pool, settled=0, name=f"{size}x{size}"))
    return Axis("area", "pixels of an image", points, base=32 * 32, power=1)


def features() -> Axis:
    """More features for the same crops and threshold."""
    pool, counts = crops(BASE.image), (32, 64, 128, 256, 512, 1024)
    points = [Point(n, replace(BASE, features=n, displays=max(1, 256 // n)), pool) for n in counts]
    return Axis("features", "features", points, base=128, power=1)


def sparsity() -> Axis:
    """Higher thresholds for the same crops and features."""
    pool, prices = crops(BASE.image), (0.05, 0.1, 0.2, 0.3, 0.4, 0.55, 0.8, 1.2, 2.0)
    points = [Point(x, replace(BASE, threshold=x), pool) for x in prices]
    return Axis("sparsity", "threshold", points, base=0.55, power=0, kernels=("dense", "lazy", "auto"))


AXES: dict[str, Callable[[], Axis]] = {
    "slices": slices,
    "area": area,
    "features": features,
    "sparsity": sparsity,
}
