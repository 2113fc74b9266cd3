"""Row functions as CUDA kernels: the translation of their Python, with the types that numba gives it."""

from __future__ import annotations

import ast
import inspect
import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from petabatch.kernels.cuda.row_functions import CASTS, FUNCTIONS, JOINED, TYPES, Value
from petabatch.kernels.rows import Form

_PASSES = 8
"""Most passes over a function until the types of its variables are known."""
_BLOCK = 256
"""Threads of a block."""


class Untranslated(Exception):
    """A row function has no form as a kernel; the message is the place and the reason."""


class Array(NamedTuple):
    """One of the arrays of units; a thread has one unit of it."""

    text: str


class Group(NamedTuple):
    """Arrays, or numbers, by name or by number."""

    members: Mapping[Any, Any]


class Cast(NamedTuple):
    """A type, called as a function."""

    kind: str


class Size(NamedTuple):
    """The shape of an array of one unit."""


@cache
def row_source(function: Callable[..., None], form: Form, real: str) -> str:
    """Return the source of a kernel `row` that makes the update of each unit by a row function.

    A thread calls it with one unit, as it is never promised how many it has. `real` is "float" or "double".
    Raises Untranslated, with the line, where the function cannot be translated.
    """
    kind = {"float": "f", "double": "d"}[real]
    names = [f"a{number}" for number in range(form.arrays)]
    units = iter([Array(f"{name}[at]") for name in names])
    drive = Group({n: next(units) for n in range(form.buffers)})
    state = Group({name: next(units) for name in form.variables})
    draws = Group({name: next(units) for name in form.draws})
    taken, numbers = iter(range(form.numbers)), {}
    for name, what, length in form.parameters:
        each = [_number(next(taken), what, kind) for _ in range(max(1, length))]
        numbers[name] = Group(dict(enumerate(each))) if length else each[0]
    if form.timed:
        numbers["t"] = Value("time", "d")
    unit = _Unit(kind)
    given = Group(numbers), state, drive, draws, next(units)
    body = unit.function(function, given, False)
    arguments = ", ".join(f"{real}* __restrict__ {name}" for name in names)
    return (
        "".join(unit.helpers)
        + f'extern "C" __global__ void __launch_bounds__({_BLOCK})\n'
        + f"row({arguments}, const double* __restrict__ numbers, double steps, int units) {{\n"
        + f"    const int unit = blockIdx.x * {_BLOCK} + threadIdx.x;\n    if (unit >= units) return;\n"
        + "    const long long at = static_cast<long long>(blockIdx.y) * units + unit;\n"
        + f"    const double* n = numbers + blockIdx.y * {form.numbers};\n"
        + "    const double time = steps * n[0];\n    (void)time;\n"
        + body
        + "}\n"
    )


def _number(place: int, what: str, real: str) -> Value:
    kind = {"float": real, "int": "i", "bool": "b"}[what]
    text = f"n[{place}]"
    return Value(f"({text} != 0)" if kind == "b" else f"(({TYPES[kind]}){text})", kind)


class _Unit:
    """What is made of a row function and of the functions that it calls."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.helpers: list[str] = []
        self._made: dict[Any, tuple[str, str]] = {}

    def function(self, function: Callable[..., Any], given: Sequence[Any], returns: bool) -> str:
        """Return the body of a function for these arguments; with `returns` it is that of a helper."""
        translation = _Function(self, function, given)
        return translation.text(returns)

    def call(self, function: Callable[..., Any], given: Sequence[Any], where: _Function) -> Value:
        """Return a call of another function of Python, which is translated as well."""
        if not all(isinstance(one, Value) for one in given):
            where.refuse("only numbers are handed to a function")
        kinds = tuple(one.kind for one in given)
        key = function, kinds
        if key not in self._made:
            name = f"f{len(self._made)}"
            self._made[key] = name, "?"
            inner = _Function(self, function, [Value(f"x{n}", kind) for n, kind in enumerate(kinds)])
            body = inner.text(True)
            if inner.returned == "?":
                where.refuse(f"{function.__name__} returns nothing")
            arguments = ", ".join(f"{TYPES[kind]} x{n}" for n, kind in enumerate(kinds))
            self.helpers.append(
                f"__device__ inline {TYPES[inner.returned]} {name}({arguments}) {{\n{body}}}\n"
            )
            self._made[key] = name, inner.returned
        name, kind = self._made[key]
        if kind == "?":
            where.refuse(f"{function.__name__} calls itself")
        return Value(f"{name}({', '.join(one.text for one in given)})", kind)


class _Function(ast.NodeVisitor):
    """One function: names have Values, or stand for what is known when it is translated."""

    def __init__(self, unit: _Unit, function: Callable[..., Any], given: Sequence[Any]) -> None:
        self._unit, self._python = unit, getattr(function, "py_func", function)
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
        self._lines: list[str] = []
        self._depth, self._loops = 1, 0
        self.returned = "?"

    def text(self, returns: bool) -> str:
        """Return the body."""
        assert isinstance(self._tree, ast.FunctionDef)
        self._returns = returns
        for _ in range(_PASSES):
            before = dict(self._kinds), self.returned
            self._lines, self._loops = [], 0
            self._known = {}
            self._sure = False
            self._block(self._tree.body)
            if (dict(self._kinds), self.returned) == before:
                break
        self._lines, self._loops, self._known, self._sure = [], 0, {}, True
        self._block(self._tree.body)
        declared = [f"    {TYPES[kind]} {_local(name)} = 0;" for name, kind in self._kinds.items()]
        return "\n".join([*declared, *self._lines]) + "\n"

    def refuse(self, why: str) -> Any:
        """Raise Untranslated with the place."""
        line = self._first + getattr(self._node, "lineno", 1) - 1
        raise Untranslated(f"{self._file}:{line}: {why}")

    def _put(self, line: str) -> None:
        self._lines.append("    " * self._depth + line)

    def _block(self, body: Sequence[ast.stmt]) -> None:
        for one in body:
            self._node = one
            self.visit(one)

    def _inner(self, body: Sequence[ast.stmt]) -> None:
        self._depth += 1
        self._block(body)
        self._depth -= 1
        self._put("}")

    # Statements.

    def generic_visit(self, node: ast.AST) -> None:
        """Refuse what has no method here."""
        self.refuse(f"`{type(node).__name__.lower()}` has no form on a GPU")

    def visit_Pass(self, node: ast.Pass) -> None:
        """Do nothing."""

    def visit_Expr(self, node: ast.Expr) -> None:
        """Skip a docstring."""
        if not isinstance(node.value, ast.Constant):
            self.refuse("a statement without effect")

    def visit_Break(self, node: ast.Break) -> None:
        """End a loop."""
        self._put("break;")

    def visit_Continue(self, node: ast.Continue) -> None:
        """Go on with a loop."""
        self._put("continue;")

    def visit_Return(self, node: ast.Return) -> None:
        """Return a number, or end the update of the unit."""
        if node.value is None or not self._returns:
            self._put("return;")
            return
        value = self._number(node.value)
        self.returned = JOINED[self.returned, value.kind]
        self._put(f"return {value.text};")

    def visit_If(self, node: ast.If) -> None:
        """Choose between statements."""
        self._put(f"if ({self._condition(node.test)}) {{")
        self._inner(node.body)
        if node.orelse:
            self._put("else {")
            self._inner(node.orelse)

    def visit_While(self, node: ast.While) -> None:
        """Repeat statements."""
        if node.orelse:
            self.refuse("`else` of a loop has no form on a GPU")
        self._put(f"while ({self._condition(node.test)}) {{")
        self._inner(node.body)

    def visit_For(self, node: ast.For) -> None:
        """Loop over a range."""
        call = node.iter
        plain = isinstance(call, ast.Call) and self._value(call.func) is range and not call.keywords
        if not plain or not isinstance(node.target, ast.Name) or node.orelse:
            self.refuse("a loop is not over a range of numbers")
        assert isinstance(call, ast.Call)
        assert isinstance(node.target, ast.Name)
        ends = [self._number(one) for one in call.args]
        if any(one.kind not in ("i", "b") for one in ends):
            self.refuse("a range of numbers that are not whole")
        begin = ends[0].text if len(ends) > 1 else "0"
        stop, step = ends[1 if len(ends) > 1 else 0].text, ends[2].text if len(ends) > 2 else "1"
        self._loops += 1
        at, name = f"l{self._loops}", node.target.id
        self._assign(name, Value(begin, "i"), False)
        go = f"{at} < {stop}" if step == "1" else f"({step} > 0 ? {at} < {stop} : {at} > {stop})"
        self._put(f"for (long long {at} = {begin}; {go}; {at} += {step}) {{")
        self._depth += 1
        self._assign(name, Value(at, "i"))
        self._depth -= 1
        self._inner(node.body)

    def visit_Assign(self, node: ast.Assign) -> None:
        """Assign a value to names and units."""
        for target in node.targets:
            if isinstance(target, ast.Tuple):
                self._unpack(target, node.value)
            else:
                self._store(target, self._value(node.value))

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        """Assign a value to a name."""
        if node.value is not None:
            self._store(node.target, self._value(node.value))

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        """Change a name or a unit."""
        self._store(node.target, self._binary(node.op, self._number(node.target), self._number(node.value)))

    def _unpack(self, target: ast.Tuple, value: ast.expr) -> None:
        if isinstance(value, ast.Tuple):
            found = [self._value(one) for one in value.elts]
        else:
            group = self._value(value)
            found = list(group.members.values()) if isinstance(group, Group) else []
        if len(found) != len(target.elts):
            self.refuse("what is unpacked has another length")
        kept: list[Any] = []
        for one in found:  # all are read before any is changed
            if isinstance(one, Value):
                self._loops += 1
                self._put(f"const {TYPES[one.kind]} u{self._loops} = {one.text};")
                one = Value(f"u{self._loops}", one.kind)
            kept.append(one)
        for place, one in zip(target.elts, kept, strict=True):
            self._store(place, one)

    def _store(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name):
            self._assign(target.id, value)
            return
        where = self._value(target)
        if not isinstance(where, Array | _Element):
            self.refuse("only units of arrays are changed")
        self._put(f"{where.text} = {self._as_number(value).text};")

    def _assign(self, name: str, value: Any, emit: bool = True) -> None:
        if isinstance(value, _Element):
            value = self._as_number(value)
        if not isinstance(value, Value):
            if name in self._kinds or (self._depth > 1 and self._known.get(name, value) != value):
                self.refuse(f"{name} stands for different things")
            self._known[name] = value
            return
        if name in self._known:
            self.refuse(f"{name} stands for different things")
        self._kinds[name] = JOINED[self._kinds.get(name, "?"), value.kind]
        if emit:
            self._put(f"{_local(name)} = {value.text};")

    # Expressions.

    def _number(self, node: ast.expr) -> Value:
        return self._as_number(self._value(node))

    def _as_number(self, value: Any) -> Value:
        if isinstance(value, Array | _Element):
            return Value(value.text, self._unit.real)
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
                return _constant(number)
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
                return Value(f"({sign}{CASTS(value, kind)})", kind)
            case ast.BoolOp():
                sign = " && " if isinstance(node.op, ast.And) else " || "
                return Value(f"({sign.join(self._condition(one) for one in node.values)})", "b")
            case ast.Compare():
                return self._compare(node)
            case ast.IfExp():
                a, b = self._number(node.body), self._number(node.orelse)
                kind = JOINED[a.kind, b.kind]
                return Value(f"({self._condition(node.test)} ? {CASTS(a, kind)} : {CASTS(b, kind)})", kind)
            case ast.Call():
                return self._call(node)
        return self.refuse(f"`{type(node).__name__.lower()}` has no form on a GPU")

    def _name(self, name: str) -> Any:
        if name in self._known:
            return self._known[name]
        if name in self._kinds:
            return Value(_local(name), self._kinds[name])
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
                return Cast(self._unit.real)
        if isinstance(of, ModuleType) and hasattr(of, name):
            return _outside(getattr(of, name), self)
        return self.refuse(f"there is no {name} here on a GPU")

    def _item(self, of: Any, index: ast.expr) -> Any:
        if isinstance(of, Array):
            whole = isinstance(index, ast.Slice) and not (index.lower or index.upper or index.step)
            if whole or (isinstance(index, ast.Constant) and index.value is Ellipsis):
                return _Element(of.text)
            place = self._number(index)
            if place.kind not in ("i", "b"):
                if place.kind == "?":
                    return _Element(of.text)
                self.refuse("an index that is not whole")
            return _Element(f"(&{of.text})[{place.text}]")
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
            kind = _common(a, b)
            found.append(f"({CASTS(a, kind)} {signs[type(operator)]} {CASTS(b, kind)})")
        return Value(f"({' && '.join(found)})", "b")

    def _binary(self, operator: ast.operator, a: Value, b: Value) -> Value:
        if "?" in (a.kind, b.kind):
            return Value("0", JOINED[a.kind, b.kind])
        kind = _common(a, b)
        if isinstance(operator, ast.BitAnd | ast.BitOr | ast.BitXor):
            sign = {ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^"}[type(operator)]
            if not {a.kind, b.kind} <= {"b", "i"}:
                self.refuse("bits of numbers that are not whole")
            kind = JOINED[a.kind, b.kind]
            return Value(f"({CASTS(a, kind)} {sign} {CASTS(b, kind)})", kind)
        if isinstance(operator, ast.Pow):
            return self._power(a, b, kind)
        if isinstance(operator, ast.Div):
            kind = "d" if kind in "bi" else kind
        x, y = CASTS(a, kind), CASTS(b, kind)
        if isinstance(operator, ast.FloorDiv | ast.Mod):
            floor = "floorf" if kind == "f" else "floor"
            whole = f"{floor}(({x}) / ({y}))" if kind in "fd" else f"(long long)floor((double)({x}) / ({y}))"
            return Value(
                f"({whole})" if isinstance(operator, ast.FloorDiv) else f"({x} - {y} * {whole})", kind
            )
        sign = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}.get(type(operator), "")
        return Value(f"({x} {sign} {y})", kind) if sign else self.refuse("an operator without form on a GPU")

    def _power(self, a: Value, b: Value, kind: str) -> Value:
        exponent = b.text.strip("()").removesuffix("LL")
        if b.kind == "i" and exponent.isdigit() and 0 < int(exponent) <= 16 and a.kind in "fd":
            return Value("(" + " * ".join([a.text] * int(exponent)) + ")", a.kind)
        kind = "d" if kind in "bi" else kind
        return Value(f"{'powf' if kind == 'f' else 'pow'}({CASTS(a, kind)}, {CASTS(b, kind)})", kind)

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
            return self._unit.call(getattr(function, "py_func", function), given, self)
        name = getattr(function, "__name__", "this")
        return self.refuse(f"the function {name} has no form on a GPU")


class _Element(NamedTuple):
    """A unit of an array, which can be changed."""

    text: str


def _local(name: str) -> str:
    return f"v_{name}"


def _common(a: Value, b: Value) -> str:
    """Return the type in which numba computes with both."""
    kind = JOINED[a.kind, b.kind]
    return "d" if {a.kind, b.kind} in ({"i", "f"},) else "i" if kind == "b" else kind


def _constant(value: bool | float) -> Value:
    if isinstance(value, bool):
        return Value("true" if value else "false", "b")
    if isinstance(value, int):
        return Value(f"{value}LL", "i")
    if not math.isfinite(value):
        infinite = "(1e308 * 1e308)"  # NVRTC has no <cmath>
        text = f"(0.0 * {infinite})" if math.isnan(value) else infinite
        return Value(f"(-{text})" if value < 0 else text, "d")
    return Value(f"({value.hex()})", "d")


def _outside(value: Any, where: _Function) -> Any:
    """Return what a name stands for that is not the function's own."""
    if isinstance(value, np.float32):
        return Value(f"((float){_constant(float(value)).text})", "f")
    if isinstance(value, bool | int | float | np.generic):
        return _constant(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, tuple):
        return Group({number: _outside(one, where) for number, one in enumerate(value)})
    kind = {float: "d", np.float64: "d", np.float32: "f", int: "i", np.int64: "i", bool: "b"}
    if isinstance(value, type) and value in kind:
        return Cast(kind[value])
    if isinstance(value, np.ndarray):
        return where.refuse("an array from outside of the function")
    return value
