"""Errors of HDF5 and JSON in damaged files, as errors that name the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from petabatch.errors import DamagedError, PetabatchError

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
        raise DamagedError(f"{path}: this file is damaged: {error}") from error
