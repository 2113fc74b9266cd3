"""Time has one owner: its conversions agree with counting, and its schedules with each other."""

from __future__ import annotations

from dataclasses import FrozenInstanceError

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from petabatch.clock import Clock, fired, fires, firing, last_fire, next_fire
from petabatch.spec.schedule import Every

COUNTS = st.integers(1, 50)
STEPS = st.integers(0, 500)
OFFSETS = st.integers(-60, 60)
TIMES = st.floats(1e-3, 1e3)


@given(COUNTS, STEPS)
def test_displays_are_as_if_their_steps_were_counted(display: int, steps: int) -> None:
    clock, item, place = Clock(display), -1, display
    for step in range(1, steps + 1):
        begins = place == display
        item, place = (item + 1, 1) if begins else (item, place + 1)
        assert (clock.item(step), clock.place(step)) == (item, place)
        assert (clock.begins(step), clock.ends(step)) == (begins, place == display)
    whole = item + 1 if place == display else item
    assert clock.begun(steps) == item + 1
    assert clock.complete(steps) == max(whole, 0)
    assert clock.length(clock.complete(steps)) + clock.under_way(steps) == steps
    assert clock.displays(clock.length(clock.complete(steps))) == clock.complete(steps)


@given(COUNTS, COUNTS)
def test_the_steps_of_a_number_of_displays_are_a_schedule_of_displays(display: int, count: int) -> None:
    assert Clock(display).length(count) == Every(count, "displays").steps(display)
    assert Every(count).steps(display) == count


@given(TIMES, STEPS)
def test_t_is_the_time_at_the_end_of_the_step_before_to_the_bit(dt: float, step: int) -> None:
    clock = Clock(dt=dt)
    assert clock.t(step + 1) == clock.time(step) == step * dt
    assert clock.t(1) == 0
    assert round(clock.steps(clock.time(step))) == step


@given(COUNTS, TIMES, st.lists(STEPS, max_size=20))
def test_arrays_of_steps_are_converted_number_by_number_to_the_same_bits(
    display: int, dt: float, steps: list[int]
) -> None:
    clock, many = Clock(display, dt), np.array(steps, np.int64)
    for convert in (clock.item, clock.place, clock.complete, clock.begun, clock.under_way, clock.length):
        assert convert(many).tolist() == [convert(step) for step in steps]
    for measure in (clock.t, clock.time, clock.displays):
        assert measure(many).tolist() == [measure(step) for step in steps]


@given(st.integers(0, 50), OFFSETS, STEPS, STEPS)
def test_what_is_said_of_a_schedule_is_what_fires(period: int, offset: int, one: int, other: int) -> None:
    first, last = sorted((one, other))
    due = [step for step in range(1, last + 1) if fires(period, step, offset)]
    assert list(firing(period, first, last, offset)) == [step for step in due if step > first]
    assert fired(period, last, offset) == len(due)
    following = next_fire(period, first, offset)
    assert (following is None) == (period == 0)
    if following is not None:
        assert fires(period, following, offset)
        assert not any(fires(period, step, offset) for step in range(first + 1, following))
        before = last_fire(period, first, offset)
        assert fires(period, before, offset)
        assert next_fire(period, before, offset) == following


def test_a_clock_is_a_value() -> None:
    assert Clock(10, 0.5) == Clock(10, 0.5) != Clock(10, 0.25)
    field = "display"
    with pytest.raises(FrozenInstanceError):
        setattr(Clock(), field, 2)
