"""From pydantic's findings to the problems a user reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from petabatch.errors import Problem, did_you_mean
from petabatch.spec.model import OneOf, Part

_LIMITS = {
    "greater_than": "a value larger than {gt}",
    "greater_than_equal": "a value of at least {ge}",
    "less_than": "a value smaller than {lt}",
    "less_than_equal": "a value of at most {le}",
}
_TYPES = {
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "string": "a string",
    "tuple": "an array",
    "list": "an array",
    "dict": "a table",
    "model": "a table",
}


def problems(error: ValidationError, model: type[BaseModel], data: Any) -> list[Problem]:
    """Return what `error` found in `data`, validated by `model`, in plain words."""
    found: list[Problem] = []
    for detail in error.errors():
        problem = _problem(detail, model, data)
        # One value that fits none of several types is one problem, not one for each type.
        if not any(other.key == problem.key for other in found):
            found.append(problem)
    return found


def _problem(detail: ErrorDetails, model: type[BaseModel], data: Any) -> Problem:
    kind, context = detail["type"], detail.get("ctx", {})
    path = _existing(detail["loc"], data, missing=kind == "missing")
    key = ".".join(path)
    if kind == "extra_forbidden":
        known = list(_fields(model, path[:-1], data))
        return Problem(
            key,
            "there is no such key",
            found=path[-1],
            expected=", ".join(known),
            hint=did_you_mean(path[-1], known),
        )
    if kind == "missing" and path[-1].isdigit():
        return Problem(".".join(path[:-1]), "the array is too short", expected=f"more than {path[-1]} values")
    if kind == "missing":
        field = _fields(model, path[:-1], data).get(path[-1])
        return Problem(key, "this key is missing", expected=(field.description or "") if field else "")
    value = repr(detail["input"])
    found = value if len(value) <= 80 else f"{value[:77]}..."
    if kind in _LIMITS:
        return Problem(key, "the value is out of range", found, _LIMITS[kind].format(**context))
    if kind == "finite_number":
        return Problem(key, "the value is out of range", found, "a finite number")
    if kind == "literal_error":
        choices = [choice.strip(" '") for choice in str(context["expected"]).replace(" or ", ",").split(",")]
        return Problem(
            key,
            "this is not one of the choices",
            found,
            ", ".join(choices),
            did_you_mean(str(detail["input"]), choices),
        )
    if kind in ("too_short", "too_long", "missing_positional_only_argument"):
        return Problem(
            key,
            "the array has the wrong length",
            found,
            f"{context.get('max_length', context.get('min_length'))} values",
        )
    if "expected" in context or "hint" in context:  # errors of our own
        return Problem(
            key,
            detail["msg"],
            str(context.get("got", "" if isinstance(detail["input"], dict) else found)),
            str(context.get("expected", "")),
            str(context.get("hint", "")),
        )
    if kind == "int_from_float":
        return Problem(key, "the value has the wrong type", found, "a whole number")
    return Problem(key, "the value has the wrong type", found, _TYPES.get(kind.split("_")[0], detail["msg"]))


def _existing(loc: Iterable[Any], data: Any, missing: bool) -> tuple[str, ...]:
    """Return the part of pydantic's location that are keys of the file, without its own type tags."""
    path: list[str] = []
    parts = list(loc)
    for index, part in enumerate(parts):
        if isinstance(data, dict) and part in data:
            data = data[part]
        elif isinstance(data, (list, tuple)) and isinstance(part, int):
            data = data[part] if part < len(data) else None
        elif not (missing and index == len(parts) - 1):
            continue
        path.append(str(part))
    return tuple(path)


def _fields(model: type[BaseModel], path: tuple[str, ...], data: Any) -> dict[str, Any]:
    """Return the fields of the table at `path`."""
    fields: dict[str, Any] = dict(model.model_fields)
    for key in path:
        data = data.get(key) if isinstance(data, dict) else None
        if fields is None:
            return {}
        if key in fields:
            annotation, metadata = fields[key].annotation, fields[key].metadata
            if _named_tables(annotation):
                fields = {"": annotation}
                continue
            fields = _table(annotation, metadata, data)
        elif "" in fields:
            fields = _table(get_args(fields[""])[1], (), data)
        else:
            return {}
    return fields if "" not in fields else {}


def _named_tables(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) is dict


def _table(annotation: Any, metadata: Iterable[Any], data: Any) -> dict[str, Any]:
    """Return the fields of one table, whose class may depend on its `type` key."""
    for candidate in (annotation, *metadata, *_flat(annotation)):
        if isinstance(candidate, OneOf):
            part = candidate.base.choices().get(data.get("type", "")) if isinstance(data, dict) else None
            return dict(part.model_fields) if part else {}
    for candidate in (annotation, *_flat(annotation)):
        if (
            isinstance(candidate, type)
            and issubclass(candidate, BaseModel)
            and not issubclass(candidate, Part)
        ):
            return dict(candidate.model_fields)
    return {}


def _flat(annotation: Any) -> Iterable[Any]:
    for argument in (*get_args(annotation), *getattr(annotation, "__metadata__", ())):
        yield argument
        yield from _flat(argument)
