"""All problems of a table, those included that others hide."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from pydantic import BaseModel, ValidationError

from petabatch.errors import Problem, meant
from petabatch.spec.describe_type import child, item, model_of, parts_of
from petabatch.spec.problems import KeyPath, dotted, path_of, problems
from petabatch.spec.weights import Initial

_STAND_IN = {"type": "constant", "value": 1.0}
"""An initialiser in the place of one that is wrong."""


class Found(NamedTuple):
    """What is wrong with data."""

    problems: list[Problem]
    """All problems."""
    left: list[Problem]
    """Those of `data`."""
    data: Any
    """The data with misspelt keys and wrong initialisers replaced."""


def all_problems(
    error: ValidationError, model: type[BaseModel], data: Any, context: Mapping[str, Any] | None = None
) -> Found:
    """Return the problems that `error` reports, and those that misspelt keys and wrong initialisers hide.

    A table is checked as a whole, as the equations of a layer are, when each of its values is valid; what
    else it says does not depend on how it starts. A misspelt key is taken for the one that is meant.
    """
    found, repaired, assumed = problems(error, model, data), data, set[str]()
    for detail in error.errors():
        path = path_of(detail["loc"], model, data, detail["type"])
        if (place := _initialiser(path, model, data)) is not None:
            repaired = _with(repaired, place, _STAND_IN)
        elif detail["type"] == "extra_forbidden" and (key := _meant(path, model, data)) is not None:
            table = _at(repaired, path[:-1])
            kept = {name: value for name, value in table.items() if name != path[-1]}
            if key not in kept:
                kept[key] = table[path[-1]]
                assumed.add(dotted((*path[:-1], key)))
            repaired = _with(repaired, path[:-1], kept)
    if repaired is data:
        return Found(found, found, data)
    try:
        model.model_validate(repaired, context=context)
        return Found(found, [], repaired)
    except ValidationError as others:
        left = problems(others, model, repaired)
    told = {problem.key for problem in found} | assumed
    hidden = [one for one in left if not any(f"{one.key}.".startswith(f"{key}.") for key in told)]
    return Found([*found, *hidden], left, repaired)


def _initialiser(path: KeyPath, model: type[BaseModel], data: Any) -> KeyPath | None:
    """Return the part of a path that leads to an initialiser, None if there is none on it."""
    annotation: Any = model
    for depth, part in enumerate(path, 1):
        annotation, data = child(annotation, data, part), item(data, part)
        if Initial in parts_of(annotation):
            return path[:depth]
    return None


def _meant(path: KeyPath, model: type[BaseModel], data: Any) -> str | None:
    """Return the key of its table that an unknown key stands for, None if that is not known."""
    annotation: Any = model
    for part in path[:-1]:
        annotation, data = child(annotation, data, part), item(data, part)
    owner = model_of(annotation, data)
    return None if owner is None or not isinstance(data, dict) else meant(str(path[-1]), owner.model_fields)


def _at(data: Any, path: KeyPath) -> Any:
    for part in path:
        data = item(data, part)
    return data


def _with(data: Any, path: KeyPath, value: Any) -> Any:
    """Return data with another value at a path."""
    if not path:
        return value
    if not isinstance(data, dict):
        return data
    return {**data, path[0]: _with(data.get(path[0], {}), path[1:], value)}
