"""MATLAB files: one array of a `.mat` file, in MATLAB's order of axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.errors import InputError, ResourceError
from petabatch.sources.files import dataset, open_hdf5, unreadable


def open_mat(path: str, name: str | None) -> np.ndarray:
    """Return variable `name` of a file of any version; by default its only one.

    Raises InputError if the file or the variable is missing, ResourceError if the file needs scipy, which is
    not installed.
    """
    try:
        with open(path, "rb") as file:
            new = b"MATLAB 7.3" in file.read(128)
    except OSError as error:
        raise unreadable(path, error, "a .mat file") from error
    return _hdf5(path, name) if new else _classic(path, name)


def _hdf5(path: str, name: str | None) -> np.ndarray:
    with open_hdf5(path) as file:
        chosen = _chosen(path, name, [key for key in file if not key.startswith("#")])
        return np.asarray(dataset(file, chosen)[()]).T  # MATLAB's first axis is the fastest


def _classic(path: str, name: str | None) -> np.ndarray:
    try:
        from scipy.io import loadmat, whosmat
    except ImportError as error:
        raise ResourceError(
            f"{path}: reading this file needs scipy, which is not installed\n    hint:     pip install scipy"
        ) from error
    try:
        chosen = _chosen(path, name, [key for key, _, _ in whosmat(path)])
        values: Any = loadmat(path, variable_names=[chosen])[chosen]
    except (OSError, ValueError, TypeError, NotImplementedError) as error:
        raise unreadable(path, error, "a complete .mat file") from error
    return np.asarray(values)


def _chosen(path: str, name: str | None, names: list[str]) -> str:
    if name in names:
        return str(name)
    if name is None and len(names) == 1:
        return names[0]
    found = "no `dataset` is given" if name is None else name
    raise InputError(
        f"{path}: there is no variable of this name\n    found:    {found}\n"
        f"    expected: `dataset`, one of {', '.join(names) or 'none: the file is empty'}"
    )
