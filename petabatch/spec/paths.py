"""Paths in params files, relative to the params file or else to the working directory."""

from __future__ import annotations

import glob
import os
from typing import Annotated, Any, get_args

from pydantic import AfterValidator, BaseModel, ValidationInfo

from petabatch.errors import InputError, Problem


def resolve_path(path: str, folder: str | os.PathLike[str]) -> str:
    """Return the absolute path of a file or pattern, relative to `folder` or else to the working directory.

    A `~` is the home directory. Returns the path otherwise as given if nothing matches.
    """
    path = os.path.expanduser(path)
    for candidate in (os.path.abspath(os.path.join(folder, path)), os.path.abspath(path)):
        if os.path.exists(candidate) or any(glob.iglob(candidate, recursive=True)):
            return candidate
    return path


def _resolve(path: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return os.path.expanduser(path) if folder is None else resolve_path(path, folder)


FilePath = Annotated[str, AfterValidator(_resolve)]
"""A path, also a `pathlib.Path`, or pattern, in which `~` is the home directory. Validated with the context
`{"folder": ...}`, it is searched for in that folder first."""


def file_problem(key: str, table: BaseModel, error: InputError) -> Problem:
    """Return what is wrong with the files that the table at `key` names, with the key that names them."""
    if error.key:
        return Problem(f"{key}.{error.key}", str(error))
    fields = type(table).model_fields.items()
    keys = (name for name, f in fields if _names_files((f.annotation, f.metadata)))
    named = (name for name in keys if getattr(table, name) is not None)
    return Problem(".".join((key, *list(named)[:1])), str(error))


def _names_files(annotation: Any) -> bool:
    """Return whether an annotation contains `FilePath`."""
    if isinstance(annotation, AfterValidator):
        return annotation.func is _resolve
    inside = annotation if isinstance(annotation, (tuple, list)) else get_args(annotation)
    return any(map(_names_files, inside))
