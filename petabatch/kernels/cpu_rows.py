"""The steps of one slice on several threads: tiles of rows in place of slices, with the same bits.

For a rank with fewer slices than cores. Threads meet twice in a step, so a step should take much longer than
the tenth of a millisecond this costs.
"""

from __future__ import annotations

from concurrent.futures import Executor, wait
from typing import Any

import numpy as np

from petabatch.kernels.cpu import Cell, crop, join_strips, residual, update_tile
from petabatch.kernels.cpu_layout import Dictionary, Scratch, Shape
from petabatch.variable import Array

_NO_SUMS = np.zeros((0, 3))


def advance_rows(
    pool: Executor, image: Array, factor: Any, recon: Array, error: Array, V: Array, A: Array,
    weights: Dictionary, c: Cell, s: Shape, works: list[Scratch], steps: int,
) -> None:  # fmt: skip
    """Do as `cpu.advance` does, on one thread of `pool` for each of `works`; no sums."""
    # Error image and strips are everybody's; the rest of the scratch space is each thread's own.
    common = works[0]
    works = [work._replace(error=common.error, strips=common.strips) for work in works]
    tiles, threads = len(common.strips), len(works)

    def subtract(thread: int) -> None:
        begin, end = s.height * thread // threads, s.height * (thread + 1) // threads
        residual(image, factor, recon, begin, end, s, common.error)

    def update(thread: int, first: bool, last: bool) -> None:
        for tile in range(tiles * thread // threads, tiles * (thread + 1) // threads):
            update_tile(tile, first, last, V, A, weights, c, s, works[thread], _NO_SUMS)

    def join(thread: int, last: bool) -> None:
        begin, end = s.height * thread // threads, s.height * (thread + 1) // threads
        join_strips(common.strips, begin, end, s, recon)
        if not last:
            residual(image, factor, recon, begin, end, s, common.error)

    def together(work: Any, *arguments: bool) -> None:
        tasks = [pool.submit(work, thread, *arguments) for thread in range(threads)]
        wait(tasks)
        for task in tasks:
            task.result()

    if steps > 0:
        together(subtract)
        for step in range(steps):
            together(update, step == 0, step == steps - 1)
            together(join, step == steps - 1)
        crop(common.error, s, error)
