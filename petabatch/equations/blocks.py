"""Blocks of lines: the equations of a layer, and the statements of its reset."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from petabatch.equations.expression import Apply, Expression, Name, Number, names_in
from petabatch.equations.grammar import (
    LONGEST,
    NOISE,
    NOTHING,
    EquationError,
    Place,
    check_name,
    parse,
    together,
)
from petabatch.errors import did_you_mean

LINES = 60
"""The most lines of a block."""
_DERIVATIVE = re.compile(r"\s*d([A-Za-z]\w*)\s*/\s*dt\s*=(?!=)")
_DEFINITION = re.compile(r"\s*([A-Za-z]\w*)\s*=(?!=)")
_STATEMENT = re.compile(r"\s*([A-Za-z]\w*)\s*([-+*/]?)=(?!=)")
_FLAG = r"\s*(\(\s*)?unless\s+refractory\s*(?(1)\)\s*)"
"""Also in parentheses, as Brian2 writes it."""


class Derivative(NamedTuple):
    """The equation of a variable."""

    rate: Expression
    """Its derivative by time."""
    paused: bool
    """It stands still while the unit is refractory."""


@dataclass(frozen=True)
class Equations:
    """The equations of a layer."""

    derivatives: Mapping[str, Derivative]
    """By variable."""
    definitions: Mapping[str, Expression]
    """Algebraic lines in the order of evaluation."""

    @property
    def noises(self) -> tuple[str, ...]:
        """The names of white noise in them, in order."""
        found = (name for one in self.derivatives.values() for name in names_in(one.rate))
        return tuple(dict.fromkeys(name for name in found if NOISE.fullmatch(name)))

    def needed(self, expression: Expression) -> list[str]:
        """Return the definitions that an expression depends on, in the order of evaluation."""
        names, found = set(names_in(expression)), []
        for name, definition in reversed([*self.definitions.items()]):
            if name in names:
                names.update(names_in(definition))
                found.append(name)
        return found[::-1]


class Statement(NamedTuple):
    """An assignment of a reset."""

    variable: str
    value: Expression


class _Line(NamedTuple):
    text: str
    place: Place


class _Head(NamedTuple):
    name: str
    place: Place
    right: _Line
    derivative: bool


def read_equations(text: str, given: Collection[str]) -> Equations:
    """Return the equations of a text; `given` are the names of parameters and currents.

    Raises EquationError.
    """
    lines = list(_lines(text))
    if not lines:
        raise EquationError("there are no equations", None, expected="lines such as dv/dt = -v / 20")
    heads = [_head(line) for line in lines]
    variables = [head.name for head in heads if head.derivative]
    defined = {head.name: head.right for head in heads if not head.derivative}
    for number, head in enumerate(heads):
        if head.name in given or head.name in [other.name for other in heads[:number]]:
            what = "a parameter or a current" if head.name in given else "given twice"
            expected = "one equation for each name"
            raise EquationError(f"this name is {what}", head.place, head.name, expected)
    known = (*variables, *given, "t", "dt")
    definitions: dict[str, Expression] = {}
    derivatives: dict[str, Derivative] = {}
    errors: list[EquationError] = []
    for name, line in _ordered(defined):
        try:
            definitions[name] = parse(line.text, (*known, *definitions), line.place)
        except EquationError as error:
            errors.append(error)
            definitions[name] = Number(0.0)  # it is known to other lines
    for head in heads:
        if head.derivative:
            try:
                derivatives[head.name] = _derivative(head.right, (*known, *definitions))
            except EquationError as error:
                errors.append(error)
    if errors:
        raise together(errors)
    return Equations(derivatives, definitions)


def read_statements(
    text: str,
    variables: Collection[str],
    given: Collection[str],
    elsewhere: Mapping[str, str] = NOTHING,
    unknown: str = "",
) -> tuple[Statement, ...]:
    """Return the statements of a reset, lines or parts between semicolons, in the order of the text.

    `elsewhere` and `unknown` are those of `parse`. Raises EquationError.
    """
    found = []
    for line in _lines(text, "\n;"):
        match = _STATEMENT.match(line.text)
        if match is None:
            raise EquationError("this is not an assignment", line.place, line.text.strip(), "such as v = -60")
        name, operator = match[1], match[2]
        if name not in variables:
            hint = did_you_mean(name, variables) or elsewhere.get(name, unknown)
            expected = ", ".join(variables)
            raise EquationError("there is no variable of this name", line.place, name, expected, hint)
        place = line.place.moved(match[0])
        right, known = line.text[match.end() :], (*variables, *given)
        value = parse(right, known, place, elsewhere=elsewhere, unknown=unknown)
        found.append(Statement(name, Apply(operator, (Name(name), value)) if operator else value))
    if not found:
        raise EquationError("there is no statement", None, expected="such as v = -60")
    return tuple(found)


def _lines(text: str, separators: str = "\n") -> Iterator[_Line]:
    """Yield the lines of a text without comments; one with an open parenthesis goes on in the next."""
    if len(text) > LONGEST:
        raise EquationError(
            "this text is too long", None, f"{len(text):,} characters", f"at most {LONGEST:,}"
        )
    text = re.sub(r"#[^\n]*", lambda comment: " " * len(comment[0]), text)
    start, depth, count = 0, 0, 0
    for number, character in enumerate(f"{text}\n"):
        depth += (character == "(") - (character == ")")
        if number < len(text) and (depth > 0 or character not in separators):
            continue
        part = text[start:number]
        if part.strip():
            count += 1
            yield _Line(part.strip(), Place().moved(text[: start + len(part) - len(part.lstrip())]))
        start, depth = number + 1, 0
        if count > LINES:
            raise EquationError("there are too many lines", None, expected=f"at most {LINES}")


def _head(line: _Line) -> _Head:
    """Return what is on the left of a line, and the rest."""
    for pattern in (_DERIVATIVE, _DEFINITION):
        match = pattern.match(line.text)
        if match is not None:
            place = line.place.moved(line.text[: match.start(1)])
            check_name(match[1], place)
            right = _Line(line.text[match.end() :], line.place.moved(match[0]))
            return _Head(match[1], place, right, pattern is _DERIVATIVE)
    hint = ""
    if re.match(r"\s*[A-Za-z]\w*'\s*=", line.text):
        hint = "derivatives are written dv/dt"
    elif re.search(r"\bd\w+\s*/\s*dt\s*=", line.text):
        hint = "on the left is dv/dt alone: divide the right side by its factor"
    elif found := re.fullmatch(r"\s*([A-Za-z]\w*)\s*:.*", line.text):  # as Brian2 declares a number
        hint = f"numbers are given in `parameters`, inputs in `currents`: {found[1]} needs no line here"
    raise EquationError(
        "this is not an equation", line.place, line.text.strip(), "dv/dt = ... or w = ...", hint
    )


def _derivative(line: _Line, known: Collection[str]) -> Derivative:
    rate, colon, flag = line.text.partition(":")
    if colon and re.fullmatch(_FLAG, flag) is None:
        place = line.place.moved(f"{rate}:{flag[: len(flag) - len(flag.lstrip())]}")
        hint = "equations have no units here" if flag.strip() else ""
        raise EquationError("there is no such flag", place, flag.strip(), "unless refractory", hint)
    if bare := re.search(r"\(?\s*unless\s+refractory\b.*", rate, re.DOTALL):
        raise EquationError(
            "there is no colon before this flag", line.place.moved(rate[: bare.start()]), bare[0].strip(),
            "dv/dt = ... : unless refractory",
        )  # fmt: skip
    noises = dict.fromkeys(found for found in re.findall(r"\bxi\w*\b", rate) if NOISE.fullmatch(found))
    return Derivative(parse(rate, (*known, *noises), line.place), bool(colon))


def _ordered(lines: Mapping[str, _Line]) -> Iterator[tuple[str, _Line]]:
    """Yield definitions in an order in which each uses those before it alone."""
    waiting, done = dict(lines), set[str]()
    while waiting:
        ready = [
            name
            for name, line in waiting.items()
            if not {n for n in re.findall(r"[A-Za-z]\w*", line.text) if n in lines} - done
        ]
        if not ready:
            name, line = next(iter(waiting.items()))
            raise EquationError(
                "definitions depend on each other in a circle", line.place, ", ".join(waiting),
                "each by variables, parameters and others before it",
            )  # fmt: skip
        for name in ready:
            yield name, waiting.pop(name)
            done.add(name)
