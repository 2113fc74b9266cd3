"""The clock of the time of a lane."""

from __future__ import annotations

import time

from petabatch.engine.clock import Clock


def test_time_that_counts_elsewhere_does_not_count_to_an_activity() -> None:
    compiled = [0.0]
    clock = Clock(lambda: compiled[0])
    with clock.measure("learning"):
        time.sleep(0.2)
        compiled[0] = 0.2
    assert 0 <= clock.elapsed["learning"] < 0.1
    with clock.measure("learning"):
        time.sleep(0.2)
    assert clock.elapsed["learning"] >= 0.2
