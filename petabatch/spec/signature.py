"""Signatures of tables in Python: their keys, with types and defaults, short enough to be read."""

from __future__ import annotations

import inspect
from functools import reduce
from operator import or_
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel

if TYPE_CHECKING:
    from pydantic._internal._model_construction import ModelMetaclass
else:
    ModelMetaclass = type(BaseModel)


class Readable(ModelMetaclass):
    """The class of tables, whose signatures are these; pydantic's are pages long."""

    @property
    def __signature__(cls) -> inspect.Signature:
        """The keys, those without a default first."""
        fields: dict[str, Any] = getattr(cls, "model_fields")  # noqa: B009  (mypy knows it of tables alone)
        keys = [_parameter(key, field) for key, field in fields.items() if key != "type"]
        return inspect.Signature(sorted(keys, key=lambda key: key.default is not key.empty))

    @__signature__.setter
    def __signature__(cls, value: object) -> None:
        """Leave pydantic's aside, which it sets when a table is first used."""


def _parameter(key: str, field: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if field.is_required() else field.get_default(call_default_factory=True)
    kind = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(key, kind, default=default, annotation=_plain(field.annotation))


def _plain(annotation: Any) -> Any:
    """Return a type without what pydantic checks of it."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _plain(arguments[0])
    if not arguments or origin is Literal:
        return annotation
    plain = tuple(one if one is ... else _plain(one) for one in arguments)
    return reduce(or_, plain) if origin in (Union, UnionType) else origin[plain]
