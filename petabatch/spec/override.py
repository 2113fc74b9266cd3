"""Keys set on the command line: `-s layers.V1.threshold=0.3`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from petabatch.errors import Problem, did_you_mean

_NAMED = {"layers": "layer", "connections": "connection", "probes": "probe"}


def override(data: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
    """Set keys in `data`, in place; returns what was set (dotted key to text) and what is wrong with it.

    A value is read as TOML, or else taken as a bare string. Keys need not stand in the file, but a layer,
    connection or probe is not begun by one of its keys: its name is then a misspelt one.
    """
    done: dict[str, str] = {}
    found: list[Problem] = []
    for text in overrides:
        key, equals, value = text.partition("=")
        path = _path(key) if equals else ()
        if not path:
            found.append(
                Problem(
                    "",
                    "this is not an override",
                    f"-s {text}",
                    "key=value",
                    "for example -s layers.V1.threshold=0.3",
                )
            )
            continue
        done[".".join(path)] = text
        problem = _set(data, path, _value(value))
        if problem:
            found.append(problem)
    return done, found


def _path(key: str) -> tuple[str, ...]:
    """Return the parts of a dotted key, which may be quoted; nothing for what is no key."""
    try:
        table: Any = tomllib.loads(f"{key} = 0")
    except tomllib.TOMLDecodeError:
        return ()
    path = []
    while isinstance(table, dict):
        ((name, table),) = table.items()
        path.append(name)
    return tuple(path)


def _value(text: str) -> Any:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _set(data: dict[str, Any], path: tuple[str, ...], value: Any) -> Problem | None:
    place = data
    for depth, table in enumerate(path[:-1], 1):
        inner = place.get(table)
        if inner is None and depth == 2 and path[0] in _NAMED:
            return Problem(
                ".".join(path),
                f"there is no {_NAMED[path[0]]} of this name",
                table,
                ", ".join(place),
                did_you_mean(table, place),
            )
        if inner is None:
            inner = place[table] = {}
        if not isinstance(inner, dict):
            return Problem(".".join(path), f"{'.'.join(path[:depth])} is not a table", repr(inner))
        place = inner
    place[path[-1]] = value
    return None
