"""Sparse matrices in files: the rows, columns and values of their entries."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.npz import NPZ_ERRORS

_EXPECTED = "a .npz file of scipy.sparse.save_npz (COO, CSR or CSC), or with arrays row, col and data"


class Coordinates(NamedTuple):
    """Entries of a matrix `[pre, post]`."""

    pre: np.ndarray
    post: np.ndarray
    weights: np.ndarray


def read_coordinates(path: str, pre: int, post: int) -> Coordinates:
    """Return the entries of a matrix `[pre, post]` in a file; raises InputError for another."""
    try:
        with open(path, "rb") as opened, np.load(opened, allow_pickle=False) as file:
            members = {name: file[name] for name in file.files}
    except (*NPZ_ERRORS, AttributeError) as error:
        raise InputError(f"{path}: this matrix cannot be read: {error}\n    expected: {_EXPECTED}") from error
    arrays = {name: array for name, array in members.items() if isinstance(array, np.ndarray)}
    found, size = _entries(arrays), arrays.get("shape", np.array([pre, post]))
    if found is None or not _whole(size):
        parts = (f"{name} {_text(array) or list(array.shape)}" for name, array in sorted(arrays.items()))
        raise InputError(
            f"{path}: this is no sparse matrix\n    found:    {', '.join(parts) or 'no arrays'}\n"
            f"    expected: {_EXPECTED}"
        )
    shape = tuple(size.tolist())
    inside = all(
        not (part.size and (part.min() < 0 or part.max() >= most))
        for part, most in ((found.pre, pre), (found.post, post))
    )
    if shape != (pre, post) or not inside:
        largest = [int(part.max()) if part.size else -1 for part in found[:2]]
        raise InputError(
            f"{path}: this matrix does not fit the layers\n"
            f"    found:    {list(shape)}, last row {largest[0]}, last column {largest[1]}\n"
            f"    expected: {[pre, post]}, units of the pre layer times units of the post layer"
        )
    sizes = {part.size for part in found}
    if len(sizes) > 1 or found.weights.dtype.kind not in "fiub" or not np.isfinite(found.weights).all():
        raise InputError(
            f"{path}: some weights are missing or not finite\n    expected: one finite number for each entry"
        )
    return found._replace(weights=found.weights.astype(np.float64))


def _entries(arrays: dict[str, np.ndarray]) -> Coordinates | None:
    """Return the entries, None if the arrays are not those of a matrix."""
    data, row, col = (arrays.get(name) for name in ("data", "row", "col"))
    if data is None or data.ndim != 1:
        return None
    if row is not None and col is not None:
        return Coordinates(row, col, data) if _whole(row) and _whole(col) else None
    indices, ends = arrays.get("indices"), arrays.get("indptr")
    if indices is None or ends is None or not (_whole(indices) and _whole(ends)):
        return None
    if ends.size == 0 or ends[0] != 0 or ends[-1] != indices.size or (ends[1:] < ends[:-1]).any():
        return None
    lines = np.repeat(np.arange(ends.size - 1), np.diff(ends))
    match _text(arrays.get("format")):
        case "csr":
            return Coordinates(lines, indices, data)
        case "csc":
            return Coordinates(indices, lines, data)
    return None


def _whole(array: np.ndarray) -> bool:
    """Return whether an array is a list of integers."""
    return array.ndim == 1 and array.dtype.kind in "iu"


def _text(array: np.ndarray | None) -> str:
    """Return the text that an array holds, empty if it holds none."""
    if array is None or array.ndim or array.dtype.kind not in "SU":
        return ""
    try:
        return str(array.astype("U"))
    except ValueError:  # damaged characters
        return ""
