"""Lazy steps of one slice on several threads: tiles of rows in place of slices, with the same bits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor, wait
from functools import partial
from typing import Any

from petabatch.kernels.cpu.certificate import Looks, is_due
from petabatch.kernels.cpu.controllers import SUM, total
from petabatch.kernels.cpu.convolution import join_strips
from petabatch.kernels.cpu.layout import Dictionary, Images, Scratch, Shape, StepSums
from petabatch.kernels.cpu.lazy.bound import filter_rows, set_direction, set_slopes, worth_choosing
from petabatch.kernels.cpu.lazy.layout import LazyModel, LazyScratch, LazyState
from petabatch.kernels.cpu.lazy.state import store_activity
from petabatch.kernels.cpu.lazy.step import update_tile_lazily, write_sums
from petabatch.kernels.cpu.threads import look_in_rows
from petabatch.kernels.rules import Units


class ThreadTeam:
    """Threads that work on one slice together, each with some private scratch."""

    def __init__(self, pool: Executor, works: list[Scratch], scratches: list[LazyScratch]) -> None:
        self.pool, self.threads, self.common = pool, len(works), works[0]
        self.works = [
            works[0]._replace(drive=work.drive, active=work.active, values=work.values, ends=work.ends)
            for work in works
        ]
        self.scratches = [lazy._replace(squares=scratches[0].squares) for lazy in scratches]

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


def choose_direction_in_rows(team: ThreadTeam, images: Images, state: LazyState, model: LazyModel) -> None:
    """Do as `bound.choose_direction` does, on all threads of a team."""
    set_direction(images, state, model.shape, team.common, team.scratches[0])

    def slopes(tile: int, thread: int) -> None:
        set_slopes(tile, state, model, team.works[thread], team.scratches[thread])

    team.each_tile(slopes)


def advance_lazily_in_rows(
    team: ThreadTeam, images: Images, units: Units, state: LazyState, model: LazyModel, age: int, beyond: int,
    record: StepSums, looks: Looks, dictionary: Dictionary,
) -> tuple[int, int]:  # fmt: skip
    """Do as `step.advance_lazily` does, on all threads of a team; return the number of steps and the age."""
    decay, s, steps = model.decay, model.shape, record.wanted.size

    def filter_error(ahead: Any, thread: int) -> None:
        filter_rows(images, *team.rows(thread, s), ahead, model, state, team.scratches[0].squares)

    def update(step: int, rescale: bool, tiles: Iterator[int], thread: int) -> int:
        silent, wanted = 0, bool(record.wanted[step])
        for tile in tiles:
            due, active = update_tile_lazily(
                tile, age, rescale, wanted, state, model, team.works[thread], team.scratches[thread]
            )  # fmt: skip
            silent += due - active
        return silent

    def join(thread: int) -> None:
        join_strips(team.common.strips, *team.rows(thread, s), s, images.recon)

    def join_and_filter(ahead: Any, thread: int) -> None:
        # A thread's rows of the error need no other rows of the reconstruction.
        join(thread)
        filter_error(ahead, thread)

    def stops(step: int) -> bool:
        """Look at the gap, if that is due."""
        if not is_due(looks, step):
            return False
        size, ends = total(team.common.tallies, SUM), looks.whole and step == steps - 1
        return look_in_rows(team.pool, ends, size, state.code, images, looks, dictionary, s, team.works)

    def advance_progress() -> Any:
        before = state.progress[0]
        state.progress[0] = decay.powers[1] * before + decay.scaled_gain[0]
        return state.progress[0] - before

    made = 0
    for step in range(steps):
        if step == 0:
            team.together(partial(filter_error, advance_progress()))
        rescale = age == decay.powers.size - 1
        age = 1 if rescale else age + 1
        silent, left = team.together(partial(update, step, rescale, team.tiles())), steps - step - 1
        state.wasted[0] += silent
        if record.wanted[step]:
            write_sums(images.error, team.common.tallies, record.sums[step])
        made += 1
        outdated = worth_choosing(state.wasted[0], silent, left + beyond, units.A.size)
        if left and not outdated and not is_due(looks, step):
            team.together(partial(join_and_filter, advance_progress()))
            continue
        team.together(join)
        if stops(step):
            break
        if outdated:
            choose_direction_in_rows(team, images, state, model)
            state.wasted[0] = -units.A.size
        if left:
            team.together(partial(filter_error, advance_progress()))
    team.each_tile(lambda tile, thread: store_activity(tile, units, state, s))
    return made, age
