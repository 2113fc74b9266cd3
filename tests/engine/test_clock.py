"""The clock of the time of a lane."""

from __future__ import annotations

import time
from types import SimpleNamespace

import pytest

from petabatch.engine.clock import Clock


def test_time_that_counts_elsewhere_does_not_count_to_an_activity(monkeypatch: pytest.MonkeyPatch) -> None:
    now, compiled = 0.0, 0.0
    fake = SimpleNamespace(monotonic=lambda: now, thread_time=time.thread_time)
    monkeypatch.setattr("petabatch.engine.clock.time", fake)
    clock = Clock(lambda: compiled)
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
