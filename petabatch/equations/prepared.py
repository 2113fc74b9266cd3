"""Numbers of a step that are known before it: what a method derives of the parameters and dt."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from petabatch.equations.arrays import SCALARS
from petabatch.equations.expression import ZERO, Expression
from petabatch.equations.propagator import covariance, factor, propagator
from petabatch.equations.system import System, Values

Coefficients = Mapping[tuple[str, str], Expression]
"""Those that are not 0 of a linear system, or of its noise: of an equation, and of a variable or a noise."""


class Prepared(Protocol):
    """Numbers of a step by name, of the parameters and dt."""

    def __call__(self, values: Values, dt: float) -> Mapping[str, float]:
        """Return the numbers."""

    def rates(self, values: Values, dt: float) -> Mapping[str, tuple[str, float]]:
        """Return the number by which a step multiplies each variable, about exp(a dt), and its rate a."""


@dataclass(frozen=True)
class Propagators:
    """Entries of P and Q, constant terms, and factors of noise: `P__x__y`, `Q__x__y`, `c__x`, `N__x__y`.

    R, S, d and M are those in refractory units.
    """

    system: System
    matrix: Coefficients
    rests: Mapping[str, Expression]
    """The constant part of each equation that is a number."""
    noise: Coefficients
    paused: frozenset[str]

    def __call__(self, values: Values, dt: float) -> Mapping[str, float]:
        """Return the numbers."""
        found: dict[str, float] = {}
        names, system = self.system.variables, self.system
        noises = system.equations.noises
        for letters, still in (("PQcN", frozenset[str]()), ("RSdM", self.paused)):
            A = system.array(self.matrix, names, values, dt, still)
            P, Q = propagator(A, dt)
            N = np.zeros_like(P)
            if noises:
                N = factor(covariance(A, system.array(self.noise, noises, values, dt, still), dt))
            constant = {one: value for one, value in self.rests.items() if one not in still}
            rest = np.array([system.number(constant.get(name, ZERO), values, dt) for name in names])
            for row, name in enumerate(names):
                for column, other in enumerate(names):
                    for letter, one in zip((letters[0], letters[1], letters[3]), (P, Q, N), strict=True):
                        found[f"{letter}__{name}__{other}"] = one[row, column]
                found[f"{letters[2]}__{name}"] = float((Q[row] * rest).sum())
        return found

    def rates(self, values: Values, dt: float) -> Mapping[str, tuple[str, float]]:
        """Return the rates of P, without what couples variables."""
        own = {name: self.matrix.get((name, name)) for name in self.system.variables}
        return {
            name: (f"P__{name}__{name}", self.system.number(rate, values, dt))
            for name, rate in own.items()
            if rate is not None
        }


@dataclass(frozen=True)
class Relaxation:
    """Factors of x' = a x + b with a number a: `E__x`, `G__x`, and with a number b `c__x`."""

    system: System
    name: str
    rate: Expression
    rest: Expression | None

    def __call__(self, values: Values, dt: float) -> Mapping[str, float]:
        """Return the numbers."""
        a = self.system.number(self.rate, values, dt)
        gain = SCALARS.expm1(a * dt) / a if a != 0 else dt
        found = {f"E__{self.name}": SCALARS.exp(a * dt), f"G__{self.name}": gain}
        if self.rest is not None:
            found[f"c__{self.name}"] = gain * self.system.number(self.rest, values, dt)
        return found

    def rates(self, values: Values, dt: float) -> Mapping[str, tuple[str, float]]:
        """Return the rate of E."""
        return {self.name: (f"E__{self.name}", self.system.number(self.rate, values, dt))}


@dataclass(frozen=True)
class RootOfStep:
    """`root__dt`, by which noise is scaled."""

    def __call__(self, values: Values, dt: float) -> Mapping[str, float]:
        """Return the number."""
        return {"root__dt": math.sqrt(dt)}

    def rates(self, values: Values, dt: float) -> Mapping[str, tuple[str, float]]:
        """There are none."""
        return {}
