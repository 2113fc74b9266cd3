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


def hint(equations: Equations, seen: Expression, variable: str, given: Collection[str]) -> str:
    """Return what helps a variable, or the activity that is `seen`, by what its equation is made of.

    `given` are the names of constants. Nothing where it is made of neither quotients nor exponentials.
    """
    own = [seen]
    if variable in equations.derivatives:
        own = [equations.derivatives[variable].rate]
    else:
        own += [equations.derivatives[name].rate for name in {*names_in(seen)} & equations.derivatives.keys()]
    lines = own + [equations.definitions[name] for one in own for name in equations.needed(one)]
    changing = {
        one.function
        for line in lines
        for one in calls_in(line)
        if not {*names_in(one.arguments[-1])} <= {*given}
    }
    if not changing.isdisjoint(("/", "%")):
        return (
            "its equation divides by what may become 0: keep the divisor away from 0, or write "
            "x / (exp(x) - 1) as 1 / exprel(x)"
        )
    if "exp" in changing:
        return (
            "the exponential in its equation may overflow: bound its exponent, as in exp(min(x, 20)), lower "
            'run.dt, or choose method = "euler"'
        )
    return ""


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
