"""Columns of values for sweeps: drawn numbers, and tables in files."""

from __future__ import annotations

import csv
import os
import warnings
from dataclasses import dataclass
from io import TextIOWrapper
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic_core import PydanticCustomError

from petabatch.errors import ResourceError, install, similar_path
from petabatch.random import stream
from petabatch.regular_files import open_regular, reason, regular
from petabatch.spec.paths import resolve_path


@dataclass(frozen=True)
class Draw:
    """A method that draws points in the unit cube."""

    method: Literal["random", "latin_hypercube", "sobol"]
    seed: int

    def places(self, count: int, dimensions: int) -> np.ndarray:
        """Return points in the unit cube, `[count, dimensions]`; raises ResourceError without scipy."""
        rng = stream(self.seed, "sweep")
        if self.method == "random":
            return rng.random((count, dimensions))
        try:
            from scipy.stats import qmc
        except ImportError as error:
            raise ResourceError(
                f"scipy is not installed ({error})\n    hint:     {install('analysis')}"
            ) from error
        if self.method == "latin_hypercube":
            return np.asarray(qmc.LatinHypercube(dimensions, seed=rng).random(count))
        with warnings.catch_warnings(action="ignore"):  # that the number is no power of two
            return np.asarray(qmc.Sobol(dimensions, seed=rng).random(count))


def columns_of(table: Any, folder: str | os.PathLike[str] | None) -> dict[str, list[float]]:
    """Return the columns of a CSV or HDF5 file by their names; raises PydanticCustomError."""
    if not isinstance(table, str | os.PathLike):
        expected = "a file, or arrays by key path"
        raise PydanticCustomError("table", "this is not a table", {"got": repr(table), "expected": expected})
    name, group = os.fspath(table), "/"
    for suffix in (".h5", ".hdf5"):
        if f"{suffix}:" in name:
            name, _, group = name.rpartition(":")
    path = Path(name if folder is None else resolve_path(name, folder))
    if not path.exists():
        context = {"got": str(path), "expected": "a CSV or HDF5 file", "hint": similar_path(path)}
        raise PydanticCustomError("table", "there is no such file", context)
    try:
        return _from_hdf5(path, group) if path.suffix in (".h5", ".hdf5") else _from_csv(path)
    except (OSError, ValueError, LookupError, TypeError, csv.Error) as error:
        expected = "numbers, in a column for each key path, with its name"
        context = {"got": f"{path}: {reason(error)}", "expected": expected}
        raise PydanticCustomError("table", "this table cannot be read", context) from None


def _from_csv(path: Path) -> dict[str, list[float]]:
    with open_regular(path) as opened, TextIOWrapper(opened, "utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        names = [name.strip() for name in next(rows, [])]
        if not names or len(set(names)) < len(names):
            raise ValueError("its first line does not name the columns, each by another key path")
        numbers = []
        for row in rows:
            if row and len(row) != len(names):
                raise ValueError(f"line {rows.line_num} has {len(row)} values, of {len(names)} columns")
            try:
                numbers += [[float(text) for text in row]] if row else []
            except ValueError as error:
                raise ValueError(f"line {rows.line_num}: {error}") from None
    return {name: [row[at] for row in numbers] for at, name in enumerate(names)}


def _from_hdf5(path: Path, group: str) -> dict[str, list[float]]:
    import h5py

    with h5py.File(regular(path), "r") as file:
        return {
            name: np.asarray(item[()], float).reshape(-1).tolist()
            for name, item in file[group].items()
            if isinstance(item, h5py.Dataset)
        }
