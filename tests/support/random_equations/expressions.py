"""A model of the language of equations in NumPy, from `docs/equations.md`, without code of the package.

Values are computed in float32 or float64, with or without errors of rounding: with `rng` the result of each
operation is changed by up to two units in the last place. What is the same in all units is computed in
float64, and rounded where it meets something of a unit, unless it is a time.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

UNIT, NUMBER, TIME = range(3)
"""What a value is: of each unit, the same in all, or the same and made of `t` by sums and products."""


class Value(NamedTuple):
    """A value, `[slices, units]` or what broadcasts to that."""

    array: Any
    kind: int


def number(value: float) -> Value:
    """Return a number."""
    return Value(np.float64(value), NUMBER)


ZERO = number(0)
"""What an expression is without its linear part, if it has no other."""


def _exprel(x: Any) -> Any:
    return np.where(x == 0, x.dtype.type(1), np.expm1(x) / np.where(x == 0, x.dtype.type(1), x))


def _power(x: Any, y: Any) -> Any:
    """Return x ** y, by the same function for all exponents: numpy has another for single ones."""
    return np.power(*(one.copy() for one in np.broadcast_arrays(x, y)))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("exp", "expm1", "log", "log1p", "sqrt", "sin", "cos", "tan")},
    **{name: getattr(np, name) for name in ("sinh", "cosh", "tanh", "arctan", "abs", "floor", "ceil")},
    "sign": np.sign,
    "exprel": _exprel,
    "min": np.minimum,
    "max": np.maximum,
    "clip": lambda x, low, high: np.minimum(np.maximum(x, low), high),
}
OPERATORS: dict[type[ast.AST], Callable[..., Any]] = {
    ast.Add: np.add, ast.Sub: np.subtract, ast.Mult: np.multiply, ast.Div: np.divide, ast.Pow: _power,
    ast.Mod: np.remainder, ast.Lt: np.less, ast.LtE: np.less_equal, ast.Gt: np.greater,
    ast.GtE: np.greater_equal, ast.Eq: np.equal, ast.NotEq: np.not_equal, ast.And: np.logical_and,
    ast.Or: np.logical_or, ast.Not: np.logical_not, ast.USub: np.negative, ast.IfExp: np.where,
}  # fmt: skip
_OTHERWISE: dict[Callable[..., Any], Callable[..., Any]] = {
    **dict.fromkeys((np.sin, np.cos, np.tan), lambda real, x: (real == np.float32) & (abs(x) > 9e14)),
    _power: lambda real, x, y: np.isneginf(x) & (y == 0.5),
}
"""Where functions are no numbers in some kernels, and numbers in others."""
_EXACT = {np.negative, np.where, np.abs, np.sign, np.floor, np.ceil, np.minimum, np.maximum, np.remainder}


def expression(text: str) -> ast.expr:
    """Return the tree of an expression."""
    return ast.parse(f"({text}\n)", mode="eval").body


@dataclass
class Layer:
    """The texts of a layer, read."""

    equations: str
    spike: str | None = None
    reset: str | None = None
    refractory: float | None = None
    activity: str | None = None
    method: str = "euler"
    rates: dict[str, ast.expr] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    definitions: dict[str, ast.expr] = field(default_factory=dict)

    def __post_init__(self) -> None:
        text, depth, lines = re.sub("#.*", "", self.equations), 0, [""]
        for character in text:
            depth += {"(": 1, ")": -1}.get(character, 0)
            if character == "\n" and depth == 0:
                lines.append("")
            else:
                lines[-1] += character
        for line in filter(str.strip, lines):
            left, right = line.split("=", 1)
            right, colon, _ = right.partition(":")
            if "/" in left:
                name = left.split("/")[0].strip()[1:]
                self.rates[name] = expression(right)
                self.paused |= {name} if colon else set()
            else:
                self.definitions[left.strip()] = expression(right)


@dataclass
class Inputs:
    """What a step starts from: arrays `[slices, units]`, by name."""

    state: Mapping[str, np.ndarray]
    before: np.ndarray
    left: np.ndarray
    arrived: Mapping[str, np.ndarray]
    currents: Mapping[str, np.ndarray]
    numbers: Mapping[str, Any]
    """Parameters that are numbers, float64, `[slices, 1]`."""
    units: Mapping[str, np.ndarray]
    noise: Mapping[str, np.ndarray]
    """Normal numbers."""
    t: float
    dt: float


class Expressions:
    """The values of the expressions of a layer, in some precision."""

    def __init__(
        self, layer: Layer, given: Inputs, real: Any, rng: np.random.Generator | None = None
    ) -> None:
        self.layer, self.given, self.real, self.rng = layer, given, real, rng
        self.fixed = {"pi": number(np.pi), "dt": number(given.dt)}
        self.fixed |= {name: Value(np.asarray(one, float), NUMBER) for name, one in given.numbers.items()}
        for some in (given.units, given.currents):
            self.fixed |= {name: self.unit(one) for name, one in some.items()}
        for name, one in given.noise.items():  # which runs round in other ways
            error = 0.0 if rng is None else 8 * np.finfo(real).eps * rng.uniform(-1, 1, one.shape)
            self.fixed[name] = self.unit(one * (1 + error) + error)

    def unit(self, array: np.ndarray) -> Value:
        """Return numbers of units in the precision."""
        return Value(array if array.dtype == bool else array.astype(self.real), UNIT)

    def op(self, function: Callable[..., Any], *given: Value, called: bool = False) -> Value:
        """Return a function of some values, with an error of rounding."""
        kinds = [one.kind for one in given]
        if UNIT in kinds:
            kind, arrays = UNIT, [self._met(one) for one in given]
        else:
            arrays = [one.array for one in given]
            times = kinds[1:] if function is np.where else kinds
            kind = TIME if TIME in times and not called else NUMBER
        found = function(*arrays)
        if found.dtype == bool:
            return Value(found, NUMBER if kind == TIME else kind)
        if self.rng is not None and function not in _EXACT:
            by = 2.0 if function is not _power else 2 + np.abs(np.clip(arrays[1], -64, 64))
            error = by * np.finfo(found.dtype).eps * self.rng.uniform(-1, 1, found.shape)
            found = (found * (1 + error)).astype(found.dtype)
            for chosen in (where(self.real, *arrays) for of, where in _OTHERWISE.items() if function is of):
                found = np.where(
                    chosen & (self.rng.random(found.shape) < 0.5), found.dtype.type(np.nan), found
                )
        return Value(found, kind)

    def _met(self, one: Value) -> Any:
        """Return a value as a unit computes with it: numbers are rounded, times are not."""
        if one.kind != NUMBER or one.array.dtype == bool:
            return one.array
        return np.asarray(one.array).astype(self.real)

    def value(self, node: ast.expr, now: Mapping[str, Value]) -> Value:
        """Return an expression at some moment."""
        match node:
            case ast.Constant():
                return number(node.value)
            case ast.Name():
                if node.id in self.layer.definitions:
                    return self.value(self.layer.definitions[node.id], now)
                return now[node.id] if node.id in now else self.fixed[node.id]
            case ast.UnaryOp(op=ast.UAdd()):
                return self.value(node.operand, now)
            case ast.UnaryOp():
                return self.op(OPERATORS[type(node.op)], self.value(node.operand, now))
            case ast.BinOp():
                return self.op(
                    OPERATORS[type(node.op)], self.value(node.left, now), self.value(node.right, now)
                )
            case ast.BoolOp():
                return self._joined(type(node.op), [self.value(one, now) for one in node.values])
            case ast.Compare():
                sides = [self.value(one, now) for one in (node.left, *node.comparators)]
                pairs = zip(node.ops, sides[:-1], sides[1:], strict=True)
                return self._joined(ast.And, [self.op(OPERATORS[type(op)], a, b) for op, a, b in pairs])
            case ast.IfExp():
                return self.op(
                    np.where, *(self.value(one, now) for one in (node.test, node.body, node.orelse))
                )
            case ast.Call(func=ast.Name(id="int")):
                return self.op(np.where, self.value(node.args[0], now), number(1), number(0), called=True)
            case ast.Call(func=ast.Name()):
                given = [self.value(one, now) for one in node.args]
                return self.op(FUNCTIONS[node.func.id], *given, called=True)
        raise AssertionError(ast.dump(node))

    def _joined(self, operator: type[ast.AST], given: Sequence[Value]) -> Value:
        found = given[0]
        for one in given[1:]:
            found = self.op(OPERATORS[operator], found, one)
        return found

    def linear(
        self, node: ast.expr, names: Sequence[str], now: Mapping[str, Value]
    ) -> tuple[dict[str, Value], Value]:
        """Return the coefficients of some names, and the rest, of an expression that is linear in them."""
        if isinstance(node, ast.Name) and node.id in self.layer.definitions:
            return self.linear(self.layer.definitions[node.id], names, now)
        if isinstance(node, ast.Name) and node.id in names:
            return {node.id: number(1)}, ZERO
        if not self._reads(node, names):
            return {}, self.value(node, now)
        match node:
            case ast.UnaryOp():
                by, rest = self.linear(node.operand, names, now)
                return self._each(lambda one: self.op(OPERATORS[type(node.op)], one), by, rest)
            case ast.BinOp(op=ast.Add() | ast.Sub()):
                (a, p), (b, q) = (self.linear(one, names, now) for one in (node.left, node.right))
                both = OPERATORS[type(node.op)]
                found = {n: self.op(both, a.get(n, ZERO), b.get(n, ZERO)) for n in {*a, *b}}
                return found, self.op(both, p, q)
            case ast.BinOp(op=ast.Mult()) if not self._reads(node.left, names):
                factor, (by, rest) = self.value(node.left, now), self.linear(node.right, names, now)
                return self._each(lambda one: self.op(np.multiply, factor, one), by, rest)
            case ast.BinOp():
                factor, (by, rest) = self.value(node.right, now), self.linear(node.left, names, now)
                return self._each(lambda one: self.op(OPERATORS[type(node.op)], one, factor), by, rest)
            case ast.IfExp():
                which = self.value(node.test, now)
                (a, p), (b, q) = (self.linear(one, names, now) for one in (node.body, node.orelse))
                found = {n: self.op(np.where, which, a.get(n, ZERO), b.get(n, ZERO)) for n in {*a, *b}}
                return found, self.op(np.where, which, p, q)
        raise AssertionError(ast.dump(node))

    @staticmethod
    def _each(change: Callable[[Value], Value], by: Mapping[str, Value], rest: Value) -> Any:
        return {name: change(one) for name, one in by.items()}, rest if rest is ZERO else change(rest)

    def _reads(self, node: ast.expr, names: Sequence[str]) -> bool:
        found = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
        return any(
            name in names
            or (name in self.layer.definitions and self._reads(self.layer.definitions[name], names))
            for name in found
        )
