"""Sparse matrices in files: the rows, columns and values of their entries."""

from __future__ import annotations

import zipfile
from typing import NamedTuple

import numpy as np

from petabatch.errors import InputError

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
            arrays = {name: file[name] for name in file.files}
    except (OSError, ValueError, EOFError, AttributeError, TypeError, zipfile.BadZipFile) as error:
        raise InputError(f"{path}: this matrix cannot be read: {error}\n    expected: {_EXPECTED}") from error
    found = _entries(arrays)
    if found is None:
        kind = f", format {arrays['format'].item()!r}" if arrays.get("format", np.zeros(2)).ndim == 0 else ""
        raise InputError(
            f"{path}: this is no sparse matrix\n    found:    arrays {', '.join(sorted(arrays))}{kind}\n"
            f"    expected: {_EXPECTED}"
        )
    shape = tuple(map(int, arrays["shape"])) if "shape" in arrays else (pre, post)
    inside = all(
        part.dtype.kind in "iu" and not (part.size and (part.min() < 0 or part.max() >= most))
        for part, most in ((found.pre, pre), (found.post, post))
    )
    if shape != (pre, post) or not inside:
        largest = [int(part.max(initial=-1)) for part in found[:2]]
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
    if {"row", "col", "data"} <= arrays.keys():
        return Coordinates(arrays["row"], arrays["col"], arrays["data"])
    kind = arrays.get("format")
    if kind is None or not {"indices", "indptr", "data"} <= arrays.keys():
        return None
    lines = np.repeat(np.arange(arrays["indptr"].size - 1), np.diff(arrays["indptr"]))
    match kind.item():
        case b"csr" | "csr":
            return Coordinates(lines, arrays["indices"], arrays["data"])
        case b"csc" | "csc":
            return Coordinates(arrays["indices"], lines, arrays["data"])
    return None
