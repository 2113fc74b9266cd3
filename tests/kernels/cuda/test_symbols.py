"""Symbols in place of arrays: an operation stores what it stores in arrays, or the update is not traced."""

from __future__ import annotations

import copy
import operator
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from petabatch.kernels.cuda.units.traced import Untraced, traced

REFUSED = (Untraced, AttributeError, TypeError)
"""What `traced` raises where an update is to be called on arrays."""
IN_PLACE = [
    *(operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow, operator.ifloordiv),
    *(operator.imod, operator.imatmul, operator.iand, operator.ior, operator.ixor),
    *(operator.ilshift, operator.irshift),
]
"""The operators that change what is on their left."""
STORED = ("iadd", "isub", "imul", "itruediv", "ipow")


def body_of(change: Callable[[Any, Any, Any], None]) -> str:
    """Return the kernel of an update that changes `V` by the array module and the input."""

    def update(xp: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        V = state["V"]
        change(xp, V, drive[0])
        activity[...] = V

    return traced(update, ["V"], 1, False, "float")[0].text


@pytest.mark.parametrize("change", IN_PLACE)
def test_operators_in_place_store_or_are_refused(change: Callable[[Any, Any], Any]) -> None:
    if change.__name__ in STORED:
        assert "a0 = t" in body_of(lambda xp, V, x: change(V, 2))
    else:
        with pytest.raises(REFUSED):
            body_of(lambda xp, V, x: change(V, 2))


@pytest.mark.parametrize("change", [operator.iand, operator.ior])
def test_truth_values_are_changed_under_all_their_names(change: Callable[[Any, Any], Any]) -> None:
    def update(xp: Any, V: Any, x: Any) -> None:
        mask = V > 0
        same = mask
        mask = change(mask, x > 0)
        assert mask is same
        V[...] = xp.where(same, V, x)

    text = body_of(update)
    before, after = re.findall(r"const bool (t\d+) = t\d+(?: [&|]{2} t\d+)?;", text)
    assert f"({after} ? " in text
    assert f"= {before};" in text


def test_results_are_stored_in_arrays_that_are_given_by_name() -> None:
    assert "a0 = t" in body_of(lambda xp, V, x: xp.maximum(V, x, out=V))


def given(xp: Any, V: Any, x: Any) -> None:
    xp.maximum(V, 0.01, V)


def given_alone(xp: Any, V: Any, x: Any) -> None:
    xp.tanh(V, V)


def given_to_clip(xp: Any, V: Any, x: Any) -> None:
    xp.clip(V, 0, 1, V)


def given_to_where(xp: Any, V: Any, x: Any) -> None:
    xp.where(V > 0, V, x, out=V)


def too_few(xp: Any, V: Any, x: Any) -> None:
    V[...] = xp.maximum(V)


def half_chosen(xp: Any, V: Any, x: Any) -> None:
    V[...] = xp.where(V > 0, x)


def truth_into_numbers(xp: Any, V: Any, x: Any) -> None:
    xp.isnan(V, out=V)


def numbers_into_truth(xp: Any, V: Any, x: Any) -> None:
    mask = V > 0
    mask += x


def sum_of_truth(xp: Any, V: Any, x: Any) -> None:
    V[...] = (V > 0) + True  # in numpy True


def scaled_truth(xp: Any, V: Any, x: Any) -> None:
    V[...] = (V > 0) * 0.1  # in numpy of float64


def chosen_constants(xp: Any, V: Any, x: Any) -> None:
    V[...] = xp.where(V > 0, 0.1, 0.2)  # in numpy of float64


def function_of_constants(xp: Any, V: Any, x: Any) -> None:
    V[...] = V * xp.exp(-0.1)  # in numpy of float64


def negative_truth(xp: Any, V: Any, x: Any) -> None:
    V[...] = -(V > 0)


def sum_by_numpy(xp: Any, V: Any, x: Any) -> None:
    V[...] = np.asarray(V).sum()


def deep_copy(xp: Any, V: Any, x: Any) -> None:
    V += copy.deepcopy(V)


@pytest.mark.parametrize(
    "change",
    [
        *(given, given_alone, given_to_clip, given_to_where, too_few, half_chosen, truth_into_numbers),
        *(numbers_into_truth, sum_of_truth, scaled_truth, chosen_constants, function_of_constants),
        *(negative_truth, sum_by_numpy, deep_copy),
    ],
)
def test_what_numpy_may_do_in_another_way_is_refused(change: Any) -> None:
    with pytest.raises(REFUSED):
        body_of(change)


def another_array(xp: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
    state["V"] = state["V"] + drive[0]
    activity[...] = drive[0]


def read_before_set(xp: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
    activity += drive[0]


@pytest.mark.parametrize("update", [another_array, read_before_set])
def test_arrays_of_the_layer_are_set_in_place_before_they_are_read(update: Any) -> None:
    with pytest.raises(REFUSED):
        traced(update, ["V"], 1, False, "float")


def test_an_activity_that_is_set_can_be_read() -> None:
    def update(xp: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        xp.multiply(drive[0], 2, out=activity)
        activity += previous

    assert "A = t" in traced(update, ["V"], 1, False, "float")[0].text
