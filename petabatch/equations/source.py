"""The row function of a step: its source, and the function that numba compiles."""

from __future__ import annotations

import hashlib
import linecache
import math
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

from petabatch.equations.build import Line
from petabatch.equations.expression import Apply, Expression, Name, Number
from petabatch.equations.functions import FUNCTIONS
from petabatch.equations.step import Step


def row_source(
    step: Step, numbers: Sequence[str], state: Sequence[str], inputs: Sequence[str], noises: Sequence[str]
) -> str:
    """Return the source of a row function `row(p, state, drive, draws, A)`.

    `numbers` are the parameters, `state` the arrays of units, `inputs` the names of the buffers, in order:
    `x__in` for what arrives at variable x, or a current; `noises` are the random numbers.
    """
    used = step.names
    writer = _Writer()
    body = [
        *(f"{name} = _state.{name}[_i]" for name in state if name in used),
        *(f"{name} = _drive[{at}][_i]" for at, name in enumerate(inputs) if name in used),
        *(f"{name} = _draws.{name}[_i]" for name in noises if name in used),
        *(text for line in step.lines for text in writer.lines(line)),
        *(f"_state.{name}[_i] = {line}" for name, line in step.state.items()),
        f"_A[_i] = {step.activity}",
    ]
    head = ["real = _A.dtype.type", *writer.constants()]
    head += [f"{name} = _p.{name}" for name in (*numbers, "t") if name in used]
    lines = [
        *(f"    {line}" for line in head),
        "    for _i in range(_A.size):",
        *(f"        {line}" for line in body),
    ]
    return "\n".join(["def row(_p, _state, _drive, _draws, _A):", *lines]) + "\n"


@cache
def row_function(source: str) -> Callable[..., None]:
    """Return the function of a source that `row_source` made; its name tells it from all others."""
    digest = hashlib.sha256(source.encode()).hexdigest()[:16]
    file = f"<equations {digest}>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    names: dict[str, Any] = {"math": math, "__name__": "petabatch.equations"}
    exec(compile(source, file, "exec"), names)
    function: Any = names["row"]
    function.__qualname__ = function.__name__ = f"row_{digest}"
    function.generated = True  # its source is in no file, and all that it depends on
    made: Callable[..., None] = function
    return made


class _Writer:
    def __init__(self) -> None:
        self._constants: dict[float, str] = {}
        self._before: list[str] = []
        self._parts = 0

    def lines(self, line: Line) -> list[str]:
        """Return an assignment as source, and what must come before it."""
        self._before = []
        text = self.text(line.value)
        return [*self._before, f"{line.name} = {text}"]

    def text(self, expression: Expression) -> str:
        """Return an expression as source; its numbers are constants of the precision of the run."""
        if isinstance(expression, Number):
            return self._constants.setdefault(expression.value, f"_c{len(self._constants)}")
        if isinstance(expression, Name):
            return expression.name
        if expression.function == "**" and isinstance(expression.arguments[1], Number):
            exponent = expression.arguments[1].value
            if exponent.is_integer():  # by multiplications
                return f"({self.text(expression.arguments[0])} ** {int(exponent)})"
        source = FUNCTIONS[expression.function].source
        arguments = [self.text(one) for one in expression.arguments]
        for number, one in enumerate(expression.arguments):
            if (
                isinstance(one, Apply) and source.count(f"{{{number}}}") > 1
            ):  # else texts double at each depth
                self._before.append(f"_x{self._parts} = {arguments[number]}")
                arguments[number] = f"_x{self._parts}"
                self._parts += 1
        return source.format(*arguments)

    def constants(self) -> Iterator[str]:
        """Yield the lines that make constants."""
        for value, name in self._constants.items():
            yield f"{name} = real({value!r})"
