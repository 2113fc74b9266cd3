"""The row function of a step: its source, and the function that numba compiles."""

from __future__ import annotations

import hashlib
import linecache
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from petabatch.equations.build import Line
from petabatch.equations.expression import Apply, Expression, Name, Number, names_in
from petabatch.equations.functions import FUNCTIONS, OPERATORS
from petabatch.equations.step import Step
from petabatch.equations.synapses import Event


def row_source(
    step: Step, numbers: Sequence[str], state: Sequence[str], inputs: Sequence[str], noises: Sequence[str]
) -> str:
    """Return the source of a row function `row(p, state, drive, draws, A)`.

    `numbers` are the parameters, in float64, `state` the arrays of units, `inputs` the names of the buffers,
    in order: `x__in` for what arrives at variable x, or a current; `noises` are the random numbers.

    What is the same in all units, as it is made of numbers and `t` alone, is computed before the loop, in
    float64: a phase such as 2 * pi * t / 2 would else drift with the time.
    """
    used = step.names
    writer = _Writer([name for name in (*numbers, "t") if name in used])
    lines = [text for line in step.lines for text in writer.lines(line)]
    lines += [f"_state.{name}[_i] = {writer.text(Name(line))}" for name, line in step.state.items()]
    lines.append(f"_A[_i] = {writer.text(Name(step.activity))}")
    read = [
        *(f"{name} = _state.{name}[_i]" for name in state if name in used),
        *(f"{name} = _drive[{at}][_i]" for at, name in enumerate(inputs) if name in used),
        *(f"{name} = _draws.{name}[_i]" for name in noises if name in used),
    ]
    return _row(writer.head, [*read, *lines])


def event_source(event: Event, numbers: Sequence[str], arrays: Sequence[str]) -> str:
    """Return the source of the row function of an event, on `arrays` of synapses or of units that spike.

    What is delivered takes the place of the activity.
    """
    used = event.names
    writer = _Writer([name for name in (*numbers, "t") if name in used])
    lines = [text for line in event.lines for text in writer.lines(line)]
    lines += [f"_state.{name}[_i] = {writer.text(Name(line))}" for name, line in event.state.items()]
    if event.delivered:
        lines.append(f"_A[_i] = {writer.text(Name(event.delivered))}")
    return _row(writer.head, [*(f"{name} = _state.{name}[_i]" for name in arrays if name in used), *lines])


def _row(head: Sequence[str], body: Sequence[str]) -> str:
    """Return the source of a row function: lines before the loop over units, and in it."""
    whole = [
        *(f"    {line}" for line in ("real = _A.dtype.type", *head)),
        "    for _i in range(_A.size):",
        *(f"        {line}" for line in body),
    ]
    return "\n".join(["def row(_p, _state, _drive, _draws, _A):", *whole]) + "\n"


@cache
def row_function(source: str) -> Callable[..., None]:
    """Return the function of a source that `row_source` made; its name tells it from all others."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    file = f"<equations {digest}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"math": math, "_np": np, "__name__": "petabatch.equations"}
    exec(compile(source, file, "exec"), names)
    function: Any = names["row"]
    function.__qualname__ = function.__name__ = f"row_{digest}"
    function.generated = True  # its source is in no file, and all that it depends on
    made: Callable[..., None] = function
    return made


class _Writer:
    """The texts of lines: of those that are the same in all units, and of those of a unit."""

    def __init__(self, numbers: Sequence[str]) -> None:
        """`numbers` are the parameters that are known, and `t`."""
        self.head: list[str] = []
        """What is before the loop over units."""
        self._same = dict.fromkeys(numbers, False)
        """The names that have one value in all units, and whether that is a condition."""
        self._times = {"t"}
        """Those of them that are times: `t`, and sums and products with it. A unit computes with their
        float64, since rounded they would be late."""
        self._known: dict[Expression, str] = {}
        """Names of values before the loop, as a unit reads them."""
        self._before: list[str] = []
        self._count = 0
        self.head += [f"{name}__double = _p.{name}" for name in numbers]

    def lines(self, line: Line) -> list[str]:
        """Return an assignment of a unit as source, and what must come before it."""
        name, value = line
        if self._is_same(value):
            self.head.append(f"{name}__double = {self._in_double(value)}")
            self._same[name] = self._is_condition(value)
            if self._is_time(value):
                self._times.add(name)
            return []
        self._before = []
        text = self.text(value)
        return [*self._before, f"{name} = {text}"]

    def text(self, expression: Expression) -> str:
        """Return an expression of a unit as source; what is the same in all is rounded to its precision."""
        if not self._is_same(expression):
            if isinstance(expression, Name):
                return expression.name
            assert isinstance(expression, Apply)
            return self._applied(expression, self.text, self._before)
        if expression not in self._known:
            name = expression.name if isinstance(expression, Name) else f"_c{len(self._known)}"
            value = self._in_double(expression)
            exact = self._is_condition(expression) or self._is_time(expression)
            self.head.append(f"{name} = {value}" if exact else f"{name} = real({value})")
            self._known[expression] = name
        return self._known[expression]

    def _in_double(self, expression: Expression) -> str:
        """Return an expression of numbers as source before the loop."""
        if isinstance(expression, Number):
            text = _literal(expression.value)
            return f"({text})" if text.startswith("-") else text
        if isinstance(expression, Name):
            return f"{expression.name}__double"
        return self._applied(expression, self._in_double, self.head)

    def _applied(self, expression: Apply, text: Callable[[Expression], str], before: list[str]) -> str:
        function = FUNCTIONS[expression.function]
        arguments = [text(one) for one in expression.arguments]
        if expression.function == "**" and isinstance(expression.arguments[1], Number):
            exponent = expression.arguments[1].value
            if exponent.is_integer():  # by multiplications
                power = f"({arguments[0]} ** {abs(int(exponent))})"
                # Of a negative one, numba would raise ZeroDivisionError at 0.
                return power if exponent >= 0 else f"({text(Number(1.0))} / {power})"
        whole = function.first + function.source
        for number, one in enumerate(arguments):
            if not one.isidentifier() and whole.count(f"{{{number}}}") > 1:  # else texts double at each depth
                arguments[number] = self._part(one, before)
        first = self._part(function.first.format(*arguments), before) if function.first else ""
        return function.source.format(*arguments, first=first)

    def _part(self, text: str, before: list[str]) -> str:
        self._count += 1
        before.append(f"_x{self._count} = {text}")
        return f"_x{self._count}"

    def _is_same(self, expression: Expression) -> bool:
        return self._same.keys() >= set(names_in(expression))

    def _is_condition(self, expression: Expression) -> bool:
        if isinstance(expression, Name):
            return self._same[expression.name]
        return isinstance(expression, Apply) and FUNCTIONS[expression.function].condition

    def _is_time(self, expression: Expression) -> bool:
        """Return whether an expression of numbers grows as `t`: values of functions are as other numbers."""
        if isinstance(expression, Name):
            return expression.name in self._times
        return (
            isinstance(expression, Apply)
            and expression.function in OPERATORS
            and not FUNCTIONS[expression.function].condition
            and any(map(self._is_time, expression.arguments[FUNCTIONS[expression.function].of_conditions :]))
        )


def _literal(value: float) -> str:
    """Return a number as source; folded constants may be too large."""
    if math.isfinite(value):
        return repr(value)
    return "math.nan" if math.isnan(value) else f"{'-' * (value < 0)}math.inf"
