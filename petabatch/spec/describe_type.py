"""Descriptions of the type a key accepts, from the annotation of its field, and lookup of nested fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Tag

from petabatch.errors import with_article
from petabatch.spec.model import OneOf, Part
from petabatch.spec.schedule import Every

_PLAIN = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "a string",
    Every: "a schedule",
}


class Kind(str):
    """In a path, in place of a key: which of several types a value is, by the tag that pydantic found."""

    __slots__ = ()


def describe_type(annotation: Any) -> str:
    """Return a short description of the values of a type, such as "a whole number"."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if kinds := kinds_of(annotation):
        return " or ".join(map(_by_keys, kinds.values()))
    if origin is Annotated:
        part = _one_of(annotation)
        return f"{with_article(part.base.kind)} table" if part else describe_type(arguments[0])
    if origin in (Union, UnionType):
        return " or ".join(dict.fromkeys(describe_type(one) for one in arguments if one is not NoneType))
    if origin is Literal:
        return ", ".join(map(str, arguments))
    if origin is tuple and arguments[-1] is not ...:
        return f"an array of {len(arguments)} values"
    if origin in (tuple, list):
        return "an array"
    if origin is dict or (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
        return "a table"
    return _PLAIN.get(annotation, "another value")


def model_of(annotation: Any, data: Any) -> type[BaseModel] | None:
    """Return the model of a table, selected by the `type` key in `data` if needed; None if not a table."""
    origin = get_origin(annotation)
    if origin is Annotated:
        part = _one_of(annotation)
        if part is None:
            return model_of(get_args(annotation)[0], data)
        name = data.get("type") if isinstance(data, dict) else None
        return part.base.choices().get(name, part.base) if isinstance(name, str) else part.base
    if origin in (Union, UnionType):
        return next((m for one in get_args(annotation) if (m := model_of(one, data))), None)
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def child(annotation: Any, data: Any, part: str | int) -> Any | None:
    """Return the annotation of a key, an index or a kind `part` of a value, None if there is none."""
    if kinds := kinds_of(annotation):
        return kinds.get(part)
    model = model_of(annotation, data) if isinstance(part, str) else None
    if model is not None:
        field = model.model_fields.get(str(part))
        if field is None:
            return None
        return Annotated[field.annotation, *field.metadata] if field.metadata else field.annotation
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return child(arguments[0], data, part)
    if origin in (Union, UnionType):
        return next((c for one in arguments if (c := child(one, data, part)) is not None), None)
    if origin is dict:
        return arguments[1]
    if origin in (tuple, list) and isinstance(part, int):
        return arguments[part] if part < len(arguments) and arguments[-1] is not ... else arguments[0]
    return None


def parts_of(annotation: Any) -> Iterator[type[Part]]:
    """Yield the base classes of the parts that a value may be."""
    origin = get_origin(annotation)
    if origin is Annotated and (mark := _one_of(annotation)) is not None:
        yield mark.base
    elif origin in (Annotated, Union, UnionType):
        arguments = get_args(annotation)
        for one in arguments[:1] if origin is Annotated else arguments:
            yield from parts_of(one)


def item(data: Any, part: str | int) -> Any:
    """Return the value of `data` at a key or index, None if there is none; of a kind it is `data` itself."""
    if isinstance(part, Kind):
        return data
    if isinstance(data, dict):
        return data.get(part)
    if isinstance(data, (list, tuple)) and isinstance(part, int) and part < len(data):
        return data[part]
    return None


def kinds_of(annotation: Any) -> Mapping[str | int, Any]:
    """Return several types that have tags, by these."""
    if get_origin(annotation) is not Annotated:
        return {}
    types = [one for one in get_args(get_args(annotation)[0]) if get_origin(one) is Annotated]
    return {mark.tag: one for one in types for mark in one.__metadata__ if isinstance(mark, Tag)}


def _by_keys(annotation: Any) -> str:
    """Return a description of the values of one of several types: of a table, its keys."""
    model = model_of(annotation, None)
    return describe_type(annotation) if model is None else f"{{ {', '.join(model.model_fields)} }}"


def _one_of(annotation: Any) -> OneOf | None:
    return next((mark for mark in annotation.__metadata__ if isinstance(mark, OneOf)), None)
