"""Who makes the steps of a short call: the calling thread, unless there are sums for it to move."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from petabatch.engine.engine import Engine
from petabatch.engine.group import Group
from petabatch.engine.reduction import Exact, Overlapped, Reduction
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from support.networks import images, lca_network

PATIENCE = 5.0
"""Seconds for which lanes wait for sums to go on."""


class Travelling(Exact):
    """Sums that arrive when they have been polled so many times."""

    def __init__(self, engine: Engine, polls: int) -> None:
        super().__init__(engine.state, Serial())
        self.left, self.by = polls, set[int]()

    @property
    def pending(self) -> bool:
        return self.left > 0

    def poll(self) -> None:
        self.left -= 1
        self.by.add(threading.get_ident())


def short_call(
    reduction: Reduction, engine: Engine, threads: int, monkeypatch: pytest.MonkeyPatch
) -> set[int]:
    """Let lanes wait in two steps until sums have arrived; return the threads of the lanes."""
    lanes = set[int]()

    def waiting(group: Group, first: int, last: int) -> None:
        lanes.add(threading.get_ident())
        end = time.monotonic() + PATIENCE
        while reduction.pending and time.monotonic() < end:
            time.sleep(0.001)
        assert not reduction.pending, "sums do not go on while lanes make the steps of a short call"

    monkeypatch.setattr(Group, "run", waiting)
    with ThreadPoolExecutor(threads) as pool:
        engine.dispatch.advance(pool, 0, 2, reduction)
    return lanes


def small_engine(threads: int) -> Engine:
    engine = Engine(schedule(build(lca_network(images(4)))), Serial(), threads)
    engine.start()
    assert engine.plan.lane_steps > 2
    return engine


@pytest.mark.parametrize("threads", [1, 2])
def test_sums_go_on_while_lanes_make_the_steps_of_a_short_call(
    threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = small_engine(threads)
    travelling = Travelling(engine, 5)
    lanes = short_call(travelling, engine, threads, monkeypatch)
    here = threading.get_ident()
    assert travelling.by == {here}
    assert here not in lanes


def test_without_sums_under_way_the_calling_thread_makes_the_steps_of_a_short_call(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    engine = small_engine(1)
    assert short_call(Travelling(engine, 0), engine, 1, monkeypatch) == {threading.get_ident()}


def test_sums_that_have_arrived_are_not_under_way() -> None:
    engine = small_engine(1)
    reduction = Overlapped(engine.state, Serial())
    values = np.ones((4, 1, 1, 2, 3), np.float32)
    assert reduction(0, 0, {"product": values}, {}, True) == {}
    assert reduction.pending
    reduction.poll()
    assert not reduction.pending
