"""The grammar of expressions: a subset of Python's syntax. Nothing is evaluated."""

from __future__ import annotations

import ast
import math
import re
import warnings
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from petabatch.equations.arrays import number as value_of
from petabatch.equations.expression import Apply, Expression, Name, Number
from petabatch.equations.functions import CALLED, CONSTANTS, FUNCTIONS
from petabatch.errors import did_you_mean, shortened

LONGEST = 10_000
"""Characters of a text."""
NODES, DEPTH = 600, 60
"""The most nodes of an expression, and how deep they may be nested."""
EXPONENT = 64
"""The largest exponent that is a number."""
RESERVED = {
    *CALLED, *CONSTANTS, "t", "dt", "A", "math", "range", "real", "refractory", "spikes", "history",
}  # fmt: skip
"""Names that no variable, definition, parameter or current can have, beside those of noise."""
NOISE = re.compile(r"xi(_[A-Za-z0-9]+)*")
"""Names of white noise; different names are independent."""
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
LONGEST_NAME = 40
"""Characters of a name."""

_BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Pow: "**", ast.Mod: "%",
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.And: "and", ast.Or: "or",
}  # fmt: skip
_LIKELY: dict[type[ast.AST], str] = {
    ast.BitXor: "powers are written **",
    ast.BitAnd: "conditions are joined by `and`",
    ast.BitOr: "conditions are joined by `or`",
    ast.Invert: "conditions are negated by `not`",
    ast.FloorDiv: "floor(a / b)",
}
NOTHING: Mapping[str, str] = MappingProxyType({})
_EXPECTED = f"numbers, names, + - * / ** %, comparisons, and, or, not, if else, {', '.join(CALLED)}"
_UNKNOWN = "numbers are given in `parameters`, inputs in `currents`"


@dataclass(frozen=True)
class Place:
    """A place in a text, both from 1."""

    line: int = 1
    column: int = 1

    def __str__(self) -> str:
        return f"line {self.line}, column {self.column}"

    def moved(self, text: str) -> Place:
        """Return the place after a text that begins here."""
        lines = text.split("\n")
        column = len(lines[-1]) + (self.column if len(lines) == 1 else 1)
        return Place(self.line + len(lines) - 1, column)


class EquationError(ValueError):
    """A text that is no equation, with the place in it."""

    others: Sequence[EquationError] = ()
    """Further errors of the same text."""

    def __init__(
        self, message: str, place: Place | None, found: str = "", expected: str = "", hint: str = ""
    ) -> None:
        super().__init__(message if place is None else f"{place}: {message}")
        self.found, self.expected, self.hint = shortened(found), expected, hint


def together(errors: Iterable[EquationError]) -> EquationError:
    """Return one error that has the others, of those that found the same the first."""
    different: dict[str, EquationError] = {}
    for error in errors:
        for one in (error, *error.others):
            different.setdefault(one.found or str(one), one)
    first, *others = different.values()
    first.others = others
    return first


def parse(
    text: str,
    known: Collection[str],
    place: Place = Place(),
    condition: bool = False,
    elsewhere: Mapping[str, str] = NOTHING,
    unknown: str = "",
) -> Expression:
    """Return the expression of a text whose first character is at `place`.

    `known` are the names that it may use; `elsewhere` says of names that other texts may use what they are,
    and `unknown` where other names are given.
    Raises EquationError if it is not an expression, or a number where a condition is wanted, or the other way
    around.
    """
    place, text = place.moved(text[: len(text) - len(text.lstrip())]), text.strip()
    _check_characters(text, place)
    if not text:
        raise EquationError("an expression is missing", place, expected=_EXPECTED)
    try:
        with warnings.catch_warnings(action="ignore"):  # of numerals such as 1if
            tree = ast.parse(f"({text}\n)", mode="eval").body
    except SyntaxError as error:
        row, column = error.lineno or 1, error.offset or 1
        at = Place(place.line + row - 1, max(1, column - 1 + place.column - 1 if row == 1 else column))
        hint = "each equation has a line of its own" if ";" in text else ""
        raise EquationError("this is not an expression", at, text, _EXPECTED, hint) from None
    except (ValueError, RecursionError, MemoryError):
        raise EquationError(
            "this cannot be read", place, text.strip(), "a shorter expression, less deeply nested"
        ) from None
    _check_size(tree, place)
    reader = _Reader(known, place, f"({text}\n)", elsewhere, unknown or _UNKNOWN)
    try:
        found = reader.expression(tree)
    except EquationError as error:
        raise together([*reader.undefined, error]) if reader.undefined else error from None
    if reader.undefined:
        raise together(reader.undefined)
    if is_condition(found) != condition:
        wanted, got = ("a condition", "a number") if condition else ("a number", "a condition")
        hint = "such as v > -50" if condition else "int(...) of a condition is 1 or 0"
        raise EquationError(f"this is {got}", place, text.strip(), wanted, hint)
    return found


def is_condition(expression: Expression) -> bool:
    """Return whether the value of an expression is a condition."""
    return isinstance(expression, Apply) and FUNCTIONS[expression.function].condition


def check_name(name: str, place: Place | None) -> None:
    """Raise EquationError if a variable, definition, parameter or current cannot have this name."""
    meaning = "this name has a meaning of its own"
    if NOISE.fullmatch(name):
        raise EquationError(meaning, place, name, "another name", "xi and xi_NAME are white noise")
    if name in RESERVED:
        raise EquationError(meaning, place, name, "another name")
    if len(name) > LONGEST_NAME:
        found = f"{len(name)} characters: {name}"
        raise EquationError("this name is too long", place, found, f"at most {LONGEST_NAME} characters")
    if not NAME.fullmatch(name) or "__" in name:
        raise EquationError(
            "this name cannot be used", place, name, "letters, digits and single _, a letter first"
        )
    try:
        ast.parse(name, mode="eval")
    except SyntaxError:
        raise EquationError(meaning, place, name, "another name, none of Python's keywords") from None


def _check_characters(text: str, place: Place) -> None:
    if len(text) > LONGEST:
        found = f"{len(text):,} characters"
        raise EquationError("this text is too long", place, found, f"at most {LONGEST:,}")
    opened = []
    for number, character in enumerate(text):
        if not (character.isascii() and (character.isprintable() or character in "\t\n")):
            at = place.moved(text[:number])
            raise EquationError("this character cannot be used", at, ascii(character), "ASCII")
        if character == "(":
            opened.append(number)
            if len(opened) > DEPTH:
                raise _too_large(place, f"parentheses nested more than {DEPTH} deep")
        elif character == ")" and not opened:
            raise EquationError("this parenthesis closes none", place.moved(text[:number]), text.strip())
        elif character == ")":
            opened.pop()
    if opened:
        raise EquationError("this parenthesis is not closed", place.moved(text[: opened[-1]]), text.strip())


def _check_size(tree: ast.AST, place: Place) -> None:
    """Raise EquationError for a tree that is too large, without recursion."""
    count, level = 0, [tree]
    for _ in range(DEPTH):
        count += len(level)
        level = [inner for one in level for inner in ast.iter_child_nodes(one)]
        if not level:
            break
    if level or count > 4 * NODES:  # operators and contexts are nodes too
        found = f"nested more than {DEPTH} deep" if level else f"more than {NODES} operators and names"
        raise _too_large(place, found)


def _too_large(place: Place, found: str) -> EquationError:
    hint = "give parts of it names, on lines of their own"
    return EquationError("this expression is too large", place, found, hint=hint)


class _Reader:
    def __init__(
        self, known: Collection[str], place: Place, text: str, elsewhere: Mapping[str, str], unknown: str
    ) -> None:
        self.known, self.place, self.text = known, place, text
        self.elsewhere, self.unknown = elsewhere, unknown
        self.undefined: list[EquationError] = []
        self._constants: dict[int, float] = {}
        """The values of expressions without names, by their identity."""

    def expression(self, node: ast.expr) -> Expression:
        """Return the expression of a node; raises EquationError also where it is a number, and not finite."""
        found = self._read(node)
        if isinstance(found, Number):
            self._constants[id(found)] = found.value
        elif isinstance(found, Apply) and all(id(one) in self._constants for one in found.arguments):
            values = {f"x{at}": self._constants[id(one)] for at, one in enumerate(found.arguments)}
            self._constants[id(found)] = value = value_of(
                Apply(found.function, (*map(Name, values),)), values
            )
            if not math.isfinite(value):
                raise self._error("this is no finite number", node)
        return found

    def _read(self, node: ast.expr) -> Expression:
        match node:
            case ast.Constant():
                return self._number(node)
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp(op=ast.USub()):
                inner = self._value(node.operand)
                return Number(-inner.value) if isinstance(inner, Number) else Apply("negative", (inner,))
            case ast.UnaryOp(op=ast.UAdd()):
                return self._value(node.operand)
            case ast.UnaryOp(op=ast.Not()):
                return Apply("not", (self._value(node.operand, True),))
            case ast.BinOp() if type(node.op) in _BINARY:
                return self._binary(node)
            case ast.BoolOp():
                first, *others = (self._value(one, True) for one in node.values)
                for one in others:
                    first = Apply(_BINARY[type(node.op)], (first, one))
                return first
            case ast.Compare() if all(type(one) in _BINARY for one in node.ops):
                return self._comparison(node)
            case ast.IfExp():
                condition = self._value(node.test, True)
                return Apply("if", (condition, self._value(node.body), self._value(node.orelse)))
            case ast.Call(func=ast.Name()):
                return self._call(node)
        operator = getattr(node, "op", None)
        hint = "" if operator is None else _LIKELY.get(type(operator), "")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):  # np.tanh
            name = node.func.attr
            hint = f"functions have no prefix: {name}(...)" if name in CALLED else did_you_mean(name, CALLED)
        raise self._error("this is not allowed in an equation", node, _EXPECTED, hint)

    def _value(self, node: ast.expr, condition: bool = False) -> Expression:
        """Return an argument, which must be a number or a condition."""
        found = self.expression(node)
        if is_condition(found) != condition:
            wanted = "a condition, such as v > 0" if condition else "a number"
            hint = "" if condition else "int(...) of a condition is 1 or 0"
            message = f"this is {'a number' if condition else 'a condition'}"
            raise self._error(message, node, wanted, hint)
        return found

    def _number(self, node: ast.Constant) -> Number:
        if not isinstance(node.value, int | float) or isinstance(node.value, bool):
            raise self._error("this is not a number", node, "a real number")
        try:
            value = float(node.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise self._error("this number is too large", node)
        return Number(value)

    def _name(self, node: ast.Name) -> Expression:
        if node.id in self.known:
            return Name(node.id)
        if node.id in CONSTANTS:
            return Number(CONSTANTS[node.id])
        if node.id in CALLED:
            raise self._error("this function has no arguments", node, f"{node.id}(...)")
        expected = ", ".join((*self.known, *CONSTANTS))
        if (what := self._elsewhere(node.id)) is not None:
            self.undefined.append(self._error("this name cannot be used here", node, expected, what))
            return Name(node.id)
        named = [one for one in self.known if one not in ("t", "dt")]  # not suggested for tau
        hint = did_you_mean(node.id, named) or self.unknown
        self.undefined.append(self._error("this name is not defined", node, expected, hint))
        return Name(node.id)

    def _elsewhere(self, name: str) -> str | None:
        """Return what a name is that cannot be used here, None if there is none of this name."""
        if NOISE.fullmatch(name):
            return f"{name} is white noise, which only differential equations have: dv/dt = ... + {name}"
        if name == "refractory":
            return "an equation that stands still in refractory units ends with `: unless refractory`"
        if name in RESERVED:
            return f"{name} has a meaning of its own: choose another name"
        return self.elsewhere.get(name)

    def _binary(self, node: ast.BinOp) -> Expression:
        a, b = self._value(node.left), self._value(node.right)
        if isinstance(node.op, ast.Pow) and isinstance(b, Number) and abs(b.value) > EXPONENT:
            raise self._error("this exponent is too large", node.right, f"at most {EXPONENT}")
        return Apply(_BINARY[type(node.op)], (a, b))

    def _comparison(self, node: ast.Compare) -> Expression:
        values = [self._value(one) for one in (node.left, *node.comparators)]
        found: Expression | None = None
        for number, operator in enumerate(node.ops):
            one = Apply(_BINARY[type(operator)], (values[number], values[number + 1]))
            found = one if found is None else Apply("and", (found, one))
        assert found is not None
        return found

    def _call(self, node: ast.Call) -> Expression:
        assert isinstance(node.func, ast.Name)
        name = node.func.id
        if name not in CALLED:
            hint = did_you_mean(name, CALLED)
            if name in self.known:
                hint = "products are written with *"
            raise self._error("there is no function of this name", node.func, ", ".join(CALLED), hint)
        function = CALLED[name]
        if node.keywords or len(node.args) != function.arguments:
            wanted = f"{name} of {function.arguments} argument{'s' * (function.arguments > 1)}"
            raise self._error("this function takes other arguments", node, wanted)
        arguments = [
            self._value(one, number < function.of_conditions) for number, one in enumerate(node.args)
        ]
        return Apply(name, tuple(arguments))

    def _error(self, message: str, node: ast.expr, expected: str = "", hint: str = "") -> EquationError:
        if node.lineno == 1 and node.col_offset == 0:  # it has the parentheses around the whole text
            return EquationError(message, self.place, self.text[1:-2], expected, hint)
        first = node.lineno == 1
        column = node.col_offset - 1 + self.place.column if first else node.col_offset + 1
        place = Place(self.place.line + node.lineno - 1, column)
        return EquationError(message, place, ast.get_source_segment(self.text, node) or "", expected, hint)
