"""MATLAB files: one array of a `.mat` file, in MATLAB's order of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.regular_files import open_regular
from petabatch.sources.files import HDF5_ERRORS, dataset, open_hdf5, shared_hdf5, unreadable, variable
from petabatch.sources.mat5 import open_mat5, shared_mat5


def open_mat(path: str, name: str | None) -> np.ndarray:
    """Return variable `name` of a file of any version; by default its only one.

    Raises InputError if the file or the variable is missing or damaged.
    """
    return _hdf5(path, name) if _is_hdf5(path) else open_mat5(path, name)


class MatImages:
    """The images of a `.mat` file, in MATLAB `[ny, nx, n]` or `[ny, nx, nf, n]`, as `[n, ny, nx, nf]`.

    Of version 7.3, which is HDF5, only the parts that are asked for are read.
    """

    def __init__(self, path: str, name: str | None) -> None:
        """Open the file; raises InputError as `open_mat`."""
        later = _is_hdf5(path)
        self._file: Any = shared_hdf5(path) if later else shared_mat5(path, name)
        # HDF5 has MATLAB's axes in reverse
        self._stored: Any = _dataset(self._file, path, name) if later else self._file.T
        n, *inner = self._stored.shape or (0,)
        self.shape: tuple[int, ...] = (
            (n, *inner[1:][::-1], *inner[:1]) if len(inner) == 3 else (n, *inner[::-1])
        )
        logical = later and _logical(self._stored, path)
        self.dtype: np.dtype[Any] = np.dtype(bool) if logical else self._stored.dtype

    def __getitem__(self, key: tuple[int, slice, slice]) -> np.ndarray:
        """Return rows and columns of an image."""
        number, rows, columns = key
        pixels = np.asarray(self._stored[number, ..., columns, rows], self.dtype)
        return pixels.transpose(2, 1, 0) if pixels.ndim == 3 else pixels.T


def _is_hdf5(path: str) -> bool:
    try:
        with open_regular(path) as file:
            return b"MATLAB 7.3" in file.read(128)
    except OSError as error:
        raise unreadable(path, error, "a .mat file") from error


def _dataset(file: Any, path: str, name: str | None) -> Any:
    try:
        names = [key for key in file if not key.startswith("#")]
    except HDF5_ERRORS as error:
        raise unreadable(path, error, "a complete .mat file") from error
    return dataset(file, variable(path, name, names))


def _logical(stored: Any, path: str) -> bool:
    """Return whether a dataset, of 8-bit integers, has truth values."""
    try:
        return stored.attrs.get("MATLAB_class") in ("logical", b"logical")
    except HDF5_ERRORS as error:
        raise unreadable(path, error, "a complete .mat file") from error


def _hdf5(path: str, name: str | None) -> np.ndarray:
    with open_hdf5(path) as file:
        return np.asarray(_dataset(file, path, name)[()]).T  # MATLAB's first axis is the fastest
