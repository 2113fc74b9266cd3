"""The grammar of PetaVision's parameter files: groups of parameters, sweeps, includes.

    HyPerCol "column" = { nx = 32; dt = 1.0; };
    ANNLayer "copy" = { #include "other"; @phase = 2; };
    ParameterSweep "copy":phase = { 1; 2; 3; };

Source: PetaVision's `io/parser/params.l` and `params.y`.
"""

from __future__ import annotations

import math
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from petabatch.errors import ParamsError, Problem, did_you_mean, shortened

Value = float | str | bool | None | tuple[float, ...] | tuple[str, ...]
"""A number (also `infinity`), a text, a flag, NULL, or an array."""

_TOKEN = re.compile(
    r"""
      (?P<blank>[\s\ufeff]+ | //?[^\n]*)
    | (?P<include>\#include\b)
    | (?P<number>[-+]?(?:\d|\.\d)(?:[eE][-+]|[\w.])*)
    | (?P<word>[-+]?[A-Za-z_]\w*)
    | (?P<text>"[^"\n]*")
    | (?P<sign>\+=|[={};:,@[\]])
    | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?[fF]?", re.ASCII)
_MORE_DOTS = re.compile(rf"({_NUMBER.pattern})(\.+)", re.ASCII)
"""Numbers such as `0.0.`, whose last dot PetaVision's scanner ignores, as other characters without a rule."""
_WORDS: dict[str, float | bool | None] = {"true": True, "false": False, "null": None} | {
    sign + word: math.copysign(math.inf, -1 if sign == "-" else 1)
    for sign in ("", "+", "-")
    for word in ("infinity", "inf")
}
_MOST = 1 << 24
"""Characters of a file; the largest ones have some ten thousand."""


@dataclass(frozen=True)
class Place:
    """A place in the file, both numbers from 1."""

    line: int
    column: int


@dataclass(frozen=True)
class Entry:
    """The value of a parameter, and where it is."""

    value: Value
    place: Place


@dataclass(frozen=True)
class Group:
    """A group of parameters: an object of the class `keyword`."""

    keyword: str
    name: str
    entries: Mapping[str, Entry]
    place: Place
    title: str = ""
    """Its name in the file, where it has another one here."""


@dataclass(frozen=True)
class ParamsFile:
    """What a parameter file contains."""

    file: str
    groups: Mapping[str, Group]
    sweeps: Mapping[tuple[str, str], tuple[Entry, ...]] = field(default_factory=dict)
    """Values of swept parameters, by group and parameter."""
    ignored: Sequence[tuple[str, Place]] = ()
    """Characters that PetaVision ignores."""
    notes: Sequence[str] = ()
    """What is to be said of the file as a whole."""
    written: str = ""
    """The file that a file in Lua writes it to."""

    def error(self, place: Place, message: str, **more: str) -> ParamsError:
        """Return the error at a place of this file."""
        return ParamsError([problem(place, message, **more)], self.file)


def problem(place: Place, message: str, key: str = "", **more: str) -> Problem:
    """Return the problem at a place of a file."""
    return Problem(key, f"column {place.column}: {message}", line=place.line, **more)


def parse(text: str, file: str) -> ParamsFile:
    """Return the groups of a parameter file; raises ParamsError with line and column of the first error."""
    if len(text) > _MOST:
        raise ParamsError([Problem("", "this file is too large to be a parameter file")], file)
    return _Parser(text, file).parse()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    at: int


def _dots(number: str) -> int:
    """Return how many dots after a number are no part of it."""
    found = None if _NUMBER.fullmatch(number) else _MORE_DOTS.fullmatch(number)
    return 0 if found is None else len(found[2])


class _Parser:
    def __init__(self, text: str, file: str) -> None:
        self.text, self.file = text, file
        self.ignored: list[tuple[str, Place]] = []
        self.starts = [0, *(match.end() for match in re.finditer("\n", text))]
        self.tokens = self._scan()
        self.ahead = next(self.tokens)
        self.groups: dict[str, Group] = {}
        self.sweeps: dict[tuple[str, str], tuple[Entry, ...]] = {}

    def _scan(self) -> Iterator[_Token]:
        for match in _TOKEN.finditer(self.text):
            kind = match.lastgroup or ""
            if kind == "other" and match[0] == '"':
                raise self._error("this text has no end", match.start(), expected='" on the same line')
            if kind == "other":
                self.ignored.append((match[0], self._place(match.start())))
            elif kind == "number" and (dots := _dots(match[0])):
                yield _Token(kind, match[0][:-dots], match.start())
                self.ignored += [(".", self._place(at)) for at in range(match.end() - dots, match.end())]
            elif kind != "blank":
                yield _Token(kind, match[0], match.start())
        yield _Token("end", "the end of the file", len(self.text))

    def _place(self, at: int) -> Place:
        line = bisect_right(self.starts, at)
        return Place(line, at - self.starts[line - 1] + 1)

    def _error(
        self, message: str, at: int, found: str = "", expected: str = "", hint: str = ""
    ) -> ParamsError:
        more = {"found": shortened(found), "expected": expected, "hint": hint}
        return ParamsError([problem(self._place(at), message, **more)], self.file)

    def _next(self) -> _Token:
        token = self.ahead
        if token.kind != "end":
            self.ahead = next(self.tokens)
        return token

    def _want(self, kind: str, text: str, expected: str) -> _Token:
        token = self._next()
        if token.kind != kind or (text and token.text != text):
            raise self._error("this is not what the grammar has here", token.at, token.text, expected)
        return token

    def _sign(self, sign: str, expected: str = "") -> None:
        self._want("sign", sign, expected or sign)

    def parse(self) -> ParamsFile:
        while self.ahead.kind != "end":
            word = self._want("word", "", 'a class of objects, as in ANNLayer "name" = { ... };')
            if self.ahead.text == "=":
                self._next()
                self._value()  # debugParsing and disable, of the file as a whole
                self._sign(";", "; after the value")
            elif word.text in ("ParameterSweep", "BatchSweep"):
                self._sweep(word)
            else:
                self._group(word)
        return ParamsFile(self.file, self.groups, self.sweeps, tuple(self.ignored))

    def _name(self) -> _Token:
        token = self._want("text", "", "a name in quotes")
        return _Token("text", token.text[1:-1], token.at)

    def _group(self, word: _Token) -> None:
        name = self._name()
        if name.text in self.groups:
            first = self.groups[name.text].place.line
            raise self._error(
                "two groups have the same name", name.at, name.text, f"another than in line {first}"
            )
        self._sign("=")
        self._sign("{")
        entries: dict[str, Entry] = {}
        copied: set[str] = set()
        while self.ahead.text != "}":
            if self.ahead.kind == "include":
                copied |= self._include(word, entries)
                continue
            again = self.ahead.text == "@"
            if again:
                self._next()
            key = self._want("word", "", "a parameter, as in nx = 32;, or } at the end of the group")
            if again and key.text not in entries:
                hint = did_you_mean(key.text, entries)
                raise self._error(
                    "this parameter is in no group that is included", key.at, key.text, hint=hint
                )
            if not again and key.text in entries:
                hint = f"@{key.text} replaces what an include has brought" if key.text in copied else ""
                raise self._error("this parameter is given twice", key.at, key.text, hint=hint)
            self._sign("=", "= after the name of a parameter")
            entries[key.text] = Entry(self._value(), self._place(key.at))
            self._sign(";", "; after the value")
        self._sign("}")
        self._sign(";", "; after the } of a group")
        self.groups[name.text] = Group(word.text, name.text, entries, self._place(word.at))

    def _include(self, word: _Token, entries: dict[str, Entry]) -> set[str]:
        self._next()
        name = self._name()
        if self.ahead.text == ";":
            self._next()
        group = self.groups.get(name.text)
        if group is None:
            hint = did_you_mean(name.text, self.groups)
            raise self._error("there is no group of this name before it", name.at, name.text, hint=hint)
        if group.keyword != word.text:
            raise self._error("the included group is of another class", name.at, group.keyword, word.text)
        if twice := group.entries.keys() & entries.keys():
            raise self._error("an include comes before the parameters of a group", name.at, min(twice))
        entries.update(group.entries)
        return set(group.entries)

    def _sweep(self, word: _Token) -> None:
        name = self._name()
        self._sign(":", ': between group and parameter, as in ParameterSweep "V1":VThresh = { 1; 2; };')
        key = self._want("word", "", "the name of a parameter")
        if (name.text, key.text) in self.sweeps:
            raise self._error("this parameter is swept twice", key.at, f"{name.text}:{key.text}")
        self._sign("=")
        self._sign("{")
        values = []
        while self.ahead.text != "}":
            at = self.ahead.at
            values.append(Entry(self._value(), self._place(at)))
            self._sign(";", "; after the value")
        self._sign("}")
        self._sign(";", "; after the } of a sweep")
        if not values:
            raise self._error("this sweep has no values", word.at)
        lengths = {len(others): where for where, others in self.sweeps.items()}
        if lengths and len(values) not in lengths:
            ((count, where),) = lengths.items()
            raise self._error(
                "sweeps have different numbers of values",
                word.at,
                str(len(values)),
                f"{count}, as of {where[0]}:{where[1]}",
            )
        self.sweeps[name.text, key.text] = tuple(values)

    def _value(self) -> Value:
        if self.ahead.kind == "sign" and self.ahead.text == "[":
            return self._array(self._next())
        return self._single()

    def _single(self) -> float | str | bool | None:
        token = self._next()
        if token.kind == "number" and _NUMBER.fullmatch(token.text):
            return float(token.text.rstrip("fF"))
        if token.kind == "text":
            return token.text[1:-1]
        if token.kind == "word" and token.text.lower() in _WORDS:
            return _WORDS[token.text.lower()]
        expected = 'a number, true, false, infinity, NULL, "text", or [numbers]'
        raise self._error("this is not a value", token.at, token.text, expected)

    def _array(self, start: _Token) -> tuple[float, ...] | tuple[str, ...]:
        values: list[float | str | bool | None] = []
        while self.ahead.text != "]":
            values.append(self._single())
            if self.ahead.text != "]":
                self._sign(",", ", or ] in an array")
        self._next()
        if all(type(value) is float for value in values):
            return tuple(value for value in values if type(value) is float)
        texts = tuple(value for value in values if isinstance(value, str))
        if len(texts) < len(values):
            raise self._error("this array is not one of numbers", start.at)
        return texts
