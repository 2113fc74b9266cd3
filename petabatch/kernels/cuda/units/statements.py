"""The statements of row functions in CUDA, and the functions that they call."""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from typing import Any

from petabatch.kernels.cuda.units.expressions import Expressions, local
from petabatch.kernels.cuda.units.values import JOINED, TYPES, Array, Element, Group, Value

_PASSES = 8
"""Most passes over a function until the types of its variables are known."""


class Translation:
    """What is made of a row function and of the functions that it calls."""

    def __init__(self, real: str) -> None:
        self.real = real
        self.helpers: list[str] = []
        self._made: dict[Any, tuple[str, str]] = {}

    def function(self, function: Callable[..., Any], given: Sequence[Any], returns: bool) -> str:
        """Return the body of a function for these arguments; with `returns` it is that of a helper."""
        translation = Statements(self.call, self.real, function, given)
        return translation.text(returns)

    def call(self, function: Callable[..., Any], given: Sequence[Any], where: Expressions) -> Value:
        """Return a call of another function of Python, which is translated as well."""
        if not all(isinstance(one, Value) for one in given):
            where.refuse("only numbers are handed to a function")
        kinds = tuple(one.kind for one in given)
        key = function, kinds
        if key not in self._made:
            name = f"f{len(self._made)}"
            self._made[key] = name, "?"
            inner = Statements(
                self.call, self.real, function, [Value(f"x{n}", kind) for n, kind in enumerate(kinds)]
            )
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


class Statements(Expressions, ast.NodeVisitor):
    """One function."""

    def __init__(self, *about: Any) -> None:
        super().__init__(*about)
        self._lines: list[str] = []
        self._depth, self._loops = 1, 0
        self.returned = "?"
        """The type of what it returns."""

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
        declared = [f"    {TYPES[kind]} {local(name)} = 0;" for name, kind in self._kinds.items()]
        return "\n".join([*declared, *self._lines]) + "\n"

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
        if not isinstance(where, Array | Element):
            self.refuse("only units of arrays are changed")
        self._put(f"{where.text} = {self._as_number(value).text};")

    def _assign(self, name: str, value: Any, emit: bool = True) -> None:
        if isinstance(value, Element):
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
            self._put(f"{local(name)} = {value.text};")
