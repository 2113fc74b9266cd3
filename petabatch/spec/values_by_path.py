"""Several values of one number, of slices or over time, which a params file has in place of the number."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from typing import Any

_VARIED = {"run": 1, "layers": 2, "connections": 2, "probes": 2}
"""Tables with numbers, and how deep in them numbers are: below the names of layers, connections, probes."""


def values_by_path(data: Mapping[str, Any]) -> Mapping[str, Any]:
    """Move `{ slices = [...] }` and `{ at = [...], values = [...] }` to tables by key path.

    The first value stands in their places.
    """
    found: dict[str, dict[str, Any]] = {"slices": {}, "over_time": {}}
    moved = {
        kind: _single_values(data[kind], kind, found, depth)
        for kind, depth in _VARIED.items()
        if kind in data
    }
    given = {name: _by_path(data[name]) for name in found if isinstance(data.get(name), dict)}
    tables = {name: {**given.get(name, {}), **found[name]} for name in found if name in given or found[name]}
    return {**data, **moved, **tables} if tables else data


def _by_path(table: Mapping[str, Any], path: str = "") -> dict[str, Any]:
    """Return the values of nested tables by key path, as `layers.V1.threshold = [...]` is read."""
    found: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict) and "at" not in value:
            found |= _by_path(value, f"{path}{key}.")
        else:
            found[f"{path}{key}"] = value
    return found


def _single_values(table: Any, path: str, found: dict[str, dict[str, Any]], depth: int) -> Any:
    """Return tables with a number in the place of several; `found` receives those by their paths."""
    if isinstance(table, list | tuple) and any(isinstance(one, dict) for one in table):
        return [_single_values(one, f"{path}.{number}", found, depth - 1) for number, one in enumerate(table)]
    if not isinstance(table, dict):
        return table
    values = table.get("slices")
    if depth <= 0 and table.keys() == {"slices"} and isinstance(values, list | tuple):
        found["slices"][path] = tuple(values)
    elif depth <= 0 and "at" in table and "type" not in table:
        found["over_time"][path], values = table, table.get("values")
    else:
        return {k: _single_values(value, f"{path}.{k}", found, depth - 1) for k, value in table.items()}
    numbers = values if isinstance(values, list | tuple) else ()
    return next((value for value in numbers if type(value) in (int, float) and isfinite(value)), 1.0)
