"""Random layers of equations against a model in NumPy that shares no code with the package."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from petabatch.equations import functions
from support.random_equations import comparing
from support.random_equations.campaign import outcome_of
from support.random_equations.drawing import WORDS, draw


def test_random_layers_are_those_of_the_model() -> None:
    """A short form of `python tests/support/random_equations --number 1000`."""
    made = outcome_of(0, 12, compiled=4, gpu=0)
    assert not made.wrong, "\n".join(made.wrong)
    compared = {where for where, count in made.steps.items() if count and ":" not in where}
    assert compared >= {
        "array float64", "array float32", "compiled float32", "run array float64", "run array float32",
        "run auto float32",
    }  # fmt: skip


def test_all_words_of_the_language_are_drawn() -> None:
    drawn = sum((draw(seed).words for seed in range(300)), Counter[str]())
    methods = {f"method {method}" for seed in range(300) for method in draw(seed).methods}
    assert {*drawn, *methods} >= set(WORDS)
    assert {*functions.FUNCTIONS, *functions.CONSTANTS} <= set(WORDS)


@pytest.mark.parametrize(
    ("name", "seed", "wrong"),
    [
        ("floor", 0, lambda xp, x: xp.floor(x) + 1e-5 * x),
        ("min", 58, lambda xp, a, b: xp.where(a < b, a, b)),
    ],
)
def test_a_wrong_function_is_found(
    monkeypatch: pytest.MonkeyPatch, name: str, seed: int, wrong: Callable[..., Any]
) -> None:
    monkeypatch.setattr(comparing, "MANY", 20)
    monkeypatch.setitem(functions.FUNCTIONS, name, functions.FUNCTIONS[name]._replace(apply=wrong))
    assert outcome_of(seed, 1, compiled=0, gpu=0).wrong
