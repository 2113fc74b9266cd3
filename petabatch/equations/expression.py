"""Expressions of equations as trees, and their arithmetic: constant folding and linear coefficients."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

LARGEST = 4000
"""Nodes of an expression above which its linear coefficients are not derived."""


@dataclass(frozen=True)
class Number:
    """A constant."""

    value: float
    size: int = field(default=1, init=False, repr=False, compare=False)


@dataclass(frozen=True)
class Name:
    """A variable, parameter, current, or an intermediate result."""

    name: str
    size: int = field(default=1, init=False, repr=False, compare=False)


@dataclass(frozen=True)
class Apply:
    """A function or an operator of some arguments."""

    function: str
    """A key of `functions.FUNCTIONS`."""
    arguments: tuple[Expression, ...]
    size: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", 1 + sum(one.size for one in self.arguments))


Expression = Number | Name | Apply
ZERO, ONE = Number(0.0), Number(1.0)
Linear = tuple[Mapping[str, Expression], Expression]
"""The coefficient of each variable, and the rest."""


def names_in(expression: Expression) -> Iterator[str]:
    """Yield the names in an expression, some more than once."""
    if isinstance(expression, Name):
        yield expression.name
    elif isinstance(expression, Apply):
        for one in expression.arguments:
            yield from names_in(one)


def calls_in(expression: Expression) -> Iterator[Apply]:
    """Yield the functions and operators in an expression."""
    if isinstance(expression, Apply):
        yield expression
        for one in expression.arguments:
            yield from calls_in(one)


def renamed(expression: Expression, names: Mapping[str, str]) -> Expression:
    """Return an expression with other names."""
    if isinstance(expression, Name):
        return Name(names.get(expression.name, expression.name))
    if isinstance(expression, Apply):
        return Apply(expression.function, tuple(renamed(one, names) for one in expression.arguments))
    return expression


def add(a: Expression, b: Expression) -> Expression:
    """Return a + b."""
    if a == ZERO or b == ZERO:
        return b if a == ZERO else a
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value + b.value)
    return Apply("+", (a, b))


def subtract(a: Expression, b: Expression) -> Expression:
    """Return a - b."""
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value - b.value)
    return a if b == ZERO else negative(b) if a == ZERO else Apply("-", (a, b))


def negative(a: Expression) -> Expression:
    """Return -a."""
    return Number(-a.value) if isinstance(a, Number) else Apply("negative", (a,))


def multiply(a: Expression, b: Expression) -> Expression:
    """Return a * b; 0 where one of them is, as if the other were finite."""
    if ZERO in (a, b):
        return ZERO
    if ONE in (a, b):
        return b if a == ONE else a
    if isinstance(a, Number) and isinstance(b, Number):
        return Number(a.value * b.value)
    return Apply("*", (a, b))


def divide(a: Expression, b: Expression) -> Expression:
    """Return a / b."""
    if a == ZERO or b == ONE:
        return a
    if isinstance(a, Number) and isinstance(b, Number) and b.value != 0:
        return Number(a.value / b.value)
    return Apply("/", (a, b))


def choose(condition: Expression, a: Expression, b: Expression) -> Expression:
    """Return a where a condition holds, b elsewhere."""
    return a if a == b else Apply("if", (condition, a, b))


def total(terms: Collection[Expression]) -> Expression:
    """Return the sum of some expressions."""
    found: Expression = ZERO
    for one in terms:
        found = add(found, one)
    return found


def linear(
    expression: Expression, variables: Collection[str], known: Mapping[str, Linear | None]
) -> Linear | None:
    """Return an expression as a linear function of variables, None where its form does not show that.

    `known` has the linear forms of intermediate results. Coefficients contain none of the variables.
    """
    if isinstance(expression, Number):
        return {}, expression
    if isinstance(expression, Name):
        if expression.name in variables:
            return {expression.name: ONE}, ZERO
        return known.get(expression.name, ({}, expression))
    parts = [linear(one, variables, known) for one in expression.arguments]
    found = _combined(expression, parts)
    if found is not None and sum(one.size for one in (*found[0].values(), found[1])) > LARGEST:
        return None
    return found


def _combined(expression: Apply, parts: list[Linear | None]) -> Linear | None:
    forms = [part for part in parts if part is not None]
    if len(forms) < len(parts):
        return None
    if not any(coefficients for coefficients, _ in forms):
        return {}, expression if all(rest.size <= 1 for _, rest in forms) else Apply(
            expression.function, tuple(rest for _, rest in forms)
        )
    match expression.function:
        case "+" | "-":
            (a, p), (b, q) = forms
            combine = add if expression.function == "+" else subtract
            names = dict.fromkeys((*a, *b))
            return {n: combine(a.get(n, ZERO), b.get(n, ZERO)) for n in names}, combine(p, q)
        case "negative":
            ((a, p),) = forms
            return {n: negative(one) for n, one in a.items()}, negative(p)
        case "*" if not all(coefficients for coefficients, _ in forms):
            (a, p), (b, q) = forms
            factor, (of, rest) = (q, (a, p)) if a else (p, (b, q))
            return {n: multiply(factor, one) for n, one in of.items()}, multiply(factor, rest)
        case "/" if not forms[1][0]:
            (a, p), (_, q) = forms
            return {n: divide(one, q) for n, one in a.items()}, divide(p, q)
        case "if" if not forms[0][0]:
            (_, condition), (a, p), (b, q) = forms
            names = dict.fromkeys((*a, *b))
            return (
                {n: choose(condition, a.get(n, ZERO), b.get(n, ZERO)) for n in names},
                choose(condition, p, q),
            )
    return None
