"""Paths in params files, relative to these or else to the working directory, and the files they name."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, ValidationInfo

from petabatch.errors import InputError


def beside(path: str, folder: str | os.PathLike[str]) -> str:
    """Return `path` as seen from `folder` when something is there, else as given."""
    seen = os.path.abspath(os.path.join(folder, path))
    return seen if os.path.exists(seen) or any(glob.iglob(seen, recursive=True)) else path


def _locate(path: str, info: ValidationInfo) -> str:
    folder = (info.context or {}).get("folder")
    return path if folder is None else beside(path, folder)


FilePath = Annotated[str, AfterValidator(_locate)]
"""A path or pattern. Validated with the context `{"folder": ...}` it is looked for in that folder first."""

Files = FilePath | Annotated[tuple[FilePath, ...], Field(min_length=1)]
"""Files by a key: see `listed`."""


def listed(files: Files, suffixes: Sequence[str], kind: str) -> list[str]:
    """Return the files of a kind that `files` names, folders' by their suffix.

    Raises InputError where there are none.
    """
    entries = (files,) if isinstance(files, str) else files
    return [path for entry in entries for path in _find(entry, suffixes, kind)]


def _find(entry: str, suffixes: Sequence[str], kind: str) -> list[str]:
    if os.path.isdir(entry):
        found = [str(p) for p in sorted(Path(entry).iterdir()) if p.suffix.lower() in suffixes]
    elif os.path.exists(entry):
        found = _lines(Path(entry), suffixes, kind) if entry.endswith(".txt") else [entry]
    else:
        found = sorted(glob.glob(entry, recursive=True))
    if not found:
        raise InputError(
            f"{entry}: there are no {kind} here\n"
            f"    expected: a file, a folder of {kind}, a pattern as *{suffixes[0]}, "
            f"or a .txt list of these\n"
            f"    hint:     paths are relative to the params file or to {Path.cwd()}"
        )
    return found


def _lines(file: Path, suffixes: Sequence[str], kind: str) -> list[str]:
    """Return the files of a list: one entry a line, relative to the list; `#` starts a comment line."""
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: this list of {kind} cannot be read: {error}") from error
    entries = [line for line in lines if line and not line.startswith("#")]
    return [path for entry in entries for path in _find(beside(entry, file.parent), suffixes, kind)]
