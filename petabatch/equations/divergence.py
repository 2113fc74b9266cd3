"""Numbers of equations that do not stay finite: what helps, and whether they overflow in a spike."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping

from petabatch.equations.arrays import number
from petabatch.equations.blocks import Equations
from petabatch.equations.expression import Apply, Expression, Name, calls_in, names_in
from petabatch.equations.grammar import parse

_BEYOND = 1e6
"""Growth of a derivative within a step after which the step has nothing of the solution."""

_LEAST = {"sqrt": ("negative", "0"), "log": ("0 or less", "1e-6"), "log1p": ("-1 or less", "-0.999")}
"""Of functions, which arguments have no value, and a bound of those that have."""
_BOUNDED = ("abs", "exp", "max", "clip", "sqrt")
"""Functions whose values are bounded from below, as those functions need it."""


def hint(
    equations: Equations,
    seen: Expression,
    variable: str,
    given: Collection[str],
    numbers: Mapping[str, float],
) -> str:
    """Return what helps a variable, or the activity that is `seen`, by what its equation is made of.

    `given` are the names of constants, `numbers` the values of those that are the same in all units. Nothing
    where it is made of none of quotients, powers, roots, logarithms and exponentials.
    """
    own = [seen]
    if variable in equations.derivatives:
        own = [equations.derivatives[variable].rate]
    else:
        own += [equations.derivatives[name].rate for name in {*names_in(seen)} & equations.derivatives.keys()]
    lines = own + [equations.definitions[name] for one in own for name in equations.needed(one)]
    calls = [one for line in lines for one in calls_in(line)]
    for one in calls:
        last = one.arguments[-1]
        if one.function in ("/", "%") and _constant(last, numbers) == 0:
            of = f"{last.name}, which is 0" if isinstance(last, Name) else "what is 0"
            return f"its equation divides by {of}: give it another value"
    changing = {one.function for one in calls if not {*names_in(one.arguments[-1])} <= {*given}}
    if not changing.isdisjoint(("/", "%")):
        return (
            "its equation divides by what may become 0: keep the divisor away from 0, or write "
            "x / (exp(x) - 1) as 1 / exprel(x)"
        )
    for one in calls:
        if (found := _power(one, given, numbers) or _domain(one, numbers)) is not None:
            return found
    if "exp" in changing:
        return (
            "the exponential in its equation may overflow: bound its exponent, as in exp(min(x, 20)), lower "
            'run.dt, or choose method = "euler"'
        )
    return ""


def _power(call: Apply, given: Collection[str], numbers: Mapping[str, float]) -> str | None:
    """Return what helps where the base of a power may have none; None where it always has, or is constant."""
    base, exponent = call.arguments[0], _constant(call.arguments[-1], numbers)
    if call.function != "**" or exponent is None or {*names_in(base)} <= {*given}:
        return None
    if exponent < 0:
        return "its equation has a negative power of what may become 0: keep it away from 0"
    if exponent != math.floor(exponent):
        bound = f"max(x, 0) ** {exponent:g}"
        return f"its equation has a fractional power of what may become negative: bound it, as in {bound}"
    return None


def _domain(call: Apply, numbers: Mapping[str, float]) -> str | None:
    """Return what helps where a root or logarithm may have no value; None where it has one."""
    if call.function not in _LEAST:
        return None
    inner, value = call.arguments[0], _constant(call, numbers)
    bounded = isinstance(inner, Apply) and inner.function in _BOUNDED
    if bounded or (value is not None and math.isfinite(value)):
        return None
    wrong, least = _LEAST[call.function]
    bound = f"{call.function}(max(x, {least}))"
    what = f"what {'may become' if value is None else 'is'} {wrong}"
    return f"its equation has the {call.function} of {what}: bound it, as in {bound}"


def _constant(expression: Expression, numbers: Mapping[str, float]) -> float | None:
    """Return the value of an expression of numbers alone, None for any other."""
    return number(expression, numbers) if {*names_in(expression)} <= {*numbers} else None


def overflows(equations: Equations, spike: str | None, numbers: Mapping[str, float], dt: float) -> bool:
    """Return whether the stages of a step from the threshold run away: their derivatives grow beyond measure.

    `numbers` are those of parameters and currents; other variables are 0. False unless the spike condition is
    a variable above a number.
    """
    rates = {name: one.rate for name, one in equations.derivatives.items()}
    values = {**dict.fromkeys((*rates, *equations.noises, "t"), 0.0), **numbers, "dt": dt}
    known = (*values, *equations.definitions)
    condition = None if spike is None else parse(spike, known, condition=True)
    if not isinstance(condition, Apply) or condition.function not in (">", ">="):
        return False
    rising, threshold = condition.arguments
    if not isinstance(rising, Name) or rising.name not in rates or not {*names_in(threshold)} <= {*numbers}:
        return False
    now = {**dict.fromkeys(rates, 0.0), rising.name: number(threshold, values)}
    slopes, slope = list[float](), dict.fromkeys(rates, 0.0)
    for part in (0.0, 0.5, 0.5, 1.0):  # those of rk4
        stage = {name: now[name] + part * dt * slope[name] for name in rates}
        for name, definition in equations.definitions.items():
            values[name] = number(definition, values | stage)
        slope = {name: number(rate, values | stage) for name, rate in rates.items()}
        slopes.append(abs(slope[rising.name]))
    return math.isfinite(slopes[0]) and not slopes[-1] <= _BEYOND * max(slopes[0], 1.0)
