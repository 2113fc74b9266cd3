"""Weights from a file, or from the end of another run."""

from __future__ import annotations

import os
from typing import Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.sources.files import dataset, open_hdf5, open_npy
from petabatch.spec.paths import FilePath
from petabatch.spec.weights import Initial
from petabatch.weights.fit import fit


class WeightFile(Initial):
    """Weights `[ky, kx, nf_pre, nyp, nxp, nf_post]`, or without leading axes of length 1.

    `path` is a `.npy` file; an HDF5 file, with `dataset`; or a run (its directory or its `run.h5`), with
    `connection`, whose newest recorded weights are taken.
    """

    type: Literal["file"] = "file"
    path: FilePath
    dataset: str | None = None
    """Where in an HDF5 file, as `decoder/weights`."""
    connection: str | None = None
    """The connection of a run."""

    @model_validator(mode="after")
    def _one_place(self) -> WeightFile:
        given = [key for key in ("dataset", "connection") if getattr(self, key) is not None]
        wanted = 0 if self.path.endswith(".npy") else 1
        if len(given) != wanted:
            raise PydanticCustomError(
                "weight_file",
                "where in the file the weights are is not clear",
                {
                    "got": " and ".join(given) or "neither `dataset` nor `connection`",
                    "expected": "`dataset` for an HDF5 file, `connection` for a run, neither for a .npy file",
                },
            )
        return self

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Read them; raises InputError when they are missing, do not fit, or are not finite."""
        if self.path.endswith(".npy"):
            return fit(open_npy(self.path), shape, self.path)
        path = os.path.join(self.path, "run.h5") if os.path.isdir(self.path) else self.path
        name = self.dataset or f"connections/{self.connection}/weights"
        with open_hdf5(path) as file:
            stored = dataset(file, name)
            if self.connection is not None and len(stored) == 0:
                raise InputError(f"{path}:{name}: no weights have been recorded yet")
            values = stored[-1] if self.connection is not None else stored[()]
        return fit(np.asarray(values), shape, f"{path}:{name}")
