"""Paths in params files, relative to the params file or else to the working directory."""

from __future__ import annotations

import glob
import os
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo


def resolve_path(path: str, folder: str | os.PathLike[str]) -> str:
    """Return the absolute path of a file or pattern, relative to `folder` or else to the working directory.

    Returns the path as given if nothing matches.
    """
    for candidate in (os.path.abspath(os.path.join(folder, path)), os.path.abspath(path)):
        if os.path.exists(candidate) or any(glob.iglob(candidate, recursive=True)):
            return candidate
    return path


def _resolve(path: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return path if folder is None else resolve_path(path, folder)


FilePath = Annotated[str, AfterValidator(_resolve)]
"""A path or pattern. Validated with the context `{"folder": ...}`, it is searched for in that folder
first."""
