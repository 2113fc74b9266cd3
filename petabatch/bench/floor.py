"""The floor: the time of the dense matrix products of a sparse-coding step with this machine's BLAS.

These are two `sgemm` per step, the drive and the reconstruction at all positions, without extracting or
accumulating patches and without the integration. A loop that skips silent units can be faster.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_limits

from petabatch.geometry import Patches

_ROWS = 4096
"""Rows of an `sgemm` over several slices at a time, which is faster for small slices."""
_SECONDS = 0.05
"""Duration of one measurement on each thread."""


class Floor:
    """The two `sgemm` per slice and step of one geometry, in the shape that is fastest here."""

    def __init__(self, patches: Patches, batch: int) -> None:
        self.patches, self.batch = patches, batch
        counts = {1, max(1, min(batch, _ROWS // patches.positions))}
        trials = {count: min(self._time(count, 3, 1) for _ in range(3)) for count in sorted(counts)}
        self.slices = min(trials, key=trials.__getitem__)
        """Slices in one `sgemm`."""
        self._repeats = max(1, int(_SECONDS / (trials[self.slices] * self.slices)))

    def seconds(self, threads: int = 1) -> float:
        """Return the seconds of one step of one slice, with each of the threads at work on its own slices."""
        return self._time(self.slices, self._repeats, threads)

    def rate(self, seconds: float) -> float:
        """Return the floating-point operations per second to which this time corresponds."""
        return 4 * self.patches.multiply_adds / seconds

    def _time(self, slices: int, repeats: int, threads: int) -> float:
        # BLAS threads itself only when there are fewer slices than threads.
        workers, inside = (threads, 1) if self.batch >= threads else (1, threads)
        sets = [self._arrays(slices) for _ in range(workers)]
        with threadpool_limits(inside), ThreadPoolExecutor(workers) as pool:
            list(pool.map(_multiply, sets, [1] * workers))
            begin = time.perf_counter()
            list(pool.map(_multiply, sets, [repeats] * workers))
            return (time.perf_counter() - begin) / (repeats * slices * workers)

    def _arrays(self, slices: int) -> list[np.ndarray]:
        p, rng = self.patches, np.random.default_rng(1)
        rows = slices * p.positions
        shapes = [(rows, p.length), (p.length, p.features), (rows, p.features), (p.features, p.length)]
        patches, decode, code, encode = (rng.standard_normal(shape, np.float32) for shape in shapes)
        return [patches, decode, code, encode, np.zeros_like(code), np.zeros_like(patches)]


def _multiply(arrays: list[np.ndarray], times: int) -> None:
    patches, decode, code, encode, drive, recon = arrays
    for _ in range(times):
        np.dot(patches, decode, out=drive)
        np.dot(code, encode, out=recon)
