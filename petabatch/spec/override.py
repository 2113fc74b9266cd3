"""Command-line overrides of keys, such as `-s layers.V1.threshold=0.3`."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from typing import Any

from petabatch.errors import Problem, did_you_mean, shortened
from petabatch.spec.syntax import loads

_NAMED = {"layers": "layer", "connections": "connection", "probes": "probe"}


def override(data: dict[str, Any], overrides: Sequence[str]) -> tuple[dict[str, str], list[Problem]]:
    """Set keys in `data`, in place; return what was set (dotted key to text) and the problems found.

    A value is parsed as TOML, or else taken as a bare string. Keys need not be present in the file, but an
    override does not create a layer, connection or probe: an unknown name is taken to be misspelt.
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


def swept(text: str) -> str:
    """Return the override that `--sweep KEY=V,V` stands for; values may be an array or a range in TOML."""
    key, equals, values = text.partition("=")
    values = values.strip()
    return f"sweep.{key}{equals}{values if values[:1] in ('[', '{') else f'[{values}]'}"


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
    target = data
    for depth, table in enumerate(path[:-1], 1):
        inner = target.get(table)
        if inner is None and depth == 2 and path[0] in _NAMED:
            return Problem(
                ".".join(path),
                f"there is no {_NAMED[path[0]]} of this name",
                table,
                ", ".join(target),
                did_you_mean(table, target),
            )
        if inner is None:
            inner = target[table] = {}
        if not isinstance(inner, dict):
            return Problem(".".join(path), f"{'.'.join(path[:depth])} is not a table", repr(inner))
        target = inner
    target[path[-1]] = value
    return None
