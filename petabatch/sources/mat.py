"""MATLAB files: one array of a `.mat` file, in MATLAB's order of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.errors import InputError, ResourceError
from petabatch.sources.files import HDF5_ERRORS, dataset, open_hdf5, shared_hdf5, unreadable, variable


def open_mat(path: str, name: str | None) -> np.ndarray:
    """Return variable `name` of a file of any version; by default its only one.

    Raises InputError if the file or the variable is missing, ResourceError if the file needs scipy, which is
    not installed.
    """
    return _hdf5(path, name) if _is_hdf5(path) else _classic(path, name)


class MatImages:
    """The images of a `.mat` file, in MATLAB `[ny, nx, n]` or `[ny, nx, nf, n]`, as `[n, ny, nx, nf]`.

    Of version 7.3, which is HDF5, only the parts that are asked for are read.
    """

    def __init__(self, path: str, name: str | None) -> None:
        """Open the file; raises InputError and ResourceError as `open_mat`."""
        self._file: Any = shared_hdf5(path) if _is_hdf5(path) else None
        self._stored: Any = (  # HDF5 has MATLAB's axes in reverse
            _classic(path, name).T if self._file is None else _dataset(self._file, path, name)
        )
        n, *inner = self._stored.shape or (0,)
        self.shape: tuple[int, ...] = (
            (n, *inner[1:][::-1], *inner[:1]) if len(inner) == 3 else (n, *inner[::-1])
        )
        self.dtype: np.dtype[Any] = self._stored.dtype

    def __getitem__(self, key: tuple[int, slice, slice]) -> np.ndarray:
        """Return rows and columns of an image."""
        number, rows, columns = key
        pixels = np.asarray(self._stored[number, ..., columns, rows])
        return pixels.transpose(2, 1, 0) if pixels.ndim == 3 else pixels.T


def _is_hdf5(path: str) -> bool:
    try:
        with open(path, "rb") as file:
            return b"MATLAB 7.3" in file.read(128)
    except OSError as error:
        raise unreadable(path, error, "a .mat file") from error


def _dataset(file: Any, path: str, name: str | None) -> Any:
    try:
        names = [key for key in file if not key.startswith("#")]
    except HDF5_ERRORS as error:
        raise unreadable(path, error, "a complete .mat file") from error
    return dataset(file, variable(path, name, names))


def _hdf5(path: str, name: str | None) -> np.ndarray:
    with open_hdf5(path) as file:
        return np.asarray(_dataset(file, path, name)[()]).T  # MATLAB's first axis is the fastest


def _classic(path: str, name: str | None) -> np.ndarray:
    try:
        from scipy.io import loadmat, whosmat
    except ImportError as error:
        raise ResourceError(
            f"{path}: reading this file needs scipy, which is not installed\n    hint:     pip install scipy"
        ) from error
    try:
        chosen = variable(path, name, [key for key, _, _ in whosmat(path)])
        values: Any = loadmat(path, variable_names=[chosen])[chosen]
    except InputError:
        raise
    except Exception as error:  # scipy has a dozen kinds for damaged files
        raise unreadable(path, error, "a complete .mat file") from error
    return np.asarray(values)
