"""Command-line overrides of keys, such as `-s layers.V1.threshold=0.3`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Sequence
from typing import Any

from petabatch.errors import ParamsError, Problem, did_you_mean, shortened
from petabatch.spec.syntax import loads

_RANGE = re.compile(r"[\w.]+\(.*\)|[^,\[{]+:.+")
"""What other languages write for evenly spaced values: `linspace(0, 1, 5)` or `0:1:5`."""
_NAMED = {"layers": "layer", "connections": "connection", "probes": "probe"}


def override(data: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
    """Set keys in `data`, in place; return what was set (dotted key to text) and the problems found.

    A value is parsed as TOML, or else taken as a bare string. Keys need not be present in the file, but an
    override does not create a layer, connection or probe: an unknown name is taken to be misspelt. Tables of
    an array have their places in it for names, from 0, as in `layers.image.source.transforms.0.std`.
    """
    done: dict[str, str] = {}
    found: list[Problem] = []
    for text in (overrides,) if isinstance(overrides, str) else overrides:
        key, equals, value = text.partition("=")
        path = _path(key) if equals else ()
        if not path:
            found.append(
                Problem(
                    "",
                    "this is not an override",
                    f"-s {shortened(text)}",
                    "key=value",
                    "for example, -s layers.V1.threshold=0.3",
                )
            )
            continue
        done[".".join(path)] = text
        problem = _set(data, path, _value(value))
        if problem:
            found.append(problem)
    return done, found


def swept(texts: Sequence[str]) -> list[str]:
    """Return the overrides that `--sweep KEY=V,V` stand for; values may be an array or a range in TOML.

    Raises ParamsError where one is not of this form, or its key has been given before.
    """
    found: dict[str, str] = {}
    problems = []
    for text in texts:
        key, _, values = (part.strip() for part in text.partition("="))
        path = ".".join(_path(key))
        given = values if values[:1] in ("[", "{") else f"[{values}]"
        if path.partition(".")[0] not in ("run", *_NAMED) or not _is_array(given):
            expected = "KEY=VALUE,VALUE, with a key of layers, connections, probes or run, and numbers"
            hint = "for example, --sweep layers.V1.threshold=0.3,0.4"
            if _RANGE.fullmatch(values):
                hint = f"evenly spaced: --sweep '{key}={{ start = 0.0, stop = 1.0, count = 5 }}'"
            problems.append(Problem("", "this is not a sweep", f"--sweep {shortened(text)}", expected, hint))
        elif path in found:
            problems.append(
                Problem("", "this key is swept twice", f"--sweep {shortened(text)}", "all its values in one")
            )
        found[path] = f"sweep.{key}={given}"
    if problems:
        raise ParamsError(problems, "command line")
    return list(found.values())


def _is_array(text: str) -> bool:
    """Return whether a text is an array of numbers, or a table, in TOML."""
    values = _value(text)
    return isinstance(values, dict) or (
        isinstance(values, list) and values != [] and all(isinstance(value, int | float) for value in values)
    )


def _path(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, which may be quoted; an empty tuple if it is not a key."""
    try:
        table: Any = loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    path = []
    while isinstance(table, dict):
        ((name, table),) = table.items()
        path.append(name)
    return tuple(path)


def _value(text: str) -> Any:
    try:
        return loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set(data: dict[str, Any], path: tuple[str, ...], value: Any) -> Problem | None:
    target: Any = data
    for depth, table in enumerate(path[:-1], 1):
        key, inner = ".".join(path[:depth]), _inner(target, table)
        if inner is None and depth == 2 and path[0] in _NAMED:
            return Problem(
                ".".join(path),
                f"there is no {_NAMED[path[0]]} of this name",
                table,
                ", ".join(target),
                did_you_mean(table, target),
            )
        if inner is None and isinstance(target, list):
            expected = f"a number up to {len(target) - 1}, from 0"
            return Problem(".".join(path), "this array has no such place", table, expected)
        if inner is None:
            inner = target[table] = {}
        if isinstance(inner, tuple) and isinstance(target, dict):  # of a network in Python
            inner = target[table] = list(inner)
        is_place = isinstance(inner, list) and any(isinstance(one, dict) for one in inner)
        if not (isinstance(inner, dict) or (is_place and depth < len(path) - 1)):
            return Problem(".".join(path), f"{key} is not a table", repr(inner))
        target = inner
    target[path[-1]] = value
    return None


def _inner(table: Any, key: str) -> Any:
    """Return what a key of a table or a place in an array of tables leads to, None where there is nothing."""
    if isinstance(table, list):
        return table[int(key)] if key.isdecimal() and int(key) < len(table) else None
    return table.get(key)
