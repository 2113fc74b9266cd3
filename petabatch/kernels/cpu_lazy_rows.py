"""The lazy steps of one slice on several threads: tiles of rows in place of slices, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from functools import partial
from typing import Any

from petabatch.kernels.cpu import join_strips
from petabatch.kernels.cpu_layout import Scratch, Shape
from petabatch.kernels.cpu_lazy import filter_rows, look_back, wake_tile
from petabatch.kernels.cpu_lazy_layout import Bench, Fading, Features, Sleep
from petabatch.kernels.cpu_units import Cell, Units
from petabatch.variable import Array


def advance_lazily_in_rows(
    pool: Executor, image: Array, factor: Any, recon: Array, error: Array, units: Units, state: Sleep,
    weights: Features, c: Cell, e: Any, rest: Any, t: Fading, age: int, s: Shape, works: list[Scratch],
    benches: list[Bench], steps: int, watched: Array, sums: Array,
) -> int:  # fmt: skip
    """Do as `cpu_lazy.advance_lazily` does, on one thread of `pool` for each of `works`; return the age."""
    common, change = works[0], benches[0].change
    works = [common._replace(active=work.active, ends=work.ends) for work in works]
    benches = [bench._replace(change=change) for bench in benches]
    tiles, threads = len(common.strips), len(works)

    def share(thread: int, all_of_them: int) -> tuple[int, int]:
        return all_of_them * thread // threads, all_of_them * (thread + 1) // threads

    def subtract(thread: int) -> None:
        filter_rows(image, factor, recon, *share(thread, s.height), e, rest, s, error, state.filtered, change)

    def together(work: Callable[[int], None]) -> None:
        tasks = [pool.submit(work, thread) for thread in range(threads)]
        wait(tasks)
        for task in tasks:
            task.result()

    def make(step: int, age: int, rescale: bool) -> None:
        look, last = bool(watched[step]), step == steps - 1

        def wake(thread: int, queue: Iterator[int]) -> None:
            for tile in queue:
                wake_tile(
                    tile, age, rescale, look, units, state, weights, c, t, s, works[thread], benches[thread]
                )  # fmt: skip

        def join(thread: int) -> None:
            join_strips(common.strips, *share(thread, s.height), s, recon)
            if not last:
                subtract(thread)

        together(partial(wake, queue=iter(range(tiles))))
        if look:
            look_back(error, common.tallies, sums[step])
        together(join)

    if steps > 0:
        together(subtract)
    for step in range(steps):
        rescale = age == t.fade.size - 1
        age = 1 if rescale else age + 1
        make(step, age, rescale)
    return age
