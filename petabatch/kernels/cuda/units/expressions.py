"""The expressions of row functions in CUDA, with the types that numba gives them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np

from petabatch.kernels.cuda.units.division import quotient, remainder
from petabatch.kernels.cuda.units.functions import FUNCTIONS
from petabatch.kernels.cuda.units.values import (
    JOINED,
    TYPES,
    Array,
    Cast,
    Element,
    Group,
    Size,
    Untranslated,
    Value,
    cast,
    common,
    constant,
)


class Calls(Protocol):
    """The translation of functions that are called."""

    def __call__(self, function: Callable[..., Any], given: Sequence[Any], where: Expressions) -> Value:
        """Return a call of a function of Python."""


class Expressions:
    """The expressions of a function: names have Values, or stand for what is known beforehand."""

    def __init__(self, call: Calls, real: str, function: Callable[..., Any], given: Sequence[Any]) -> None:
        """`real` is the type of the run's numbers."""
        self._call_other, self._real = call, real
        self._python = getattr(function, "py_func", function)
        code = self._python.__code__
        self._file, self._first = code.co_filename, code.co_firstlineno
        self._node: ast.AST = ast.Pass()
        try:
            text = textwrap.dedent(inspect.getsource(self._python))
            (self._tree,) = ast.parse(text).body
        except (OSError, TypeError, SyntaxError, ValueError):
            self.refuse("its source is not known")
        if not isinstance(self._tree, ast.FunctionDef):
            self.refuse("it is no function with `def`")
        assert isinstance(self._tree, ast.FunctionDef)
        arguments = self._tree.args
        names = [one.arg for one in arguments.args]
        if len(names) != len(given) or arguments.vararg or arguments.kwonlyargs:
            self.refuse(f"it is called with {len(given)} arguments")
        self._given = dict(zip(names, given, strict=True))
        self._outside = inspect.getclosurevars(self._python)
        self._kinds: dict[str, str] = {}
        """The types of variables, as far as they are known."""
        self._known: dict[str, Any] = {}
        """What names stand for that are no variables of the kernel."""
        self._sure = False
        """All types are known."""

    def refuse(self, why: str) -> Any:
        """Raise Untranslated with the place."""
        line = self._first + getattr(self._node, "lineno", 1) - 1
        raise Untranslated(f"{self._file}:{line}: {why}")

    def _number(self, node: ast.expr) -> Value:
        return self._as_number(self._value(node))

    def _as_number(self, value: Any) -> Value:
        if isinstance(value, Array | Element):
            return Value(value.text, self._real)
        if not isinstance(value, Value):
            self.refuse("this is no number")
        assert isinstance(value, Value)
        return value

    def _condition(self, node: ast.expr) -> str:
        value = self._number(node)
        return value.text if value.kind == "b" else f"({value.text} != 0)"

    def _value(self, node: ast.expr) -> Any:
        """Return an expression: a Value, or what it stands for."""
        match node:
            case ast.Constant(value=bool() | int() | float() as number):
                return constant(number)
            case ast.Name():
                return self._name(node.id)
            case ast.Attribute():
                return self._attribute(self._value(node.value), node.attr)
            case ast.Subscript():
                return self._item(self._value(node.value), node.slice)
            case ast.BinOp():
                return self._binary(node.op, self._number(node.left), self._number(node.right))
            case ast.UnaryOp(op=ast.Not()):
                return Value(f"(!{self._condition(node.operand)})", "b")
            case ast.UnaryOp(op=ast.USub() | ast.UAdd()):
                value = self._number(node.operand)
                kind = "i" if value.kind == "b" else value.kind
                sign = "-" if isinstance(node.op, ast.USub) else ""
                return Value(f"({sign}{cast(value, kind)})", kind)
            case ast.BoolOp():
                sign = " && " if isinstance(node.op, ast.And) else " || "
                return Value(f"({sign.join(self._condition(one) for one in node.values)})", "b")
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp():
                a, b = self._number(node.body), self._number(node.orelse)
                kind = JOINED[a.kind, b.kind]
                return Value(f"({self._condition(node.test)} ? {cast(a, kind)} : {cast(b, kind)})", kind)
            case ast.Call():
                return self._call(node)
        return self.refuse(f"`{type(node).__name__.lower()}` has no form on a GPU")

    def _name(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        if name in self._kinds:
            return Value(local(name), self._kinds[name])
        if name in self._given:
            return self._given[name]
        for known in (self._outside.nonlocals, self._outside.globals, self._outside.builtins):
            if name in known:
                return _outside(known[name], self)
        if not self._sure and name in self._python.__code__.co_varnames:
            return Value("0", "?")  # assigned further down, in a loop
        return self.refuse(f"{name} has no value here")

    def _attribute(self, of: Any, name: str) -> Any:
        if isinstance(of, Group) and name in of.members:
            return of.members[name]
        if isinstance(of, Array):
            found = {"size": Value("1LL", "i"), "shape": Size(), "dtype": of}
            if name in found:
                return found[name]
            if name == "type":
                return Cast(self._real)
        if isinstance(of, ModuleType) and hasattr(of, name):
            return _outside(getattr(of, name), self)
        return self.refuse(f"there is no {name} here on a GPU")

    def _item(self, of: Any, index: ast.expr) -> Any:
        if isinstance(of, Array):
            whole = isinstance(index, ast.Slice) and not (index.lower or index.upper or index.step)
            if whole or (isinstance(index, ast.Constant) and index.value is Ellipsis):
                return Element(of.text)
            place = self._number(index)
            if place.kind not in ("i", "b"):
                if place.kind == "?":
                    return Element(of.text)
                self.refuse("an index that is not whole")
            return Element(f"(&{of.text})[{place.text}]")
        if isinstance(of, Size):
            return Value("1LL", "i")
        if isinstance(of, Group):
            if isinstance(index, ast.Constant) and index.value in of.members:
                return of.members[index.value]
            if all(isinstance(one, Value) for one in of.members.values()):
                return self._chosen(list(of.members.values()), self._number(index))
            self.refuse("an index of arrays that is not written as a number")
        return self.refuse("this has no items on a GPU")

    def _chosen(self, values: Sequence[Value], index: Value) -> Value:
        """Return one of some numbers."""
        kind, text = values[-1].kind, values[-1].text
        for number, value in reversed(list(enumerate(values[:-1]))):
            text = f"({index.text} == {number} ? {value.text} : {text})"
        return Value(text, kind)

    def _compare(self, node: ast.Compare) -> Value:
        signs = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
        sides = [self._number(one) for one in (node.left, *node.comparators)]
        found = []
        for operator, a, b in zip(node.ops, sides[:-1], sides[1:], strict=True):
            if type(operator) not in signs:
                self.refuse(f"`{type(operator).__name__.lower()}` has no form on a GPU")
            kind = common(a, b)
            found.append(f"({cast(a, kind)} {signs[type(operator)]} {cast(b, kind)})")
        return Value(f"({' && '.join(found)})", "b")

    def _binary(self, operator: ast.operator, a: Value, b: Value) -> Value:
        if "?" in (a.kind, b.kind):
            return Value("0", JOINED[a.kind, b.kind])
        kind = common(a, b)
        if isinstance(operator, ast.BitAnd | ast.BitOr | ast.BitXor):
            sign = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}[type(operator)]
            if not {a.kind, b.kind} <= {"b", "i"}:
                self.refuse("bits of numbers that are not whole")
            kind = JOINED[a.kind, b.kind]
            return Value(f"({cast(a, kind)} {sign} {cast(b, kind)})", kind)
        if isinstance(operator, ast.Pow):
            return self._power(a, b, kind)
        if isinstance(operator, ast.Div):
            kind = "d" if kind in "bi" else kind
        x, y = cast(a, kind), cast(b, kind)
        if isinstance(operator, ast.FloorDiv | ast.Mod):
            whole = isinstance(operator, ast.FloorDiv)
            if kind in "fd":
                helper = quotient if whole else remainder
                return Value(
                    cast(self._call_other(helper, [Value(x, kind), Value(y, kind)], self), kind), kind
                )
            text = f"(long long)floor((double)({x}) / ({y}))"
            return Value(f"({text})" if whole else f"({x} - {y} * {text})", kind)
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(operator), "")
        return Value(f"({x} {sign} {y})", kind) if sign else self.refuse("an operator without form on a GPU")

    def _power(self, a: Value, b: Value, kind: str) -> Value:
        exponent = b.text.strip("()").removesuffix("LL")
        if b.kind == "i" and exponent.isdigit() and 0 < int(exponent) <= 16 and a.kind in "fd":
            return Value("(" + " * ".join([a.text] * int(exponent)) + ")", a.kind)
        kind = "d" if kind in "bi" else kind
        return Value(f"{'powf' if kind == 'f' else 'pow'}({cast(a, kind)}, {cast(b, kind)})", kind)

    def _call(self, node: ast.Call) -> Any:
        if node.keywords:
            self.refuse("arguments by name have no form on a GPU")
        function = self._value(node.func)
        if function is len and isinstance(self._value(node.args[0]), Array):
            return Value("1LL", "i")
        given = [self._number(one) for one in node.args]
        if isinstance(function, Cast):
            return Value(f"({TYPES[function.kind]})({given[0].text})", function.kind)
        if any(one.kind == "?" for one in given):
            return Value("0", "?")
        try:
            made = FUNCTIONS.get(function)
        except TypeError:
            made = None
        if made is not None:
            return made(*given)
        if inspect.isfunction(getattr(function, "py_func", function)):
            return self._call_other(getattr(function, "py_func", function), given, self)
        name = getattr(function, "__name__", "this")
        return self.refuse(f"the function {name} has no form on a GPU")


def local(name: str) -> str:
    """Return what a variable is called in the kernel."""
    return f"v_{name}"


def _outside(value: Any, where: Expressions) -> Any:
    """Return what a name stands for that is not the function's own."""
    if isinstance(value, np.float32):
        return Value(f"((float){constant(float(value)).text})", "f")
    if isinstance(value, bool | int | float | np.generic):
        return constant(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, tuple):
        return Group({number: _outside(one, where) for number, one in enumerate(value)})
    kind = {float: "d", np.float64: "d", np.float32: "f", int: "i", np.int64: "i", bool: "b"}
    if isinstance(value, type) and value in kind:
        return Cast(kind[value])
    if isinstance(value, np.ndarray):
        return where.refuse("an array from outside of the function")
    return value
