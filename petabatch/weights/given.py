"""Given weights: from an array, a file, or another run."""

from __future__ import annotations

import os
from typing import Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.sources.files import dataset, open_hdf5, open_npy, values
from petabatch.sources.memory import Data
from petabatch.spec.paths import FilePath
from petabatch.spec.weights import Initial


class WeightArray(Initial):
    """Weights `[ky, kx, nf_pre, nyp, nxp, nf_post]` from a numpy array.

    Leading axes of length 1 may be omitted. Available in Python only.
    """

    type: Literal["array"] = "array"
    data: Data
    """The array."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the weights; raises InputError if their shape does not match."""
        return _checked(self.data.array, shape, "data")


class WeightFile(Initial):
    """Weights `[ky, kx, nf_pre, nyp, nxp, nf_post]` from a file; leading axes of length 1 may be omitted.

    The file is a `.npy` file, an HDF5 file (give `dataset`), or another run (give `connection`).
    """

    type: Literal["file"] = "file"
    path: FilePath
    """A `.npy` file, an HDF5 file, or a run directory or its `run.h5`."""
    dataset: str | None = None
    """Path of the dataset in an HDF5 file, such as `decoder/weights`."""
    connection: str | None = None
    """Name of a connection of the run; its most recently recorded weights are used."""

    @model_validator(mode="after")
    def _one_place(self) -> WeightFile:
        given = [key for key in ("dataset", "connection") if getattr(self, key) is not None]
        wanted = 0 if self.path.endswith(".npy") else 1
        if len(given) != wanted:
            raise PydanticCustomError(
                "weight_file",
                "the location of the weights in the file is ambiguous",
                {
                    "got": " and ".join(given) or "neither `dataset` nor `connection`",
                    "expected": "`dataset` for an HDF5 file, `connection` for a run, neither for a .npy file",
                },
            )
        return self

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Read the weights; raises InputError if they are missing, not finite, or of another shape."""
        if self.path.endswith(".npy"):
            return _checked(open_npy(self.path), shape, self.path)
        path = os.path.join(self.path, "run.h5") if os.path.isdir(self.path) else self.path
        name = self.dataset or f"connections/{self.connection}/weights"
        with open_hdf5(path) as file:
            stored = dataset(file, name)
            if self.connection is not None and len(stored) == 0:
                raise InputError(f"{path}:{name}: no weights have been recorded yet")
            found = values(stored, f"{path}:{name}", -1 if self.connection is not None else ())
        return _checked(found, shape, f"{path}:{name}")


def _checked(values: np.ndarray, shape: tuple[int, ...], name: str) -> np.ndarray:
    """Return the values as float64 weights of `shape`, adding or removing leading axes of length 1.

    Raises InputError if the shapes differ otherwise, or a weight is not finite.
    """
    if values.dtype.kind not in "fiub" or _squeezed(values.shape) != _squeezed(shape):
        raise InputError(
            f"{name}: these weights do not fit the connection\n"
            f"    found:    {values.dtype} {list(values.shape)}\n"
            f"    expected: {list(shape)}: kernel rows and columns, pre features, patch rows and columns, "
            f"post features; leading axes of length 1 may be omitted"
        )
    weights = np.asarray(values, float).reshape(shape)
    if not np.isfinite(weights).all():
        raise InputError(f"{name}: some weights are not finite\n    found:    NaN or infinity")
    return weights


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its leading axes of length 1."""
    ones = next((axis for axis, length in enumerate(shape) if length != 1), len(shape))
    return shape[ones:]
