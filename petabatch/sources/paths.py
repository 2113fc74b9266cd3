"""Input files named by paths, folders, patterns and lists in params files."""

from __future__ import annotations

import glob
import os
import re
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


def natural(name: str) -> tuple[list[str | int], str]:
    """Return the key that sorts names by the values of the numbers in them: frame_2 before frame_10."""
    parts = re.split("([0-9]+)", name)
    return [int(part) if place % 2 else part for place, part in enumerate(parts)], name


def _find(entry: str, suffixes: Sequence[str], kind: str, where: _Where) -> list[str]:
    """Return the files that an entry names; of several, a missing file is left to its reader."""
    if os.path.isdir(entry):
        ends = tuple(suffixes)
        names = [name for name in os.listdir(entry) if name.lower().endswith(ends) and name[0] != "."]
        found = [os.path.join(entry, name) for name in sorted(names, key=natural)]
    elif os.path.exists(entry):
        found = (
            [entry] if where == "list" or not entry.endswith(".txt") else _lines(Path(entry), suffixes, kind)
        )
    else:
        found = sorted(glob.glob(entry, recursive=True), key=natural)
        if not found and where != "alone" and _suffix(entry) in suffixes and not glob.has_magic(entry):
            return [entry]
    if not found:
        raise InputError(
            f"{entry}: there are no {kind} here\n"
            f"    expected: a file, a folder of {kind}, a pattern such as *{suffixes[0]}, "
            f"or a .txt list of these\n"
            f"    hint:     {_labelled(entry) if where == 'list' else ''}{path_hint()}"
        )
    return found


def _labelled(line: str) -> str:
    """Return a hint if a line of a list is a file with something behind it, such as a label."""
    path, *rest = re.split(r"[\s,;]+", line.strip())
    return f"{path} is there: the list has paths alone, no labels; " if rest and os.path.exists(path) else ""


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
