"""Sparse matrices, of files or of Python: the rows, columns and values of their entries."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import PlainSerializer, PlainValidator, ValidationInfo, WithJsonSchema

from petabatch.arrays import as_numpy
from petabatch.errors import ArgumentError, Described, InputError
from petabatch.sources.files import HDF5, NPY, TEXT
from petabatch.sources.memory import held_array, refused
from petabatch.sources.npz import read_npz, refuse_unknown
from petabatch.spec.memory import InMemory

_EXPECTED = "a .npz file of scipy.sparse.save_npz (COO, CSR or CSC), or with arrays row, col and data"


_EDGES_OF = "with `numpy.savez(FILE, row=..., col=..., data=...)`, or in Python use `matrix`"
_HINTS = {
    TEXT: f"write the columns that numpy.loadtxt returns {_EDGES_OF}",
    HDF5: f"write its datasets {_EDGES_OF}",
    NPY: "for a matrix of weights: `scipy.sparse.save_npz(FILE, scipy.sparse.coo_array(numpy.load(...)))`",
    "a file of Matrix Market": "`scipy.sparse.save_npz(FILE, scipy.io.mmread(...))`",
}
"""How to make a matrix of files of other kinds."""
_PARTS = ("row", "col", "data", "shape", "delay")
_BRIAN = {"i": "row", "j": "col", "w": "data"}
"""Names of Brian2."""
_LISTS = (*_PARTS, *_BRIAN, "format", "_is_array")
"""Arrays of files with a row and a column for each entry; SciPy writes the last two."""
_COMPRESSED = ("indices", "indptr", "data", "shape", "format", "_is_array")


def _matrix(value: Any, info: ValidationInfo) -> tuple[InMemory, ...]:
    """Return the parts of a SciPy matrix, or the columns of a list of edges."""
    if isinstance(value, tuple | list) and value and all(isinstance(one, InMemory | str) for one in value):
        return tuple(held_array(one, info) for one in value)  # of a run
    try:
        if hasattr(value, "tocoo"):
            entries = value.tocoo()
            parts = [entries.row, entries.col, entries.data, entries.shape]
        else:
            parts = _columns(value)
        return tuple(InMemory(as_numpy("matrix", part)) for part in parts)
    except ArgumentError as error:
        raise refused(error) from None


def _columns(value: Any) -> list[np.ndarray]:
    """Return the pre units, post units and, if there are three, weights of a list of edges."""
    apart = isinstance(value, tuple) and len(value) in (2, 3, 4) and all(np.ndim(one) == 1 for one in value)
    columns = [as_numpy("matrix", part) for part in value] if apart else _of_rows(value)
    lengths = [len(column) for column in columns]
    if len(set(lengths)) != 1 or not all((column == np.rint(column)).all() for column in columns[:2]):
        found = Described(
            f"columns of {lengths}, the first two {' and '.join(str(c.dtype) for c in columns[:2])}"
        )
        raise ArgumentError("matrix", "these are not edges between numbered units", found, _EDGES)
    pre, post, *others = columns
    shape = [np.zeros(0, np.int64)] if len(others) == 2 else []  # of a list of edges with delays, unknown
    return [pre.astype(np.int64), post.astype(np.int64), *others[:1], *shape, *others[1:]]


def _of_rows(value: Any) -> list[np.ndarray]:
    rows = as_numpy("matrix", value, _EDGES)
    if rows.ndim != 2 or rows.shape[1] not in (2, 3, 4):
        found = Described(f"{rows.dtype} {list(rows.shape)}")
        hint = "of a dense matrix [pre, post], scipy.sparse.coo_array(...)" if rows.ndim == 2 else ""
        what = "this is neither a matrix of SciPy nor a list of edges"
        raise ArgumentError("matrix", what, found, _EDGES, hint)
    if isinstance(value, np.ndarray) and (len(rows) == rows.shape[1] or _repeats(rows)):
        found = Described(f"{rows.dtype} {list(rows.shape)}")
        what = "this may be a dense matrix [pre, post] or a list of edges"
        raise ArgumentError("matrix", what, found, _APART)
    return list(rows.T)


def _repeats(rows: np.ndarray) -> bool:
    return len(np.unique(rows[:, :2], axis=0)) < len(rows)


_APART = "scipy.sparse.coo_array(...) of a dense matrix; of edges a tuple of columns, (i, j, w)"
_EDGES = (
    "a matrix, or rows of pre unit, post unit and, without `init`, weight, then delay; or a tuple of these "
    "columns"
)
Matrix = Annotated[
    tuple[InMemory, ...],
    PlainValidator(_matrix),
    PlainSerializer(lambda parts: list(map(repr, parts))),
    WithJsonSchema({"not": {}, "description": "A matrix of SciPy or a list of edges; from Python only."}),
]
"""The parts of a sparse matrix."""


class Coordinates(NamedTuple):
    """Entries of a matrix `[pre, post]`."""

    pre: np.ndarray
    post: np.ndarray
    weights: np.ndarray
    delays: np.ndarray | None = None


def read_coordinates(path: str, pre: int, post: int) -> Coordinates:
    """Return the entries of a matrix `[pre, post]` in a file; raises InputError for another."""
    return _checked(path, read_npz(path, _EXPECTED, _HINTS), pre, post)


def given_coordinates(matrix: tuple[InMemory, ...], pre: int, post: int) -> Coordinates:
    """Return the entries of a matrix `[pre, post]` that was given in Python; raises InputError for another.

    The weights are 0 where there are none.
    """
    arrays = {name: one.array for name, one in zip(_PARTS, matrix, strict=False)}
    if not arrays.get("shape", np.zeros(1)).size:
        del arrays["shape"]
    return _checked("", {"data": np.zeros(len(arrays["row"])), **arrays}, pre, post)


def _checked(path: str, arrays: dict[str, np.ndarray], pre: int, post: int) -> Coordinates:
    """Return the entries of the matrix that these arrays make, of a file unless `path` is empty."""
    where = f"{path}: " if path else ""
    found, size = _entries(arrays), arrays.get("shape", np.array([pre, post]))
    if found is None or not _whole(size):
        parts = (f"{name} {_text(array) or list(array.shape)}" for name, array in sorted(arrays.items()))
        raise InputError(
            f"{where}this is no sparse matrix\n    found:    {', '.join(parts) or 'no arrays'}\n"
            f"    expected: {_EXPECTED}"
        )
    refuse_unknown(path, arrays, _LISTS if "row" in arrays or "i" in arrays else _COMPRESSED)
    if twice := next((one for other, one in _BRIAN.items() if other in arrays and one in arrays), None):
        raise InputError(f"{where}there are two arrays of the same numbers\n    found:    {twice}")
    shape = tuple(map(int, size))
    inside = all(
        not (part.size and (part.min() < 0 or part.max() >= most))
        for part, most in ((found.pre, pre), (found.post, post))
    )
    if shape != (pre, post) or not inside:
        given = f"shape {list(shape)}, " if "shape" in arrays else ""
        ranges = (
            f"{name} {part.min()} to {part.max()}" if part.size else f"no {name}"
            for name, part in (("rows", found.pre), ("columns", found.post))
        )
        raise InputError(
            f"{where}this matrix does not fit the layers\n    found:    {given}{', '.join(ranges)}\n"
            f"    expected: {[pre, post]}, units of pre and post, counted from 0"
        )
    late = found.delays
    if late is not None and (late.dtype.kind not in "fiu" or not (np.isfinite(late) & (late >= 0)).all()):
        raise InputError(
            f"{where}some delays are negative or not finite\n    expected: times in that of run.dt"
        )
    sizes = {part.size for part in found if part is not None}
    if len(sizes) > 1 or found.weights.dtype.kind not in "fiub" or not np.isfinite(found.weights).all():
        raise InputError(
            f"{where}some weights are missing or not finite\n    expected: one finite number for each entry"
        )
    return found._replace(weights=found.weights.astype(np.float64))


def _entries(arrays: dict[str, np.ndarray]) -> Coordinates | None:
    """Return the entries, None if the arrays are not those of a matrix."""
    arrays = {_BRIAN.get(name, name): array for name, array in arrays.items()}
    data, row, col = (arrays.get(name) for name in ("data", "row", "col"))
    if data is None or data.ndim != 1:
        return None
    if row is not None and col is not None:
        return Coordinates(row, col, data, arrays.get("delay")) if _whole(row) and _whole(col) else None
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
