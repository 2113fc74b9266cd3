"""Integration methods: how each advances a system by a step, which one suits it, and its stability limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal, NamedTuple

import numpy as np

from petabatch.equations.build import Builder
from petabatch.equations.expression import (
    ZERO,
    Apply,
    Expression,
    Name,
    Number,
    add,
    choose,
    divide,
    linear,
    multiply,
    total,
)
from petabatch.equations.grammar import EquationError
from petabatch.equations.prepared import Propagators, Relaxation, RootOfStep
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
    if not system.variables and wanted == "auto":
        return Choice("euler", "there is nothing to integrate")
    noises = system.equations.noises
    if system.noise is None:
        message, expected = "an equation is not linear in the noise", "a product such as sigma * xi"
        raise EquationError(message, None, ", ".join(noises), expected)
    multiplied = _multiplied_noise(system)
    why_not = {
        **dict.fromkeys(("euler", "heun", "rk4"), multiplied),
        "exact": multiplied or _no_propagator(system),
        "exponential_euler": multiplied or _no_exponential(system),
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
    if reason := why_not[wanted]:
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
    matrix = system.array(system.matrix, system.variables, values, dt)
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


def _multiplied_noise(system: System) -> str:
    """Return why noise asks for Euler-Maruyama's method: its factor depends on variables."""
    for (name, noise), factor in (system.noise or {}).items():
        if found := sorted(system.reads(factor).intersection(system.variables)):
            return f"the noise {noise} of d{name}/dt is multiplied by {found[0]}"
    return ""


def _no_propagator(system: System) -> str:
    if system.timed:
        return "the equations depend on time"
    forms = system.forms(*system.variables)
    if bad := [name for name, form in forms.items() if form is None]:
        return f"d{bad[0]}/dt is not linear"
    if system.matrix is None:
        return "coefficients differ among units or depend on inputs"
    if not all(map(system.is_numeric, (system.noise or {}).values())):
        return "the noise differs among units or depends on inputs"
    return ""


def _no_exponential(system: System) -> str:
    bad = [name for name in system.variables if system.forms(name)[name] is None]
    return f"d{bad[0]}/dt is not linear in {bad[0]}" if bad else ""


def _exact(b: Builder) -> None:
    system = b.system
    variables, noises = system.variables, system.equations.noises
    forms, matrix, noise = system.forms(*variables, *noises), system.matrix, system.noise or {}
    assert matrix is not None
    rests = {name: form[1] for name, form in forms.items() if form is not None and form[1] != ZERO}
    numbers = {name: rest for name, rest in rests.items() if system.is_numeric(rest)}
    derivatives = system.equations.derivatives
    paused = frozenset(name for name in derivatives if derivatives[name].paused and b.rests)
    b.prepared.append(Propagators(system, matrix, numbers, noise, paused))
    known = b.define(b.now)
    driven = {
        name: b.put(f"b__{name}", b.here(rest, known)) if not isinstance(rest, Name) else b.here(rest, known)
        for name, rest in rests.items()
        if name not in numbers
    }
    shaken = {
        name
        for name in variables
        for one in _reached(name, matrix, frozenset())
        for n in noises
        if (one, n) in noise
    }
    b.noises = tuple(f"xi__{name}" for name in variables if name in shaken)

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
        if name in shaken:
            before = variables[: variables.index(name) + 1]
            terms += [
                multiply(Name(f"{letters[3]}__{name}__{one}"), Name(f"xi__{one}"))
                for one in before
                if one in shaken
            ]
        return total(terms)

    values = {}
    for name in variables:
        value = solution(name, "PQcN", frozenset())
        if name in paused:
            value = b.pausing(name, value)
        elif paused.intersection(_reached(name, matrix, frozenset())) or (paused and name in shaken):
            value = choose(Name("resting__"), solution(name, "RSdM", paused), value)
        values[name] = value
    b.set_all(values)


def _reached(name: str, matrix: Mapping[tuple[str, str], Expression], still: frozenset[str]) -> list[str]:
    """Return the variables on which one depends, itself first."""
    found = [name]
    for one in found:
        found += [to for row, to in matrix if row == one and row not in still and to not in found]
    return found


def _hold_noise(b: Builder) -> None:
    """Have white noise be constant during the step, with the integral that it has."""
    noises = b.system.equations.noises
    if noises:
        b.prepared.append(RootOfStep())
    for name in noises:
        b.now[name] = b.put(name, divide(Name(name), Name("root__dt"))).name


def _exponential_euler(b: Builder) -> None:
    _hold_noise(b)
    system, values = b.system, {}
    known = b.define(b.now)
    for name in system.variables:
        form = system.forms(name)[name]
        assert form is not None
        rate, rest = form[0].get(name, ZERO), form[1]
        x, driven = b.here(Name(name)), b.here(rest, known)
        if system.is_numeric(rate):
            fixed = rest if rest != ZERO and system.is_numeric(rest) else None
            b.prepared.append(Relaxation(system, name, rate, fixed))
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
    _hold_noise(b)
    b.now = _along(b, b.rates(b.now), DT)


def _heun(b: Builder) -> None:
    _hold_noise(b)
    first = b.rates(b.now)
    second = b.rates(_later(b, _along(b, first, DT), DT))
    mean = {name: multiply(Number(0.5), add(first[name], second[name])) for name in first}
    b.now = _along(b, mean, DT)


def _rk4(b: Builder) -> None:
    _hold_noise(b)
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


def _euler_maruyama(b: Builder) -> None:
    """Ito: noise is multiplied by what it was at the start of the step."""
    system, values = b.system, {}
    noises = system.equations.noises
    b.prepared.append(RootOfStep())
    known = b.define(b.now)
    for name, one in system.equations.derivatives.items():
        form = linear(one.rate, noises, {})
        assert form is not None
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
