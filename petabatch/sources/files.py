"""Array files: `.npy` files and datasets of HDF5 files; names and errors of others."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from tokenize import TokenError
from types import MappingProxyType
from typing import Any, BinaryIO

import numpy as np

from petabatch.errors import InputError, did_you_mean, similar_path
from petabatch.regular_files import open_regular, reason, regular
from petabatch.sources.shared import shared_handle

HDF5_ERRORS = (OSError, RuntimeError, KeyError, ValueError, TypeError)
"""What h5py raises for damaged files."""
NPY_ERRORS = (OSError, ValueError, EOFError, TypeError, SyntaxError, OverflowError, MemoryError, TokenError)
"""What numpy raises for damaged `.npy` files."""
MOST_BYTES = 1 << 32
"""Bytes that are decompressed or loaded from a file into memory at most."""
MOST_MISSING = 1 << 20
"""Images that a file may lack at its end; beyond, its header is not believed."""
_HDF5, _NPY = "a complete HDF5 file", "a complete .npy file of numbers"
TEXT, NPY, ZIP, MAT, HDF5 = "a text file", "a .npy file", "a .npz file", "a .mat file", "an HDF5 file"
_BEGINNINGS = {
    b"\x93NUMPY": NPY,
    b"PK\3\4": ZIP,
    b"PK\5\6": ZIP,
    b"\x89HDF\r\n": HDF5,
    b"\x1f\x8b": "a gzipped file",
    b"MATLAB": MAT,
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"%%MatrixMarket": "a file of Matrix Market",
}
"""What files of some kinds begin with."""
_CHECKSUM = 4
"""Bytes of the checksum of a chunk."""


def open_npy(path: str) -> np.ndarray:
    """Return the memory-mapped array of a `.npy` file; raises InputError if it is missing or incomplete."""
    refuse_others(path, NPY, _NPY)
    try:
        values = np.load(regular(path), mmap_mode="r", allow_pickle=False)
    except NPY_ERRORS as error:
        raise unreadable(path, error, _NPY) from error
    found: np.ndarray = values
    return found


shared_npy = shared_handle(open_npy)
"""The same for those who read it as long as a run lasts."""


def npy_header(file: BinaryIO) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the header of a `.npy` file: shape, whether the first axis is the fastest, and type."""
    old = np.lib.format.read_magic(file) == (1, 0)
    read: Any = np.lib.format.read_array_header_1_0 if old else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    return shape, fortran, dtype


def beginning_of_npy(path: str) -> tuple[np.ndarray, int] | None:
    """Return the arrays along the first axis that a truncated `.npy` file holds, and how many it lacks.

    None if it holds none of them.
    """
    try:
        with open_regular(path) as file:
            (count, *inner), fortran, dtype = npy_header(file)
            origin = file.tell()
            whole = (os.fstat(file.fileno()).st_size - origin) // (math.prod(inner) * dtype.itemsize)
    except (*NPY_ERRORS, ZeroDivisionError):
        return None
    if fortran or dtype.hasobject or not 0 < whole < count <= whole + MOST_MISSING:
        return None
    return np.memmap(path, dtype, "r", origin, (whole, *inner)), count - whole


def open_hdf5(path: str) -> Any:
    """Return an HDF5 file, open for reading; raises InputError if it is missing or incomplete."""
    import h5py

    refuse_others(path, HDF5, _HDF5)
    try:
        return h5py.File(regular(path), "r")
    except HDF5_ERRORS as error:
        raise unreadable(path, error, _HDF5) from error


shared_hdf5 = shared_handle(open_hdf5)
"""The same for those who read it as long as a run lasts."""


def dataset(file: Any, name: str) -> Any:
    """Return a dataset of an open HDF5 file; raises InputError, listing its datasets, if it is missing."""
    import h5py

    names: list[str] = []
    try:
        found = file.get(name)
        if not isinstance(found, h5py.Dataset):
            file.visititems(
                lambda path, item: names.append(_text(path)) if isinstance(item, h5py.Dataset) else None
            )
        else:
            _refuse_damaged(found)
    except HDF5_ERRORS as error:
        raise unreadable(file.filename, error, _HDF5) from error
    if not isinstance(found, h5py.Dataset):
        more = ", ..." if len(names) > 10 else ""
        hint = did_you_mean(name, names)
        raise InputError(
            f"{file.filename}: there is no dataset of this name\n    found:    {name}\n"
            f"    expected: {', '.join(names[:10]) or 'nothing, the file is empty'}{more}"
            + f"\n    hint:     {hint}"
            * bool(hint)
        ).at("dataset")
    return found


def _refuse_damaged(stored: Any) -> None:
    """Raise TypeError if numpy does not have the type of a dataset, OSError if a chunk cannot be read."""
    _ = stored.dtype
    if stored.fletcher32 and stored.id.chunk_iter(lambda chunk: chunk.size < _CHECKSUM or None):
        raise OSError("a chunk is smaller than its checksum")  # reading it, HDF5 2.0 crashes


def _text(name: str | bytes) -> str:
    """Return a name in a file, which h5py returns as bytes if they are not UTF-8."""
    return name if isinstance(name, str) else name.decode(errors="backslashreplace")


def values(stored: Any, name: str, key: Any = ()) -> np.ndarray:
    """Read an array or dataset, or a part of it; raises InputError, with its `name`, if it is damaged."""
    try:
        return np.asarray(stored[key])
    except HDF5_ERRORS as error:
        raise InputError(f"{name}: the data cannot be read: {error}\n    expected: {_HDF5}") from error


def variable(path: str, name: str | None, names: Sequence[str]) -> str:
    """Return the name of an array in a file, by default of its only one; raises InputError."""
    if name in names:
        return str(name)
    if name is None and len(names) == 1:
        return names[0]
    found = "no `dataset` is given" if name is None else name
    raise InputError(
        f"{path}: there is no variable of this name\n    found:    {found}\n"
        f"    expected: `dataset`, one of {', '.join(names) or 'none: the file is empty'}"
    ).at("dataset")


def decompressed_too_large(path: str, nbytes: int, instead: str) -> InputError:
    """Return the error for a file that would take more than `MOST_BYTES` in memory."""
    return InputError(
        f"{path}: this file is too large to be decompressed in memory\n    found:    {nbytes:,} bytes\n"
        f"    expected: at most {MOST_BYTES:,}\n"
        f"    hint:     store it uncompressed, of which only the parts that are shown are read: {instead}"
    )


@shared_handle
def mapped(path: str) -> np.memmap:
    """Return the bytes of a file, of which those that are used are read; raises what numpy.memmap does."""
    return np.memmap(regular(path), np.uint8, "r")


def kind_of(path: str) -> str:
    """Return the kind of a file by how it begins, empty where it is not known; raises OSError."""
    with open_regular(path) as file:
        head = file.read(4096)
    known = (kind for begin, kind in _BEGINNINGS.items() if head.startswith(begin))
    binary = any(byte < 32 and byte not in b"\t\n\r\f" for byte in head) or not head.isascii()
    return next(known, "" if binary else TEXT if head else "an empty file")


def refuse_others(
    path: str, kind: str, expected: str, hints: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Raise InputError, with the hint for its kind, if a file is of another kind.

    An HDF5 file may begin with what is not known, or as one of MATLAB.
    """
    try:
        found = kind_of(path)
    except (OSError, ValueError) as error:
        raise unreadable(path, error, expected) from error
    if found != kind and (kind != HDF5 or found not in ("", MAT)):
        hint = f"\n    hint:     {hints[found]}" if found in hints else ""
        raise InputError(
            f"{path}: this is not {kind}\n    found:    {found or 'another format'}\n"
            f"    expected: {expected}{hint}"
        )


def unreadable(path: str, error: Exception, expected: str) -> InputError:
    """Return the error for a file that is missing or cannot be read."""
    if Path(path).exists():
        said = reason(error)
        if "pickle" in said:  # numpy's hint is to execute what the file says
            said = "it holds objects of Python, not numbers"
        return InputError(f"{path}: this file cannot be read: {said}\n    expected: {expected}")
    hint = similar_path(Path(path)) if Path(path).parent.is_dir() else ""
    return InputError(
        f"{path}: there is no such file\n    expected: {expected}\n    hint:     {hint or path_hint()}"
    )


def path_hint() -> str:
    """Return the hint for paths that are not found."""
    return f"paths are relative to the params file or to {Path.cwd()}"
