"""Docstrings of the keys of a table, read from its source only when somebody asks for them.

pydantic's `use_attribute_docstrings` parses the source of every model on import, which takes longer than all
else that an import does.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

from pydantic import BaseModel


@cache
def docstrings(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the docstrings of the keys of a table, with inherited ones.

    A class that declares a key again describes it again, or not at all.
    """
    found: dict[str, str] = {}
    for cls in reversed(model.__mro__):
        if issubclass(cls, BaseModel) and cls is not BaseModel:
            declared = inspect.get_annotations(cls)
            found = {key: text for key, text in found.items() if key not in declared} | _own(cls)
    return {key: text for key, text in found.items() if key in model.model_fields}


@cache
def _own(cls: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings, or the descriptions, of the keys that a class itself declares."""
    fields = {key: cls.model_fields[key] for key in inspect.get_annotations(cls) if key in cls.model_fields}
    given = {key: field.description for key, field in fields.items() if field.description}
    return {**given, **dict(_described(cls))}


def _described(cls: type) -> Iterator[tuple[str, str]]:
    try:
        source = textwrap.dedent(inspect.getsource(cls))
    except (OSError, TypeError):  # defined at a prompt, for example
        return
    body = ast.parse(source).body[0]
    if not isinstance(body, ast.ClassDef):
        return
    for declared, after in pairwise(body.body):
        if (
            isinstance(declared, ast.AnnAssign)
            and isinstance(declared.target, ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
            and isinstance(after.value.value, str)
        ):
            yield declared.target.id, inspect.cleandoc(after.value.value)
