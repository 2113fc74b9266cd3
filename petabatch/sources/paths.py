"""Input files named by paths, folders, patterns and lists in params files."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from petabatch.errors import InputError
from petabatch.regular_files import read_text, reason
from petabatch.sources.files import path_hint
from petabatch.spec.paths import FilePath, resolve_path

Files = FilePath | Annotated[tuple[FilePath, ...], Field(min_length=1)]
"""One or more paths, folders, patterns or lists: see `find_files`."""
_Where = Literal["alone", "array", "list"]
"""Where an entry stands."""


def find_files(files: Files, suffixes: Sequence[str], kind: str) -> list[str]:
    """Return the files that `files` names; of a folder, those with one of the suffixes.

    Raises InputError if one of the entries names no file.
    """
    entries = (files,) if isinstance(files, str) else files
    where: _Where = "array" if len(entries) > 1 else "alone"
    return [path for entry in entries for path in _find(entry, suffixes, kind, where)]


def _find(entry: str, suffixes: Sequence[str], kind: str, where: _Where) -> list[str]:
    """Return the files that an entry names; of several, a missing file is left to its reader."""
    if os.path.isdir(entry):
        ends = tuple(suffixes)
        names = sorted(name for name in os.listdir(entry) if name.lower().endswith(ends) and name[0] != ".")
        found = [os.path.join(entry, name) for name in names]
    elif os.path.exists(entry):
        found = (
            [entry] if where == "list" or not entry.endswith(".txt") else _lines(Path(entry), suffixes, kind)
        )
    else:
        found = sorted(glob.glob(entry, recursive=True))
        if not found and where != "alone" and _suffix(entry) in suffixes and not glob.has_magic(entry):
            return [entry]
    if not found:
        raise InputError(
            f"{entry}: there are no {kind} here\n"
            f"    expected: a file, a folder of {kind}, a pattern such as *{suffixes[0]}, "
            f"or a .txt list of these\n"
            f"    hint:     {path_hint()}"
        )
    return found


def _lines(file: Path, suffixes: Sequence[str], kind: str) -> list[str]:
    """Return the files of a list: one entry per line, relative to the list; `#` starts a comment line."""
    try:
        lines = [line.strip() for line in read_text(file).splitlines()]
        if any("\0" in line for line in lines):
            raise ValueError("it is not a text file")
    except (OSError, ValueError) as error:
        raise InputError(f"{file}: this list of {kind} cannot be read: {reason(error)}") from error
    named = (resolve_path(line, file.parent) for line in lines if line and not line.startswith("#"))
    entries = [os.path.join(file.parent, path) for path in named]
    try:
        return [path for entry in entries for path in _find(entry, suffixes, kind, "list")]
    except InputError as error:
        raise InputError(f"{file}: {error}") from None


def _suffix(name: str) -> str:
    return os.path.splitext(name)[1].lower()
