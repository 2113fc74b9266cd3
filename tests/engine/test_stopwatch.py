"""The clock of the time of a lane."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from petabatch.engine.engine import Engine
from petabatch.engine.stopwatch import Stopwatch
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import FOR_RANKS, Serial
from support.networks import images, lca_network


def test_time_that_counts_elsewhere_does_not_count_to_an_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    now, compiled = 0.0, 0.0
    fake = SimpleNamespace(monotonic=lambda: now, thread_time=time.thread_time)
    monkeypatch.setattr("petabatch.engine.stopwatch.time", fake)
    clock = Stopwatch(lambda: compiled)
    with clock.measure("learning"):
        now, compiled = 0.5, 0.25
    assert clock.elapsed["learning"] == 0.25
    with clock.measure("learning"):
        now, compiled = 0.75, 1.0  # compiled on two threads
    assert clock.elapsed["learning"] == 0.25
    with clock.measure("learning"):
        now = 1.25
    assert clock.elapsed["learning"] == 0.75
    assert clock.spent["learning"] < 10


def test_the_wait_for_other_ranks_does_not_count_as_learning(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    fake = SimpleNamespace(monotonic=lambda: now, thread_time=time.thread_time)
    monkeypatch.setattr("petabatch.engine.stopwatch.time", fake)
    comm = Serial()
    engine = Engine(schedule(build(lca_network(images(1)))), comm, threads=1)

    def make(step: int) -> None:
        nonlocal now
        now, comm.waited[FOR_RANKS] = 3.0, 2.0

    monkeypatch.setattr(engine.updates, "make", make)
    engine._update(1)
    assert engine.times()["learning"] == 1.0
