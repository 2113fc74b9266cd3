"""The lazy steps of one slice on several threads: tiles of rows in place of slices, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from functools import partial
from typing import Any

from petabatch.kernels.cpu.convolution import join_strips
from petabatch.kernels.cpu.layout import Scratch, Shape
from petabatch.kernels.cpu.lazy.bound import filter_rows, set_direction, set_slopes, worth_aiming
from petabatch.kernels.cpu.lazy.layout import DecayTable, Features, LazyScratch, LazyState
from petabatch.kernels.cpu.lazy.state import hand_over
from petabatch.kernels.cpu.lazy.step import look_back, wake_tile
from petabatch.kernels.cpu.rules import Cell, Units
from petabatch.variable import Array


class ThreadTeam:
    """Threads that work on one slice together, each with scratch of its own beside what they share."""

    def __init__(self, pool: Executor, works: list[Scratch], benches: list[LazyScratch]) -> None:
        self.pool, self.threads, self.common = pool, len(works), works[0]
        self.works = [
            works[0]._replace(active=work.active, values=work.values, ends=work.ends) for work in works
        ]
        self.benches = [bench._replace(change=benches[0].change) for bench in benches]

    def together(self, work: Callable[[int], int | None]) -> int:
        """Have each thread do `work`, given its number; return the sum of what they return."""
        tasks = [self.pool.submit(work, thread) for thread in range(self.threads)]
        wait(tasks)
        return sum(task.result() or 0 for task in tasks)

    def each_tile(self, work: Callable[[int, int], object]) -> None:
        """Have `work` done for each tile, given its number and that of the thread."""

        def take(tiles: Iterator[int], thread: int) -> None:
            for tile in tiles:
                work(tile, thread)

        self.together(partial(take, self.tiles()))

    def tiles(self) -> Iterator[int]:
        """Return all tiles, of which each thread takes the next when it is done with one."""
        return iter(range(len(self.common.strips)))

    def rows(self, thread: int, s: Shape) -> tuple[int, int]:
        """Return the rows of the image that are a thread's."""
        return s.height * thread // self.threads, s.height * (thread + 1) // self.threads


def aim_in_rows(
    team: ThreadTeam, image: Array, factor: Any, recon: Array, signed: bool, state: LazyState,
    weights: Features, s: Shape,
) -> None:  # fmt: skip
    """Do as `cpu_lazy_motion.aim` does, on all threads of a crew."""
    set_direction(image, factor, recon, state, s, team.common, team.benches[0])

    def slopes(tile: int, thread: int) -> None:
        set_slopes(tile, signed, state, weights, s, team.works[thread], team.benches[thread])

    team.each_tile(slopes)


def advance_lazily_in_rows(
    team: ThreadTeam, image: Array, factor: Any, recon: Array, error: Array, units: Units, state: LazyState,
    weights: Features, c: Cell, e: Any, rest: Any, t: DecayTable, age: int, s: Shape, steps: int, beyond: int,
    watched: Array, sums: Array,
) -> int:  # fmt: skip
    """Do as `cpu_lazy.advance_lazily` does, on all threads of a crew; return the age."""

    def filter_error(ahead: Any, thread: int) -> None:
        rows = team.rows(thread, s)
        filter_rows(image, factor, recon, *rows, e, rest, ahead, s, error, state, team.benches[0].change)

    def wake(step: int, rescale: bool, tiles: Iterator[int], thread: int) -> int:
        silent, look, own = 0, bool(watched[step]), (s, team.works[thread], team.benches[thread])
        for tile in tiles:
            due, active = wake_tile(tile, age, rescale, look, state, weights, c, t, *own)
            silent += due - active
        return silent

    def join(thread: int) -> None:
        join_strips(team.common.strips, *team.rows(thread, s), s, recon)

    def join_and_filter(ahead: Any, thread: int) -> None:
        # A thread's rows of the error need no other rows of the reconstruction.
        join(thread)
        filter_error(ahead, thread)

    def lead_on() -> Any:
        before = state.lead[0]
        state.lead[0] = e * before + rest
        return state.lead[0] - before

    for step in range(steps):
        if step == 0:
            team.together(partial(filter_error, lead_on()))
        rescale = age == t.fade.size - 1
        age = 1 if rescale else age + 1
        silent, left = team.together(partial(wake, step, rescale, team.tiles())), steps - step - 1
        state.in_vain[0] += silent
        if watched[step]:
            look_back(error, team.common.tallies, sums[step])
        if worth_aiming(state.in_vain[0], silent, left + beyond, units.A.size):
            team.together(join)
            aim_in_rows(team, image, factor, recon, c.signed, state, weights, s)
            team.together(partial(filter_error, lead_on()))
            state.in_vain[0] = -units.A.size
        else:
            team.together(partial(join_and_filter, lead_on()) if left else join)
    team.each_tile(lambda tile, thread: hand_over(tile, units, state, s))
    return age
