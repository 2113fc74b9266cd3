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

from petabatch.kernels.cpu.certificate import Looks, blocks, conclude, is_due, objective, search
from petabatch.kernels.cpu.controllers import SUM, StepControl, energy, rates, restart, total
from petabatch.kernels.cpu.convolution import crop, join_strips, residual
from petabatch.kernels.cpu.layout import Dictionary, Images, Model, Scratch, Shape, StepSums
from petabatch.kernels.cpu.step import compare_tile, sums_of_state, sums_of_step, update_tile
from petabatch.kernels.rules import ACCELERATED, Units
from petabatch.variable import Array


def advance_rows(
    pool: Executor, images: Images, units: Units, model: Model, control: StepControl, new_image: bool,
    works: list[Scratch], record: StepSums, looks: Looks,
) -> int:  # fmt: skip
    """Do as `step.advance` does, on one thread of `pool` for each of `works`."""
    c, s, steps = model.cell, model.shape, len(record.wanted)
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

    def make(step: int, seen: float) -> tuple[float, bool]:
        """Make a step but for its residual, which is there; write the next one's.

        Return the energy, and whether the slice stops.
        """
        wanted, last = bool(control.adaptive or record.wanted[step]), step == steps - 1
        looked = is_due(looks, step)
        if c.rule == ACCELERATED:
            together(partial(compare, queue=iter(range(tiles))))
        e, gain = (np.float32(number) for number in rates(c, control, seen, common.tallies))

        def update(thread: int, queue: Iterator[int]) -> None:
            for tile in queue:
                update_tile(tile, step == 0, last or looked, wanted, units, model, e, gain, works[thread])

        def join(thread: int) -> None:
            join_strips(common.strips, *share(thread, s.height), s, images.recon)
            if not (last or looked):
                subtract(thread)

        together(partial(update, queue=iter(range(tiles))))
        restart(c, control, common.tallies)
        if wanted:
            record.sums[step] = found = sums_of_step(s, common)
            seen = energy(control, found)
        together(join)
        if last or looked:
            crop(common.error, s, images.error)
        if not looked:
            return seen, False
        size, ends = total(common.tallies, SUM), last and looks.whole
        return seen, look_in_rows(pool, ends, size, units.A, images, looks, model.weights, s, works)

    if steps > 0:
        seen = -1.0
        if control.adaptive and not new_image:
            seen = energy(control, sums_of_state(images.error, units.A, s, common))
        together(subtract)
        for step in range(steps):
            seen, stops = make(step, seen)
            if stops:
                return step + 1
    return steps


def look_in_rows(
    pool: Executor, whole: bool, size: float, activity: Array, images: Images, looks: Looks,
    weights: Dictionary, s: Shape, works: list[Scratch],
) -> bool:  # fmt: skip
    """Do as `certificate.look` does, on one thread of `pool` for each of `works`, which share `error`."""
    found, threads = objective(size, images, s, works[0]), len(works)
    last, first = blocks(s, len(works[0].strips)), int(looks.block[0])
    given = (found, looks, whole, weights, s)
    steepest, exceeds = search(first, first + 1, 0.0, *given, works[0])
    if not exceeds:

        def mine(thread: int) -> tuple[float, bool]:
            part: tuple[float, bool] = search(
                last * thread // threads, last * (thread + 1) // threads, steepest, *given, works[thread]
            )
            return part

        tasks = [pool.submit(mine, thread) for thread in range(threads)]
        wait(tasks)
        slopes, too_large = zip(*(task.result() for task in tasks), strict=True)
        steepest, exceeds = max(slopes), any(too_large)
    return bool(conclude(steepest, exceeds, found, looks, whole, activity))
