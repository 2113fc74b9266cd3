"""Translation of pydantic's validation errors into messages for users."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from petabatch.errors import Problem, did_you_mean, nearest, shortened
from petabatch.spec.describe_type import Kind, child, describe_type, item, kinds_of, model_of
from petabatch.spec.docstrings import docstrings
from petabatch.spec.model import Part

_LIMITS = {
    "greater_than": "a value larger than {gt}",
    "greater_than_equal": "a value of at least {ge}",
    "less_than": "a value smaller than {lt}",
    "less_than_equal": "a value of at most {le}",
    "finite_number": "a finite number",
}
_SLICED = ("layers", "connections", "probes")
"""The named tables of a network, whose numbers can have values per slice."""
_NUMBER = re.compile(r"([-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)\s*\*?\s*([A-Za-zµ]*)")
"""A number, and its unit."""
KeyPath = tuple[str | int, ...]


def problems(
    error: ValidationError, model: type[BaseModel], data: Any, ignored: Collection[str] = ()
) -> list[Problem]:
    """Return the problems that `error` reports for `data`, validated by `model`.

    `data` may be None if it is not known, as for a model built in Python. `ignored` are types of errors that
    are left out.
    """
    groups: dict[KeyPath, list[ErrorDetails]] = {}
    for detail in (detail for detail in error.errors() if detail["type"] not in ignored):
        # Missing elements of an array are one problem, of the array.
        short = detail["type"] == "missing" and isinstance(detail["loc"][-1], int)
        loc = detail["loc"][:-1] if short else detail["loc"]
        groups.setdefault(path_of(loc, model, data, detail["type"]), []).append(detail)
    # A value that matches none of several types is reported once, at the deepest key that any of them
    # reached.
    deepest = [path for path in groups if not any(_within(other, path) for other in groups)]
    unknown = [path[:-1] for path in deepest if groups[path][0]["type"] == "type_unknown"]
    found = [_problem(path, each, model, data) for path in deepest for each in _apart(groups[path])]
    return found + [problem for path in unknown for problem in _beside(path, model, data)]


def _apart(details: list[ErrorDetails]) -> list[list[ErrorDetails]]:
    """Return the errors of a key: one by one of a text, else together, as they are about one value."""
    return [[one] for one in details] if {one["type"] for one in details} == {"equation"} else [details]


def _beside(path: KeyPath, model: type[BaseModel], data: Any) -> Iterator[Problem]:
    """Yield the problems of the keys beside an unknown `type`, as those of the nearest type.

    Keys that are missing are none: the type may be another one.
    """
    annotation: Any = model
    for part in path:
        annotation, data = child(annotation, data, part), item(data, part)
    base = model_of(annotation, {})
    choices = base.choices() if base is not None and issubclass(base, Part) else {}
    near = nearest(str(data["type"]), choices) if isinstance(data, dict) else None
    if near is None:
        return
    table = {**data, "type": near}
    try:
        choices[near].model_validate(table)
    except ValidationError as error:
        for problem in problems(error, choices[near], table, ignored=("missing",)):
            yield replace(problem, key=f"{dotted(path)}.{problem.key}")


def dotted(path: KeyPath) -> str:
    """Return a path as it is written, without kinds."""
    return ".".join(str(part) for part in path if not isinstance(part, Kind))


def _within(path: KeyPath, table: KeyPath) -> bool:
    return len(path) > len(table) and path[: len(table)] == table


def path_of(loc: Sequence[str | int], model: type[BaseModel], data: Any, kind: str) -> KeyPath:
    """Return the keys of the file in pydantic's location; tags that pydantic inserts are left out, or kinds.

    The last one is a key: what is wrong with a value as a whole may be that it is not of another kind.
    """
    path: list[str | int] = []
    annotation: Any = model
    for number, part in enumerate(loc):
        inner = child(annotation, data, part)
        if inner is not None:
            path.append(Kind(part) if part in kinds_of(annotation) else part)
            annotation, data = inner, item(data, path[-1])
        elif kind == "extra_forbidden" and number == len(loc) - 1:
            path.append(part)
    if path and isinstance(path[-1], Kind):
        path.pop()
    return (*path, "type") if kind in ("type_unknown", "type_ambiguous") else tuple(path)


def _problem(path: KeyPath, details: list[ErrorDetails], model: type[BaseModel], data: Any) -> Problem:
    # Of several ways to read a value, that of a number beyond its limits: it is a number.
    limited = (one for one in details if one["type"] in _LIMITS)
    detail = next(limited, None) or next(filter(_own_error, details), details[0])
    kind, context = detail["type"], detail.get("ctx", {})
    table: Any = None
    annotation: Any = model
    table_data, value_data = data, data
    for part in path:
        table, table_data = annotation, value_data
        annotation, value_data = child(table, table_data, part), item(table_data, part)
    found = shortened(repr(detail["input"]))
    key, subject = dotted(path), "the value"
    if path and isinstance(path[-1], int):
        key, subject = dotted(path[:-1]), f"value {path[-1]} (from 0) of the array"

    if kind == "extra_forbidden":
        owner = model_of(table, table_data)
        known = list(owner.model_fields) if owner else []
        name = str(path[-1])
        own = _own(name, model, data)
        first = own if len(path) == 1 and f"{name}s" not in known else ""  # a table `layer` is `layers`
        hint = first or did_you_mean(name, known) or own or _elsewhere(name)
        return Problem(key, "there is no such key", name, ", ".join(known), hint)
    if kind == "missing" and isinstance(detail["loc"][-1], int):
        short = "" if value_data is None else shortened(repr(value_data))
        return Problem(key, "the array is too short", short, describe_type(annotation))
    if kind == "missing":
        owner = model_of(table, table_data)
        about = docstrings(owner).get(str(path[-1])) if owner else None
        return Problem(key, "this key is missing", expected=_joined(describe_type(annotation), about))
    if kind == "too_short" and not detail["input"]:
        return Problem(key, "expected at least one value, found none")
    if kind in ("too_short", "too_long"):
        least = "min_length" in context
        limit = (
            f" of at {'least' if least else 'most'} {context['min_length' if least else 'max_length']} values"
        )
        wanted = describe_type(annotation)
        expected = wanted + limit if wanted == "an array" else wanted
        return Problem(key, "the array has the wrong length", found, expected)
    if kind == "not_a_table" and " or " in (either := describe_type(annotation)):
        hint = str(context.get("hint", "")) or _number_in_text(detail["input"])
        return Problem(key, f"{subject} has the wrong type", str(context.get("got", found)), either, hint)
    if _own_error(detail):
        return Problem(
            key,
            detail["msg"],
            str(context.get("got", "" if isinstance(detail["input"], dict) else found)),
            str(context.get("expected", "")),
            str(context.get("hint", "")),
        )
    if kind in ("value_error", "assertion_error"):  # of a plug-in's validator
        return Problem(key, str(context["error"]), "" if isinstance(detail["input"], dict) else found)
    if kind in _LIMITS:
        return Problem(key, f"{subject} is out of range", found, _LIMITS[kind].format(**context))
    if kind == "literal_error":
        choices = [choice.strip(" '") for choice in str(context["expected"]).replace(" or ", ",").split(",")]
        hint = did_you_mean(str(detail["input"]), choices)
        return Problem(key, "this is not one of the choices", found, describe_type(annotation), hint)
    if kind.endswith(("_type", "_parsing", "_from_float")):
        expected = describe_type(annotation)
        several = isinstance(detail["input"], dict | list | tuple)
        hint = _per_slice(path, model) if several and expected == "a number" else ""
        if "number" in expected:
            hint = hint or _number_in_text(detail["input"])
        if expected.startswith("an array of ") and type(detail["input"]) in (int, float):
            hint = f"one for each: [{', '.join([found] * int(expected.split()[3]))}]"
        if expected == "an array" and isinstance(detail["input"], str):
            hint = f"in brackets: [{_toml(detail['input'])}]"
        if expected == "a string" and path:
            about = docstrings(model_of(table, table_data) or model).get(str(path[-1]))
            expected = _joined(expected, about)
        owner = None if several else model_of(annotation, None)
        if owner is not None and kind == "model_type":
            fields = owner.model_fields.items()
            first = next((name for name, one in fields if one.is_required()), next(iter(owner.model_fields)))
            hint = f"a table with its keys: {{ {first} = {_toml(detail['input'])} }}"
        return Problem(key, f"{subject} has the wrong type", found, expected, hint)
    return Problem(key, f"{subject} is not allowed", found, detail["msg"].partition(" should ")[2])


def _number_in_text(value: Any) -> str:
    """Return a hint where a number is given as text, perhaps with a unit."""
    if not isinstance(value, str) or (found := _NUMBER.fullmatch(value.strip())) is None:
        return ""
    unit = "numbers have no units here: times are in that of run.dt, which run.unit names" if found[2] else ""
    return unit or f"without quotes: {found[1]}"


def _toml(value: Any) -> str:
    """Return a plain value as it is written in a params file."""
    return f'"{value}"' if isinstance(value, str) else str(value).lower()


def _own_error(detail: ErrorDetails) -> bool:
    """Return whether an error is petabatch's own, and says what was expected."""
    return detail["type"] != "literal_error" and bool({"expected", "hint"} & detail.get("ctx", {}).keys())


def _per_slice(path: KeyPath, model: type[BaseModel]) -> str:
    """Return a hint at how a number gets a value for each slice, where it can have them."""
    if path[0] in _SLICED:
        return "values per slice are written { slices = [0.3, 0.4] }, one for each slice"
    if issubclass(model, Part) and f"{model.kind}s" in _SLICED:
        key = f"{model.kind}s.NAME.{'.'.join(map(str, path))}"
        return f"values per slice belong to the network: Network(..., slices={{'{key}': (0.3, 0.4)}})"
    return ""


def _own(name: str, model: type[BaseModel], data: Any) -> str:
    """Return a hint at the tables of the same file that have this name or such a key."""
    found = []
    for table in model.model_fields:
        values = item(data, table)
        owner = None if values is None else model_of(child(model, data, table), values)
        if owner is not None and name in owner.model_fields:
            found.append(f"{table}.{name}")
    for kind in _SLICED:
        tables, annotation = item(data, kind), child(model, data, kind)
        for own in tables if isinstance(tables, dict) and annotation is not None else ():
            owner = model_of(child(annotation, tables, own), item(tables, own))
            if own == name:
                found.append(f"{kind}.{own}")
            elif owner is not None and name in owner.model_fields:
                found.append(f"{kind}.{own}.{name}")
    return f"did you mean {' or '.join(found[:3])}?" if found else ""


def _elsewhere(name: str) -> str:
    """Return a hint at the types that have a key of this name."""
    found = {
        base.kind: [kind for kind, part in base.choices().items() if name in part.model_fields]
        for base in Part.__subclasses__()
    }
    owners = [f"{kind} {', '.join(types[:4])}" for kind, types in found.items() if types]
    return f"it is a key of {' and of '.join(owners)}" if owners else ""


def _joined(expected: str, about: str | None) -> str:
    """Return the expected type followed by the description of the key."""
    if not about:
        return expected
    sentence = " ".join(about.split()).rstrip(".")
    return f"{expected}: {sentence[0].lower()}{sentence[1:]}"
