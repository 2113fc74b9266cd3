"""Dense steps of one slice on several threads: tiles of rows in place of slices, with the same bits.

For a rank with fewer slices than cores. Threads synchronise twice in a step, so a step should take much
longer than the tenth of a millisecond this costs. Tiles differ in active units, so each thread takes the next
one when it is done with the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from functools import partial

import numpy as np

from petabatch.kernels.cpu.controllers import StepControl, energy, rates, restart
from petabatch.kernels.cpu.convolution import crop, join_strips, residual
from petabatch.kernels.cpu.layout import Images, Model, Scratch, StepSums
from petabatch.kernels.cpu.step import compare_tile, sums_of_state, sums_of_step, update_tile
from petabatch.kernels.rules import ACCELERATED, Units


def advance_rows(
    pool: Executor, images: Images, units: Units, model: Model, control: StepControl, new_image: bool,
    works: list[Scratch], record: StepSums,
) -> None:  # fmt: skip
    """Do as `step.advance` does, on one thread of `pool` for each of `works`."""
    c, s, steps = model.cell, model.shape, record.wanted.size
    # Drive and active units are private to each thread; the rest of the scratch is shared.
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
        residual(images, *share(thread, s.height), s, common.error)

    def compare(thread: int, queue: Iterator[int]) -> None:
        for tile in queue:
            compare_tile(tile, units, model, works[thread])

    def together(work: Callable[[int], None]) -> None:
        tasks = [pool.submit(work, thread) for thread in range(threads)]
        wait(tasks)
        for task in tasks:
            task.result()

    def make(step: int, seen: float) -> float:
        """Make a step but for its residual, which is there; write the next one's; return the energy."""
        wanted, last = bool(control.adaptive or record.wanted[step]), step == steps - 1
        if c.rule == ACCELERATED:
            together(partial(compare, queue=iter(range(tiles))))
        e, gain = (np.float32(number) for number in rates(c, control, seen, common.tallies))

        def update(thread: int, queue: Iterator[int]) -> None:
            for tile in queue:
                update_tile(tile, step == 0, last, wanted, units, model, e, gain, works[thread])

        def join(thread: int) -> None:
            join_strips(common.strips, *share(thread, s.height), s, images.recon)
            if not last:
                subtract(thread)

        together(partial(update, queue=iter(range(tiles))))
        restart(c, control, common.tallies)
        if wanted:
            record.sums[step] = found = sums_of_step(s, common)
            seen = energy(control, found)
        together(join)
        return seen

    if steps > 0:
        seen = -1.0
        if control.adaptive and not new_image:
            seen = energy(control, sums_of_state(images.error, units.A, s, common))
        together(subtract)
        for step in range(steps):
            seen = make(step, seen)
        crop(common.error, s, images.error)
