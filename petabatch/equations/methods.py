"""Integration methods: how each advances a system by a step, which one suits it, and its stability limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from petabatch.equations.arrays import SCALARS
from petabatch.equations.build import Builder
from petabatch.equations.expression import (
    ZERO,
    Apply,
    Expression,
    Name,
    Number,
    add,
    choose,
    linear,
    multiply,
    total,
)
from petabatch.equations.grammar import EquationError
from petabatch.equations.propagator import propagator
from petabatch.equations.system import System, Values

Method = Literal["exact", "exponential_euler", "euler", "heun", "rk4", "euler_maruyama"]
DT = Name("dt")


class Choice(NamedTuple):
    """A method, and why."""

    method: Method
    reason: str


def choose_method(system: System, wanted: str) -> Choice:
    """Return the method of a system: the wanted one, or with `auto` the first that suits.

    With noise Euler-Maruyama; for linear systems with constant coefficients, which do not depend on time,
    the exact propagator; where each equation is linear in its own variable, exponential Euler; else RK4.
    Raises EquationError if the wanted one does not suit.
    """
    noises = system.equations.noises
    why_not = {
        "exact": _no_propagator(system),
        "exponential_euler": _no_exponential(system),
        "euler_maruyama": "" if noises else "there is no noise xi in the equations",
    }
    if wanted == "auto":
        if noises:
            return Choice("euler_maruyama", f"there is noise {', '.join(noises)}")
        if not why_not["exact"]:
            return Choice("exact", "the equations are linear, with constant coefficients")
        if not why_not["exponential_euler"]:
            return Choice("exponential_euler", "each equation is linear in its own variable")
        return Choice("rk4", why_not["exponential_euler"])
    reason = why_not.get(wanted, "")
    if noises and wanted != "euler_maruyama":
        reason = f"there is noise {', '.join(noises)}"
    if reason:
        suited = choose_method(system, "auto").method
        raise EquationError(f"this method does not suit: {reason}", None, wanted, f'"{suited}", or "auto"')
    return Choice(wanted, "it was asked for")  # type: ignore[arg-type]


def advance(method: Method, b: Builder) -> None:
    """Add the lines that advance all variables by a step."""
    _ADVANCE[method](b)


def stability_limit(method: Method, system: System, values: Values, dt: float) -> float | None:
    """Return the step above which solutions that decay grow; None where there is none, or it is not known.

    It is known of linear systems. Source: Hairer and Wanner 1996, "Solving ordinary differential equations
    II", IV.2.
    """
    order = {"euler": 1, "euler_maruyama": 1, "heun": 2, "rk4": 4}.get(method)
    if order is None or system.matrix is None:
        return None
    matrix = system.array(values, dt)
    if not np.isfinite(matrix).all():
        return None
    limits = [_limit(complex(value), order) for value in np.linalg.eigvals(matrix) if value.real < 0]
    return min(limits, default=None)


def _limit(value: complex, order: int) -> float:
    """Return the smallest step at which |R(value * step)| = 1, R the series of exp to some order."""
    powers = [value**n / math.factorial(n) for n in range(order, -1, -1)]
    square = np.polymul(powers, np.conj(powers)).real
    square[-1] -= 1
    roots = np.roots(square[:-1])  # that at 0 is divided out
    real = [root.real for root in roots if abs(root.imag) < 1e-9 * abs(root) and root.real > 0]
    return min(real, default=math.inf)


def _no_propagator(system: System) -> str:
    if system.equations.noises:
        return "there is noise"
    if system.timed:
        return "the equations depend on time"
    forms = system.forms(*system.variables)
    if bad := [name for name, form in forms.items() if form is None]:
        return f"d{bad[0]}/dt is not linear"
    if system.matrix is None:
        return "coefficients differ among units or depend on inputs"
    return ""


def _no_exponential(system: System) -> str:
    if system.equations.noises:
        return "there is noise"
    bad = [name for name in system.variables if system.forms(name)[name] is None]
    return f"d{bad[0]}/dt is not linear in {bad[0]}" if bad else ""


@dataclass(frozen=True)
class _Propagators:
    """Entries of P and Q, and constant terms: `P__x__y`, `Q__x__y`, `c__x`; R, S, d in refractory units."""

    system: System
    rests: Mapping[str, Expression]
    """The constant part of each equation that is a number."""
    paused: frozenset[str]

    def __call__(self, values: Values, dt: float) -> Mapping[str, float]:
        found: dict[str, float] = {}
        names, system = self.system.variables, self.system
        for letters, still in (("PQc", frozenset[str]()), ("RSd", self.paused)):
            P, Q = propagator(system.array(values, dt, still), dt)
            constant = {one: value for one, value in self.rests.items() if one not in still}
            rest = np.array([system.number(constant.get(name, ZERO), values, dt) for name in names])
            for row, name in enumerate(names):
                for column, other in enumerate(names):
                    found[f"{letters[0]}__{name}__{other}"] = P[row, column]
                    found[f"{letters[1]}__{name}__{other}"] = Q[row, column]
                found[f"{letters[2]}__{name}"] = float((Q[row] * rest).sum())
        return found


def _exact(b: Builder) -> None:
    system = b.system
    forms, matrix = system.forms(*system.variables), system.matrix
    assert matrix is not None
    rests = {name: form[1] for name, form in forms.items() if form is not None and form[1] != ZERO}
    numbers = {name: rest for name, rest in rests.items() if system.is_numeric(rest)}
    derivatives = system.equations.derivatives
    paused = frozenset(name for name in derivatives if derivatives[name].paused and b.rests)
    b.prepared.append(_Propagators(system, numbers, paused))
    known = b.define(b.now)
    driven = {
        name: b.put(f"b__{name}", b.here(rest, known)) if not isinstance(rest, Name) else b.here(rest, known)
        for name, rest in rests.items()
        if name not in numbers
    }

    def solution(name: str, letters: str, still: frozenset[str]) -> Expression:
        reached = _reached(name, matrix, still)
        terms = [multiply(Name(f"{letters[0]}__{name}__{one}"), b.here(Name(one))) for one in reached]
        terms += [
            multiply(Name(f"{letters[1]}__{name}__{one}"), driven[one])
            for one in reached
            if one in driven and one not in still
        ]
        if any(one in numbers and one not in still for one in reached):
            terms.append(Name(f"{letters[2]}__{name}"))
        return total(terms)

    values = {}
    for name in system.variables:
        value = solution(name, "PQc", frozenset())
        if name in paused:
            value = b.pausing(name, value)
        elif paused.intersection(_reached(name, matrix, frozenset())):
            value = choose(Name("resting__"), solution(name, "RSd", paused), value)
        values[name] = value
    b.set_all(values)


def _reached(name: str, matrix: Mapping[tuple[str, str], Expression], still: frozenset[str]) -> list[str]:
    """Return the variables on which one depends, itself first."""
    found = [name]
    for one in found:
        found += [to for row, to in matrix if row == one and row not in still and to not in found]
    return found


@dataclass(frozen=True)
class _Relaxation:
    """Factors of x' = a x + b with a number a: `E__x`, `G__x`, and with a number b `c__x`."""

    system: System
    name: str
    rate: Expression
    rest: Expression | None

    def __call__(self, values: Values, dt: float) -> Mapping[str, float]:
        a = self.system.number(self.rate, values, dt)
        gain = SCALARS.expm1(a * dt) / a if a != 0 else dt
        found = {f"E__{self.name}": SCALARS.exp(a * dt), f"G__{self.name}": gain}
        if self.rest is not None:
            found[f"c__{self.name}"] = gain * self.system.number(self.rest, values, dt)
        return found


def _exponential_euler(b: Builder) -> None:
    system, values = b.system, {}
    known = b.define(b.now)
    for name in system.variables:
        form = system.forms(name)[name]
        assert form is not None
        rate, rest = form[0].get(name, ZERO), form[1]
        x, driven = b.here(Name(name)), b.here(rest, known)
        if system.is_numeric(rate):
            fixed = rest if rest != ZERO and system.is_numeric(rest) else None
            b.prepared.append(_Relaxation(system, name, rate, fixed))
            gained = Name(f"c__{name}") if fixed is not None else multiply(Name(f"G__{name}"), driven)
            value = add(multiply(Name(f"E__{name}"), x), gained)
        else:
            a = b.put(f"a__{name}", b.here(rate, known))
            change = b.put(f"d{name}", add(multiply(a, x), driven))
            value = add(
                x, multiply(multiply(change, DT), Apply("exprel", (b.put(f"z__{name}", multiply(a, DT)),)))
            )
        values[name] = b.pausing(name, value)
    b.set_all(values)


def _along(b: Builder, rates: Mapping[str, Expression], by: Expression) -> dict[str, str]:
    """Return the names at the end of a step along some derivatives, a part of a step long."""
    found = dict(b.now)
    for name, rate in rates.items():
        found[name] = b.put(f"{name}", add(b.here(Name(name)), multiply(by, rate))).name
    return found


def _later(b: Builder, now: dict[str, str], by: Expression) -> dict[str, str]:
    """Return the names with a later time."""
    return {**now, "t": b.put("t", add(Name("t"), by)).name}


def _euler(b: Builder) -> None:
    b.now = _along(b, b.rates(b.now), DT)


def _heun(b: Builder) -> None:
    first = b.rates(b.now)
    second = b.rates(_later(b, _along(b, first, DT), DT))
    mean = {name: multiply(Number(0.5), add(first[name], second[name])) for name in first}
    b.now = _along(b, mean, DT)


def _rk4(b: Builder) -> None:
    half = b.put("half", multiply(Number(0.5), DT))
    first = b.rates(b.now)
    second = b.rates(_later(b, _along(b, first, half), half))
    third = b.rates(_later(b, _along(b, second, half), half))
    fourth = b.rates(_later(b, _along(b, third, DT), DT))
    sixth = b.put("sixth", multiply(Number(1 / 6), DT))
    sums = {
        name: add(add(first[name], multiply(Number(2.0), add(second[name], third[name]))), fourth[name])
        for name in first
    }
    b.now = _along(b, sums, sixth)


def _root_of_step(values: Values, dt: float) -> Mapping[str, float]:
    return {"root__dt": math.sqrt(dt)}


def _euler_maruyama(b: Builder) -> None:
    """Ito: noise is multiplied by what it was at the start of the step."""
    system, values = b.system, {}
    noises = system.equations.noises
    b.prepared.append(_root_of_step)
    known = b.define(b.now)
    for name, one in system.equations.derivatives.items():
        form = linear(one.rate, noises, {})
        if form is None:
            raise EquationError(
                f"d{name}/dt is not linear in the noise",
                None,
                ", ".join(noises),
                "a product such as sigma * xi",
            )
        drift = multiply(DT, b.here(form[1], known))
        shaken = total([multiply(b.here(factor, known), Name(noise)) for noise, factor in form[0].items()])
        value = add(add(b.here(Name(name)), drift), multiply(Name("root__dt"), shaken))
        values[name] = b.pausing(name, value)
    b.set_all(values)


_ADVANCE: Mapping[Method, Callable[[Builder], None]] = {
    "exact": _exact,
    "exponential_euler": _exponential_euler,
    "euler": _euler,
    "heun": _heun,
    "rk4": _rk4,
    "euler_maruyama": _euler_maruyama,
}
