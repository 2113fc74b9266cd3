"""The steps of one slice on several threads: tiles of rows in place of slices, with the same bits.

For a rank with fewer slices than cores. Threads meet twice in a step, so a step should take much longer than
the tenth of a millisecond this costs. Tiles differ in active units, so each thread takes the next one when it
is done with the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from functools import partial
from typing import Any

import numpy as np

from petabatch.kernels.cpu.controllers import StepControl, energy, rates, restart
from petabatch.kernels.cpu.convolution import crop, join_strips, residual
from petabatch.kernels.cpu.layout import Dictionary, Scratch, Shape
from petabatch.kernels.cpu.rules import ACCELERATED, Cell, Units
from petabatch.kernels.cpu.step import compare_tile, sums_of_state, sums_of_step, update_tile
from petabatch.variable import Array


def advance_rows(
    pool: Executor, image: Array, factor: Any, recon: Array, error: Array, units: Units, weights: Dictionary,
    c: Cell, p: StepControl, fresh: bool, s: Shape, works: list[Scratch], steps: int, watched: Array,
    sums: Array,
) -> None:  # fmt: skip
    """Do as `cpu.advance` does, on one thread of `pool` for each of `works`."""
    # The drive and the active units are each thread's own; the rest of the scratch space is everybody's.
    common = works[0]
    works = [
        common._replace(
            window=work.window, drive=work.drive, active=work.active, values=work.values, ends=work.ends
        )
        for work in works
    ]
    tiles, threads = len(common.strips), len(works)

    def share(thread: int, all_of_them: int) -> tuple[int, int]:
        return all_of_them * thread // threads, all_of_them * (thread + 1) // threads

    def subtract(thread: int) -> None:
        residual(image, factor, recon, *share(thread, s.height), s, common.error)

    def compare(thread: int, queue: Iterator[int]) -> None:
        for tile in queue:
            compare_tile(tile, units, weights, s, works[thread])

    def together(work: Callable[[int], None]) -> None:
        tasks = [pool.submit(work, thread) for thread in range(threads)]
        wait(tasks)
        for task in tasks:
            task.result()

    def make(step: int, seen: float) -> float:
        """Make a step but for its residual, which is there; write the next one's; return the energy."""
        look, last = bool(p.adaptive or watched[step]), step == steps - 1
        if c.rule == ACCELERATED:
            together(partial(compare, queue=iter(range(tiles))))
        e, rest = (np.float32(number) for number in rates(c, p, seen, common.tallies))

        def update(thread: int, queue: Iterator[int]) -> None:
            for tile in queue:
                update_tile(tile, step == 0, last, look, units, weights, c, e, rest, s, works[thread])

        def join(thread: int) -> None:
            join_strips(common.strips, *share(thread, s.height), s, recon)
            if not last:
                subtract(thread)

        together(partial(update, queue=iter(range(tiles))))
        restart(c, p, common.tallies)
        if look:
            sums[step] = found = sums_of_step(s, common)
            seen = energy(p, found)
        together(join)
        return seen

    if steps > 0:
        seen = -1.0 if fresh or not p.adaptive else energy(p, sums_of_state(error, units.A, s, common))
        together(subtract)
        for step in range(steps):
            seen = make(step, seen)
        crop(common.error, s, error)
