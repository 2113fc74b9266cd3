"""The queue of an experiment: each point in one part, and each part for one rank."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch.parallel.comm import Counted, Serial
from petabatch.waves.finished import Points
from petabatch.waves.queue import Parts, Queue
from support.rank_threads import Thread, on_threads


def points(count: int) -> Points:
    numbers = np.arange(count)
    return Points.of(numbers, {"run.seed": numbers})


@pytest.mark.parametrize("ranks", [1, 2, 5])
@pytest.mark.parametrize("ends", [[100], [30, 31, 100]])
def test_parts_have_each_point_once_and_become_smaller_where_there_are_ranks(
    ranks: int, ends: list[int]
) -> None:
    order = np.random.default_rng(1).permutation(100)
    parts = Parts.of(points(100), order, np.array(ends), 16, ranks)
    sizes = [len(part.numbers) for part in parts]
    assert np.concatenate([part.numbers for part in parts]).tolist() == order.tolist()
    assert set(ends) <= set(np.cumsum(sizes).tolist())
    assert max(sizes) <= 16
    assert (sizes[-1] == 1) == (ranks > 1)


def test_nothing_to_do_has_no_parts() -> None:
    assert not list(Parts.of(points(0), np.arange(0), np.array([0]), 4))


def test_ranks_take_each_part_once() -> None:
    def taken(rank: Thread) -> list[int]:
        parts = Parts.of(points(50), np.arange(50), np.array([50]), 1)
        return [int(part.numbers[0]) for part in Queue(parts, rank.counter(), rank)]

    assert sorted(number for mine in on_threads(3, taken) for number in mine) == list(range(50))


def test_a_queue_that_has_ended_gives_no_more() -> None:
    counter = Counted()
    queue = Queue(Parts.of(points(5), np.arange(5), np.array([5]), 1), counter, Serial())
    found = []
    for part in queue:
        found.append(part.numbers.tolist())
        counter.end()
    assert found == [[0]]
