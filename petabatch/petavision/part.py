"""A group of a parameter file while it is translated: its values by type, and what is to be said of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from petabatch.errors import Problem, did_you_mean
from petabatch.petavision.grammar import Entry, Group, Place, problem
from petabatch.petavision.keys import CLASSES, REQUIRED, Class, Key

T = TypeVar("T")


class Refused(Exception):
    """A group that cannot be translated; `problem` says why, with its line."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        super().__init__(problem.message)


class Part:
    """A group, its class, and which of its parameters have been read."""

    def __init__(self, group: Group, renamed: str = "") -> None:
        self.group = group
        self.name = group.name
        self.title = group.title or group.name
        """Its name in PetaVision, as its files have it."""
        self.keyword = group.keyword
        self.kind: Class = CLASSES[group.keyword]
        self.read: set[str] = set()
        self.becomes: list[str] = []
        """Tables of the params file that it has become."""
        self.differences: list[str] = []
        """Rules that differ, for the report and as comments."""
        self.left_out: list[str] = []
        """What nothing in petabatch corresponds to, and changes no number."""
        if renamed:
            self.left_out.append(f"{renamed} is the former name of {group.keyword}")

    def place(self, key: str = "") -> Place:
        """Return the place of a parameter, or of the group."""
        entry = self.group.entries.get(key)
        return self.group.place if entry is None else entry.place

    def refuse(self, key: str, message: str, found: str = "", expected: str = "", hint: str = "") -> NoReturn:
        """Raise Refused with the place of a parameter."""
        where = f"{self.name}.{key}" if key else self.name
        raise Refused(problem(self.place(key), message, where, found=found, expected=expected, hint=hint))

    def differs(self, text: str) -> None:
        """Note a rule that differs from PetaVision's."""
        if text not in self.differences:
            self.differences.append(text)

    def idle(self, key: str, why: str) -> None:
        """Note that a parameter that is given, other than its default, has no effect."""
        entry, spec = self.group.entries.get(key), self.kind.keys.get(key)
        if entry is not None and spec is not None and _unusual(entry, spec):
            self.left_out.append(f"{key}: {why}")
            self.read.add(key)

    def given(self, key: str) -> bool:
        """Return whether the file has a parameter, other than as NULL."""
        entry = self.group.entries.get(key)
        return entry is not None and entry.value is not None

    def _value(self, key: str, kind: str) -> Any:
        spec = self.kind.keys[key]
        assert spec.kind == kind, key
        self.read.add(key)
        entry = self.group.entries.get(key)
        if entry is None or (entry.value is None and spec.default is not REQUIRED):
            if spec.default is REQUIRED:
                self.refuse(key, f"the parameter {key} is missing")
            return spec.default
        return _typed(self, key, spec, entry)

    def optional_number(self, key: str) -> float | None:
        """Return a number, None where it is missing and has no default."""
        found: float | None = self._value(key, "number")
        return found

    def number(self, key: str) -> float:
        """Return a number."""
        found = self.optional_number(key)
        if found is None:
            self.refuse(key, f"the parameter {key} is missing")
        return found

    def finite(self, key: str) -> float:
        """Return a number that is not infinite."""
        found = self.number(key)
        if math.isinf(found):
            self.refuse(key, "this number is infinite", expected="a finite number")
        return found

    def optional_whole(self, key: str) -> int | None:
        """Return an integer, None where it is missing and has no default."""
        found: int | None = self._value(key, "whole")
        return found

    def whole(self, key: str) -> int:
        """Return an integer."""
        found = self.optional_whole(key)
        assert found is not None
        return found

    def flag(self, key: str) -> bool:
        """Return whether a parameter is true."""
        return bool(self._value(key, "flag"))

    def optional_text(self, key: str) -> str | None:
        """Return a text, None where it is NULL or missing."""
        found: str | None = self._value(key, "text")
        return found or None

    def text(self, key: str) -> str:
        """Return a text that is not empty."""
        found = self.optional_text(key)
        if found is None:
            self.refuse(key, f"the parameter {key} is missing")
        return found

    def numbers(self, key: str) -> tuple[float, ...]:
        """Return an array, empty where it is missing."""
        return tuple(self._value(key, "numbers") or ())

    def choice(self, key: str, choices: Mapping[str, T], instead: Mapping[str, str] | None = None) -> T:
        """Return what a text, in letters of any case, stands for; `instead` has hints for others."""
        found = self.optional_text(key) or ""
        known = {name.lower(): value for name, value in choices.items()}
        if found.lower() not in known:
            names = ", ".join(name or '""' for name in choices)
            hint = (instead or {}).get(found) or did_you_mean(found, choices)
            self.refuse(key, "this value is not supported", f'"{found}"', names, hint)
        return known[found.lower()]

    def only(self, key: str, hint: str = "") -> None:
        """Raise Refused if a parameter does not have its default value."""
        spec = self.kind.keys[key]
        value = self._value(key, spec.kind)
        if value != spec.default:
            self.refuse(key, "this is not supported", found=f"{key} = {_shown(value)}", hint=hint)

    def unread(self) -> list[str]:
        """Return what is to be said of the parameters that were not needed."""
        lines: list[str] = []
        idle: dict[str, list[str]] = {}
        for key, entry in self.group.entries.items():
            spec = self.kind.keys.get(key)
            if spec is None:
                lines.append(f"{key}: {self.keyword} has no such parameter{_hint(key, self.kind)}")
            elif _unusual(entry, spec) and not spec.becomes:
                idle.setdefault(spec.why, []).append(key)
            elif _unusual(entry, spec) and key not in self.read:
                lines.append(f"{key}: not read by PetaVision either, with the other parameters as they are")
        return [*lines, *(f"{', '.join(keys)}: {why}" for why, keys in idle.items())]


def _hint(key: str, kind: Class) -> str:
    hint = did_you_mean(key, kind.keys)
    return f"; {hint}" if hint else ""


def _unusual(entry: Entry, spec: Key) -> bool:
    """Return whether a parameter has a value other than its default."""
    return entry.value is not None and not _same(entry.value, spec.default)


def _same(found: object, default: object) -> bool:
    if isinstance(found, tuple) or isinstance(default, tuple):
        pair = [value if isinstance(value, tuple) else (value,) for value in (found, default)]
        return pair[0] == pair[1]
    return found == default


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f'"{value}"' if isinstance(value, str) else str(value)


def _typed(part: Part, key: str, spec: Key, entry: Entry) -> Any:
    """Return a value as the type of its parameter; raises Refused if it is of another."""
    value = entry.value
    if isinstance(value, tuple) and spec.kind != "numbers" and len(value) == 1:
        value = value[0]
    if spec.kind == "numbers":
        values = value if isinstance(value, tuple) else (value,)
        if all(isinstance(one, float) for one in values):
            return values
    elif spec.kind == "text":
        if isinstance(value, str):
            return value
    elif spec.kind == "flag":
        if isinstance(value, bool) or value in (0.0, 1.0):
            return bool(value)
    elif isinstance(value, float | bool):
        number = float(value)
        if math.isnan(number):
            part.refuse(key, "this is not a number")
        if spec.kind == "number":
            return number
        if number.is_integer() and abs(number) < 2**53:
            return int(number)
    expected = {
        "number": "a number",
        "whole": "an integer",
        "flag": "true or false",
        "text": "a text in quotes",
        "numbers": "an array of numbers",
    }[spec.kind]
    return part.refuse(key, "this value has another type", found=_shown(value), expected=expected)
