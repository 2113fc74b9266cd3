"""Lines of a step: assignments in order, of names that are assigned once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from petabatch.equations.expression import (
    ZERO,
    Apply,
    Expression,
    Name,
    Number,
    choose,
    names_in,
    renamed,
)
from petabatch.equations.prepared import Prepared
from petabatch.equations.system import System

RESTING = "resting__"
"""The line that says whether the unit is refractory."""


class Line(NamedTuple):
    """An assignment."""

    name: str
    value: Expression


class Builder:
    """The lines of a step. Names of the equations are those of the moment: `now` has the line of each."""

    def __init__(self, system: System, rests: bool) -> None:
        """`rests` says that units can be refractory."""
        self.system, self.rests = system, rests
        self.lines: list[Line] = []
        self.now: dict[str, str] = {}
        self.prepared: list[Prepared] = []
        self.noises = system.equations.noises
        """Random numbers of a unit in a step, normal and independent."""

    def put(self, name: str, value: Expression) -> Name:
        """Add a line for a value of lines before it; return its name."""
        if isinstance(value, Name):
            return value
        count = sum(line.name.rpartition("__")[0] == name for line in self.lines)
        self.lines.append(Line(f"{name}__{count + 1}", value))
        return Name(self.lines[-1].name)

    def here(self, expression: Expression, now: Mapping[str, str] | None = None) -> Expression:
        """Return an expression of the equations in names of lines."""
        return renamed(expression, self.now if now is None else now)

    def set(self, variable: str, value: Expression) -> None:
        """Give a variable a new value, of lines before it."""
        self.now[variable] = self.put(variable, value).name

    def set_all(self, values: Mapping[str, Expression]) -> None:
        """Give variables new values at once."""
        names = {variable: self.put(variable, value).name for variable, value in values.items()}
        self.now |= names

    def define(self, now: Mapping[str, str]) -> dict[str, str]:
        """Add the algebraic lines at some moment; return the names with theirs."""
        found = dict(now)
        for name, definition in self.system.equations.definitions.items():
            value = (
                self.put(name, self.here(definition, found))
                if not isinstance(definition, Number)
                else definition
            )
            if isinstance(value, Name):
                found[name] = value.name
            else:
                self.lines.append(Line(f"{name}__0", value))
                found[name] = f"{name}__0"
        return found

    def rates(self, now: Mapping[str, str]) -> dict[str, Expression]:
        """Add the derivatives at some moment; those of variables that pause are 0 in refractory units."""
        known, found = self.define(now), dict[str, Expression]()
        for name, one in self.system.equations.derivatives.items():
            rate = self.here(one.rate, known)
            if one.paused and self.rests:
                rate = choose(Name(RESTING), ZERO, rate)
            found[name] = self.put(f"d{name}", rate)
        return found

    def pausing(self, variable: str, value: Expression) -> Expression:
        """Return the new value of a variable, its present one in refractory units if it pauses in them."""
        if self.system.equations.derivatives[variable].paused and self.rests:
            return choose(Name(RESTING), self.here(Name(variable)), value)
        return value

    def needed(self, outputs: Mapping[str, str]) -> tuple[Line, ...]:
        """Return the lines that these ones need, in order."""
        return needed(self.lines, outputs.values())


def needed(lines: Sequence[Line], outputs: Iterable[str]) -> tuple[Line, ...]:
    """Return those of `lines` that results need, by their names, in order."""
    wanted, kept = set(outputs), list[Line]()
    for line in reversed(lines):
        if line.name in wanted:
            wanted |= set(names_in(line.value))
            kept.append(line)
    return tuple(reversed(kept))


def shown(expression: Expression) -> str:
    """Return an expression as it is printed for users."""
    if isinstance(expression, Number):
        return f"{expression.value:g}"
    if isinstance(expression, Name):
        return expression.name
    arguments = [shown(one) for one in expression.arguments]
    match expression:
        case Apply("negative"):
            return f"-{arguments[0]}"
        case Apply("if"):
            return f"({arguments[1]} if {arguments[0]} else {arguments[2]})"
        case Apply("not"):
            return f"not {arguments[0]}"
        case Apply(name) if name.isalnum() and name not in ("and", "or"):
            return f"{name}({', '.join(arguments)})"
    return f"({arguments[0]} {expression.function} {arguments[1]})"
