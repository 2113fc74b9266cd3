"""The floor: the time of the dense matrix products of a step with this machine's BLAS.

One `sgemm` per connection with patches and step (in float64 a `dgemm`), at all positions, without extracting
or accumulating patches and without the integration. For a sparse-coding loop these are two, the drive and the
reconstruction. A network that skips silent units can be faster.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from petabatch.geometry import Patches

_ROWS = 4096
"""Rows of an `sgemm` over several slices at a time, which is faster for small slices."""
_SECONDS = 0.05
"""Duration of one measurement on each thread."""


class Product:
    """One `sgemm` of a connection for a number of slices, the fastest number here."""

    def __init__(self, patches: Patches, scatter: bool, batch: int, precision: str) -> None:
        """Measure which number is fastest; `scatter` is the reconstruction, else it is the drive."""
        self.patches, self.scatter, self._real = patches, scatter, precision
        counts = {1, max(1, min(batch, _ROWS // patches.positions))}
        trials = {count: min(self._seconds(count) for _ in range(3)) for count in sorted(counts)}
        self.slices = min(trials, key=trials.__getitem__)

    def _seconds(self, slices: int) -> float:
        arrays = self.arrays(slices)
        _multiply(arrays, 1)
        begin = time.perf_counter()
        _multiply(arrays, 3)
        return (time.perf_counter() - begin) / (3 * slices)

    def arrays(self, slices: int) -> list[np.ndarray]:
        """Return the factors and the product."""
        p, rng = self.patches, np.random.default_rng(1)
        rows, inner, columns = slices * p.positions, p.length, p.features
        if self.scatter:
            inner, columns = columns, inner
        factors = [
            rng.standard_normal(shape).astype(self._real) for shape in ((rows, inner), (inner, columns))
        ]
        return [*factors, np.zeros((rows, columns), self._real)]


class Floor:
    """The dense products of a step of one slice."""

    def __init__(
        self, products: Sequence[tuple[Patches, bool]], batch: int, precision: str = "float32"
    ) -> None:
        """Take the patches of each connection, and whether it scatters them (a reconstruction)."""
        self.batch = batch
        self.products = [Product(patches, scatter, batch, precision) for patches, scatter in products]
        once = self._time(1, 1)
        self._repeats = max(1, int(_SECONDS / max(once, 1e-9)))

    @classmethod
    def of_loop(cls, patches: Patches, batch: int) -> Floor:
        """Return the floor of a sparse-coding loop: drive and reconstruction."""
        return cls([(patches, False), (patches, True)], batch)

    def seconds(self, threads: int = 1) -> float:
        """Return the seconds of one step of one slice, with each of the threads at work on its own slices."""
        return self._time(self._repeats, threads)

    def rate(self, seconds: float) -> float:
        """Return the floating-point operations per second to which this time corresponds."""
        return 2 * sum(product.patches.multiply_adds for product in self.products) / seconds

    def _time(self, repeats: int, threads: int) -> float:
        # BLAS threads itself only when there are fewer slices than threads.
        workers, inside = (threads, 1) if self.batch >= threads else (1, threads)
        found = 0.0
        with threadpool_limits(inside), ThreadPoolExecutor(workers) as pool:
            for product in self.products:
                sets = [product.arrays(product.slices) for _ in range(workers)]
                times = max(1, repeats // product.slices)
                list(pool.map(_multiply, sets, [1] * workers))
                begin = time.perf_counter()
                list(pool.map(_multiply, sets, [times] * workers))
                found += (time.perf_counter() - begin) / (times * product.slices * workers)
        return found


def _multiply(arrays: list[np.ndarray], times: int) -> None:
    a, b, out = arrays
    for _ in range(times):
        np.dot(a, b, out=out)
