"""Paths in params files: relative to these, or else to the working directory."""

from __future__ import annotations

import glob
import os
from typing import Annotated

from pydantic import AfterValidator, ValidationInfo


def beside(path: str, folder: str | os.PathLike[str]) -> str:
    """Return the full path of `path` seen from `folder`, or else from here; as given if nothing is there."""
    for seen in (os.path.abspath(os.path.join(folder, path)), os.path.abspath(path)):
        if os.path.exists(seen) or any(glob.iglob(seen, recursive=True)):
            return seen
    return path


def _locate(path: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return path if folder is None else beside(path, folder)


FilePath = Annotated[str, AfterValidator(_locate)]
"""A path or pattern. Validated with the context `{"folder": ...}` it is looked for in that folder first."""
