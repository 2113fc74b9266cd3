"""The texts of a layer, read: from equations, spike condition and reset to a step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

from petabatch.equations.blocks import Statement, read_equations, read_statements
from petabatch.equations.expression import Expression
from petabatch.equations.grammar import EquationError, check_name, parse
from petabatch.equations.step import Rules, Step, make_step
from petabatch.errors import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class Texts:
    """What a layer says of its units; see `layers/neurons.py`."""

    equations: str
    currents: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """Names of parameters that are numbers."""
    units: tuple[str, ...] = ()
    """Names of parameters that differ among units."""
    spike: str | None = None
    reset: str | None = None
    refractory: bool = False
    """Whether there is a refractory time."""
    activity: str | None = None
    method: str = "auto"
    started: tuple[str, ...] = ()
    """Names of variables that are given a start."""


class WrongTexts(Exception):
    """Texts that are not valid equations; `errors` has the key and the error of each."""

    def __init__(self) -> None:
        super().__init__()
        self.errors: list[tuple[str, EquationError]] = []

    def __str__(self) -> str:
        return "\n".join(f"{key}: {error}" for key, error in self.errors)

    def attempt(self, key: str, read: Callable[[], T]) -> T | None:
        """Return what is read, None after an error, which is noted."""
        try:
            return read()
        except EquationError as error:
            self.errors += [(key, one) for one in (error, *error.others)]
            return None


@lru_cache(maxsize=256)
def read_step(texts: Texts) -> Step:
    """Return the step of the texts of a layer; raises WrongTexts with everything that is wrong."""
    wrong = WrongTexts()
    given = (*texts.parameters, *texts.units, *texts.currents)
    for key, names in (("parameters", (*texts.parameters, *texts.units)), ("currents", texts.currents)):
        for name in names:
            wrong.attempt(key, lambda name=name: check_name(name, None))  # type: ignore[misc]
    if len(set(given)) < len(given):
        error = EquationError("this name is given twice", None, next(n for n in given if given.count(n) > 1))
        wrong.errors.append(("currents", error))
    equations = wrong.attempt("equations", lambda: read_equations(texts.equations, given))
    if equations is None or wrong.errors:
        raise wrong
    variables, numbers = tuple(equations.derivatives), (*texts.parameters, *texts.units, "t", "dt")
    seen = (*variables, *equations.definitions, *numbers)
    spike, reset = texts.spike, texts.reset
    condition: Expression | None = None
    statements: tuple[Statement, ...] = ()
    currents = {
        name: f"{name} is one of `currents`, which equations alone read: define a name there, as w = {name}"
        for name in texts.currents
    }
    if spike is not None:
        condition = wrong.attempt("spike", lambda: parse(spike, seen, condition=True, elsewhere=currents))
    if reset is not None:
        not_here = dict.fromkeys(texts.currents, "a reset reads no `currents`") | dict.fromkeys(
            equations.definitions, "a reset reads no definitions of `equations`: write it out"
        )
        statements = (
            wrong.attempt("reset", lambda: read_statements(reset, variables, numbers, not_here)) or ()
        )
    activity, output = texts.activity, None
    if activity is not None:
        output = wrong.attempt("activity", lambda: parse(activity, seen, elsewhere=currents))
    if spike is None and activity is None and not variables and len(equations.definitions) > 1:
        expected = f"an expression, such as one of {', '.join(equations.definitions)}"
        error = EquationError("what others see is missing: no variable is integrated", None, "", expected)
        wrong.errors.append(("activity", error))
    for key, given_too in (("reset", reset is not None), ("refractory", texts.refractory)):
        if given_too and spike is None:
            wrong.errors.append((key, EquationError("this is for layers with spikes", None, "no `spike`")))
    if activity is not None and spike is not None:
        expected = "no `activity`: that of spiking units is 1 where they spike"
        wrong.errors.append(("activity", EquationError("this layer spikes", None, activity, expected)))
    if any(one.paused for one in equations.derivatives.values()) and not texts.refractory:
        wrong.errors.append(
            (
                "equations",
                EquationError(
                    "there is no refractory time", None, "unless refractory", "a value of `refractory`"
                ),
            )
        )
    for name in texts.started:
        if name not in variables:
            message, hint = "there is no variable of this name", did_you_mean(name, variables)
            wrong.errors.append(("start", EquationError(message, None, name, ", ".join(variables), hint)))
    if wrong.errors:
        raise wrong
    rules = Rules(
        equations, texts.currents, frozenset(texts.units), frozenset(texts.parameters), condition, statements,
        texts.refractory, output, texts.method,
    )  # fmt: skip
    key = "equations" if texts.method in ("auto", "euler_maruyama") else "method"
    step = wrong.attempt(key, lambda: make_step(rules))
    if step is None:
        raise wrong
    return step
