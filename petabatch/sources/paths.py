"""Input files named by paths, folders, patterns and lists in params files."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from petabatch.errors import InputError
from petabatch.sources.files import path_hint
from petabatch.spec.paths import FilePath, resolve_path

Files = FilePath | Annotated[tuple[FilePath, ...], Field(min_length=1)]
"""One or more paths, folders, patterns or lists: see `find_files`."""


def find_files(files: Files, suffixes: Sequence[str], kind: str) -> list[str]:
    """Return the files that `files` names; of a folder, those with one of the suffixes.

    Raises InputError if one of the entries names no file.
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
            f"    expected: a file, a folder of {kind}, a pattern such as *{suffixes[0]}, "
            f"or a .txt list of these\n"
            f"    hint:     {path_hint()}"
        )
    return found


def _lines(file: Path, suffixes: Sequence[str], kind: str) -> list[str]:
    """Return the files of a list: one entry per line, relative to the list; `#` starts a comment line."""
    try:
        lines = [line.strip() for line in file.read_text().splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: this list of {kind} cannot be read: {error}") from error
    entries = [line for line in lines if line and not line.startswith("#")]
    return [path for entry in entries for path in _find(resolve_path(entry, file.parent), suffixes, kind)]
