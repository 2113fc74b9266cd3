"""Opening of files that may be damaged or others, with errors that name the file."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py

from petabatch.errors import DamagedError, FormatError, PetabatchError
from petabatch.regular_files import reason, regular
from petabatch.storage import FORMAT

SIMULATOR = "simulator"
"""The kind of a state of a simulator."""
_ERRORS = (
    OSError,
    RuntimeError,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    MemoryError,
)
"""What h5py, numpy and JSON raise for damaged files."""


@contextmanager
def naming_damage(path: Path) -> Iterator[None]:
    """Raise DamagedError in place of what the reading of a damaged file raises."""
    try:
        yield
    except PetabatchError:
        raise
    except _ERRORS as error:
        raise DamagedError(f"{path}: this file cannot be read: {reason(error)}") from error


@contextmanager
def opened(path: Path, kind: str) -> Iterator[Any]:
    """Open an HDF5 file for reading.

    Raises FormatError if it is of another kind or format, DamagedError if what the block reads of it is
    damaged.
    """
    with naming_damage(path), h5py.File(regular(path), "r") as file:
        refuse_others(path, file, kind)
        yield file


def refuse_others(path: Path, file: Any, kind: str) -> None:
    """Raise FormatError unless an open HDF5 file is of this kind, in a format that can be read."""
    found = file.attrs.get("petabatch_format"), file.attrs.get("kind")
    if found[0] != FORMAT or found[1] != kind:
        refuse_state(path)
        raise FormatError(
            f"{path}: not a {kind} file of this version of petabatch\n"
            f"    found:    format {found[0]}, kind {found[1]}\n    expected: format {FORMAT}, kind {kind}"
        )


def refuse_state(path: Path) -> None:
    """Raise FormatError if a file is the state of a simulator; the error names what was changed by hand."""
    try:
        with h5py.File(regular(path), "r") as file:
            if file.attrs.get("kind") != SIMULATOR:
                return
            changes = json.loads(file.attrs["changes"])
    except (OSError, LookupError, ValueError, TypeError):
        return  # it is no such file, or a damaged one
    changed = ", ".join(f"{name} (after step {step})" for name, step in changes.items())
    raise FormatError(
        f"{path}: this is the state of a simulator, which a run cannot go on from\n"
        f"    found:    {f'changed by hand: {changed}' if changed else 'nothing that was changed by hand'}\n"
        "    expected: a run directory, or a checkpoint in one\n"
        "    hint:     petabatch.Simulator(network).load(file) goes on from it"
    )
