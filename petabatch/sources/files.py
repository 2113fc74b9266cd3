"""Files of numbers: `.npy`, and datasets of HDF5 files."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import InputError


def open_npy(path: str) -> np.ndarray:
    """Return the array of a `.npy` file, mapped into memory; raises InputError when it is not a whole one."""
    try:
        values = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise unreadable(path, error, "a whole .npy file of numbers") from error
    if not isinstance(values, np.ndarray):
        raise InputError(
            f"{path}: this file holds several arrays\n    expected: one array, as numpy.save writes"
        )
    return values


def open_hdf5(path: str) -> Any:
    """Return an HDF5 file, open for reading; raises InputError when it is not a whole one."""
    import h5py

    try:
        return h5py.File(path, "r")
    except OSError as error:
        raise unreadable(path, error, "a whole HDF5 file") from error


def dataset(file: Any, name: str) -> Any:
    """Return a dataset of an open HDF5 file; raises InputError, with what there is instead, without it."""
    import h5py

    found = file.get(name)
    if not isinstance(found, h5py.Dataset):
        there: list[str] = []
        file.visititems(lambda place, item: there.append(place) if isinstance(item, h5py.Dataset) else None)
        more = ", ..." if len(there) > 10 else ""
        raise InputError(
            f"{file.filename}: there is no dataset of this name\n    found:    {name}\n"
            f"    expected: {', '.join(there[:10]) or 'nothing, the file is empty'}{more}"
        )
    return found


def unreadable(path: str, error: Exception, expected: str) -> InputError:
    """Return the error of a file that is missing or not what it should be."""
    if Path(path).exists():
        return InputError(f"{path}: this file cannot be read: {error}\n    expected: {expected}")
    return InputError(
        f"{path}: there is no such file\n    expected: {expected}\n"
        f"    hint:     paths are relative to the params file or to {Path.cwd()}"
    )
