"""Derived steps as data for JSON, so that a run that is resumed makes the steps it has made before.

What is read is checked as what is parsed: it has known functions and names alone, and is never executed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, get_args

from petabatch.equations.blocks import Derivative, Equations
from petabatch.equations.build import Line
from petabatch.equations.expression import Apply, Expression, Name, Number
from petabatch.equations.functions import FUNCTIONS
from petabatch.equations.grammar import NAME
from petabatch.equations.methods import Choice, Method
from petabatch.equations.prepared import Coefficients, Prepared, Propagators, Relaxation, RootOfStep
from petabatch.equations.read import Texts
from petabatch.equations.step import Step
from petabatch.equations.system import System

_LONGEST = 200
"""Characters of a name: of two variables and what a method calls them."""


class NotAStep(Exception):
    """Data that are no derived step."""


def stored_step(texts: Texts, step: Step, source: str) -> dict[str, Any]:
    """Return a step, the texts it was derived from, and the source of its row function, for readers."""
    equations = step.system.equations
    return {
        "texts": asdict(texts),
        "method": list(step.choice),
        "derivatives": {name: [_stored(one.rate), one.paused] for name, one in equations.derivatives.items()},
        "definitions": {name: _stored(one) for name, one in equations.definitions.items()},
        "parameters": sorted(step.system.parameters),
        "prepared": [_stored_numbers(one) for one in step.prepared],
        "noises": list(step.noises),
        "lines": [[line.name, _stored(line.value)] for line in step.lines],
        "state": dict(step.state),
        "activity": step.activity,
        "rests": step.rests,
        "seen": _stored(step.seen),
        "source": source.splitlines(),
    }


def step_of(data: Any) -> tuple[Texts, Step]:
    """Return the texts and the step that `stored_step` wrote; raises NotAStep."""
    try:
        given: dict[str, Any] = {one.name: data["texts"][one.name] for one in fields(Texts)}
        given = {key: tuple(one) if isinstance(one, list) else one for key, one in given.items()}
        texts = Texts(**given)
        rates = {
            _name(name): Derivative(_expression(rate), _flag(paused))
            for name, (rate, paused) in data["derivatives"].items()
        }
        definitions = {_name(name): _expression(one) for name, one in data["definitions"].items()}
        system = System(Equations(rates, definitions), frozenset(map(_name, data["parameters"])))
        method, reason = data["method"]
        if method not in get_args(Method):
            raise NotAStep(f"there is no method {method!r}")
        step = Step(
            system,
            Choice(method, str(reason)),
            tuple(Line(_name(name), _expression(value)) for name, value in data["lines"]),
            {_name(name): _name(line) for name, line in data["state"].items()},
            _name(data["activity"]),
            tuple(_numbers(one, system) for one in data["prepared"]),
            _flag(data["rests"]),
            tuple(map(_name, data["noises"])),
            _expression(data["seen"]),
        )
    except (LookupError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotAStep(f"{type(error).__name__}: {error}") from error
    return texts, step


def _stored(expression: Expression) -> Any:
    if isinstance(expression, Number):
        return expression.value
    if isinstance(expression, Name):
        return expression.name
    return [expression.function, *map(_stored, expression.arguments)]


def _expression(data: Any) -> Expression:
    match data:
        case bool():
            raise NotAStep("a flag is no expression")
        case float() | int() if math.isfinite(data):
            return Number(float(data))
        case str():
            return Name(_name(data))
        case [str(function), *arguments] if len(arguments) == getattr(
            FUNCTIONS.get(function), "arguments", -1
        ):
            return Apply(function, tuple(map(_expression, arguments)))
    raise NotAStep(f"this is no expression: {str(data)[:60]}")


def _name(data: Any) -> str:
    if not isinstance(data, str) or not NAME.fullmatch(data) or len(data) > _LONGEST:
        raise NotAStep(f"this is no name: {str(data)[:60]}")
    return data


def _flag(data: Any) -> bool:
    if not isinstance(data, bool):
        raise NotAStep(f"this is no flag: {str(data)[:60]}")
    return data


def _stored_numbers(prepared: Prepared) -> dict[str, Any]:
    match prepared:
        case Propagators(_, matrix, rests, noise, paused):
            return {
                "propagators": _stored_coefficients(matrix),
                "noise": _stored_coefficients(noise),
                "rests": {name: _stored(one) for name, one in rests.items()},
                "paused": sorted(paused),
            }
        case Relaxation(_, name, rate, rest):
            return {
                "relaxation": name,
                "rate": _stored(rate),
                "rest": None if rest is None else _stored(rest),
            }
        case RootOfStep():
            return {"root": "dt"}
    raise AssertionError(prepared)


def _numbers(data: Mapping[str, Any], system: System) -> Prepared:
    if "propagators" in data:
        rests = {_name(name): _expression(one) for name, one in data["rests"].items()}
        matrix, noise = _coefficients(data["propagators"]), _coefficients(data["noise"])
        return Propagators(system, matrix, rests, noise, frozenset(map(_name, data["paused"])))
    if "relaxation" in data:
        rest = None if data["rest"] is None else _expression(data["rest"])
        return Relaxation(system, _name(data["relaxation"]), _expression(data["rate"]), rest)
    return RootOfStep()


def _stored_coefficients(given: Coefficients) -> list[list[Any]]:
    return [[row, column, _stored(one)] for (row, column), one in given.items()]


def _coefficients(data: Sequence[Sequence[Any]]) -> Coefficients:
    return {(_name(row), _name(column)): _expression(one) for row, column, one in data}
