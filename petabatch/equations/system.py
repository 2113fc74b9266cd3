"""A system of equations: which are linear, with which coefficients, and what is known before a run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from petabatch.equations.arrays import number
from petabatch.equations.blocks import Equations
from petabatch.equations.expression import ZERO, Expression, Linear, Name, linear, names_in

Values = Mapping[str, float]
"""The value of each parameter that is a number."""


@dataclass(frozen=True)
class System:
    """Equations, and the parameters of them that are the same number in all units."""

    equations: Equations
    parameters: frozenset[str]

    @property
    def variables(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(self.equations.derivatives)

    @cached_property
    def numeric(self) -> frozenset[str]:
        """The names whose values are numbers, known before a step: parameters, and definitions of them."""
        found = {*self.parameters, "dt"}
        for name, definition in self.equations.definitions.items():
            if found.issuperset(names_in(definition)):
                found.add(name)
        return frozenset(found)

    def is_numeric(self, expression: Expression) -> bool:
        """Return whether an expression is a number that is known before a step."""
        return self.numeric.issuperset(names_in(expression))

    def number(self, expression: Expression, values: Values, dt: float) -> float:
        """Return the value of a numeric expression, in float64."""
        known = {**values, "dt": dt}
        for name, definition in self.equations.definitions.items():
            if name in self.numeric:
                known[name] = number(definition, known)
        return number(expression, known)

    def forms(self, *variables: str) -> dict[str, Linear | None]:
        """Return the derivative of each variable as a linear function of these, None where it is none."""
        known: dict[str, Linear | None] = {}
        for name, definition in self.equations.definitions.items():
            form = linear(definition, variables, known)
            known[name] = ({}, Name(name)) if form is not None and not form[0] else form
        return {name: linear(one.rate, variables, known) for name, one in self.equations.derivatives.items()}

    @cached_property
    def matrix(self) -> Mapping[tuple[str, str], Expression] | None:
        """The coefficients of a linear system whose coefficients are numbers, None if it is none."""
        found: dict[tuple[str, str], Expression] = {}
        for name, form in self.forms(*self.variables).items():
            if form is None or not all(self.is_numeric(one) for one in form[0].values()):
                return None
            found |= {(name, other): one for other, one in form[0].items() if one != ZERO}
        return found

    @cached_property
    def timed(self) -> bool:
        """Whether a derivative depends on the time."""
        return any("t" in self.reads(one.rate) for one in self.equations.derivatives.values())

    def reads(self, expression: Expression) -> frozenset[str]:
        """Return all names that an expression depends on, through definitions too."""
        found, waiting = set[str](), list(names_in(expression))
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += names_in(self.equations.definitions.get(name, ZERO))
        return frozenset(found)

    @cached_property
    def noise(self) -> Mapping[tuple[str, str], Expression] | None:
        """The factor of each white noise in each equation, None where one is not linear in the noise."""
        found: dict[tuple[str, str], Expression] = {}
        for name, one in self.equations.derivatives.items():
            form = linear(one.rate, self.equations.noises, {})
            if form is None:
                return None
            found |= {(name, noise): factor for noise, factor in form[0].items() if factor != ZERO}
        return found

    def array(
        self,
        coefficients: Mapping[tuple[str, str], Expression],
        columns: Sequence[str],
        values: Values,
        dt: float,
        still: frozenset[str] = frozenset(),
    ) -> np.ndarray:
        """Return coefficients `[variables, columns]`, float64; rows of variables that stand still are 0."""
        names, found = self.variables, np.zeros((len(self.variables), len(columns)))
        for (row, column), one in coefficients.items():
            if row not in still:
                found[names.index(row), columns.index(column)] = self.number(one, values, dt)
        return found
