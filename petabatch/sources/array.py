"""Images stacked in one array: in a file of NumPy, MATLAB, HDF5 or PetaVision, or in memory."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.sources.files import beginning_of_npy, dataset, shared_hdf5, shared_npy, values
from petabatch.sources.gallery import Gallery, lacking
from petabatch.sources.mat import MatImages
from petabatch.sources.memory import Data
from petabatch.sources.npz import shared_npz
from petabatch.sources.pixels import largest
from petabatch.sources.pvp import pvp_images
from petabatch.sources.shared import shared
from petabatch.sources.view import View
from petabatch.spec.paths import FilePath

_SINGLE = (".npy", ".npz", ".mat", ".pvp")
"""Files that may have a single array."""


class ImageArray(View):
    """Images stacked in an array `[n, ny, nx, nf]`, or `[n, ny, nx]` for greyscale.

    Only those parts of a file that are displayed are read.
    """

    type: Literal["array"] = "array"
    file: FilePath | None = None
    """A `.npy`, `.npz`, `.mat` or HDF5 file, or activities in a `.pvp` file of PetaVision. A `.mat` file has
    the image number last: `[ny, nx, n]` or `[ny, nx, nf, n]`."""
    dataset: str | None = None
    """Path of the dataset in the HDF5 file, such as `train/images`, or name of the variable in a `.npz` or
    `.mat` file, which may be omitted if there is only one."""
    data: Data | None = None
    """A numpy array, in place of a file; in Python only."""

    @model_validator(mode="after")
    def _one_origin(self) -> ImageArray:
        if (self.file is None) == (self.data is None):
            raise PydanticCustomError(
                "array_origin",
                "the array is missing" if self.file is None else "the array is given twice",
                {"expected": "`file` (or, in Python, `data`)"},
            )
        if self.dataset is None and self.file is not None and not self.file.endswith(_SINGLE):
            raise PydanticCustomError(
                "array_dataset", "the dataset of an HDF5 file is missing", {"expected": "`dataset`"}
            )
        return self

    def paths(self) -> tuple[str, ...]:
        """Return the file, if there is one."""
        return () if self.file is None else (self.file,)

    @property
    def read_ahead(self) -> bool:
        """Only files are."""
        return self.file is not None

    def gallery(self) -> Gallery:
        """Open the array; raises InputError if it is not an array of images."""
        if self.data is not None:
            return _stack(self.data.array, "data")
        assert self.file is not None
        return _of_file(self.file, self.dataset)


@shared
def _of_file(path: str, name: str | None) -> Gallery:
    """Return the images of the array `name` of a file, by default of its only one."""
    if path.endswith(".npy"):
        try:
            return _stack(shared_npy(path), path)
        except InputError as error:
            if (found := beginning_of_npy(path)) is None:
                raise
            return lacking(_stack(found[0], path), found[1], error)
    if path.endswith(".pvp"):
        return pvp_images(path)
    full = path if name is None else f"{path}:{name}"
    if path.endswith((".npz", ".mat")):
        return _stack((shared_npz if path.endswith(".npz") else MatImages)(path, name), full)
    assert name is not None
    file = shared_hdf5(path)
    return _stack(dataset(file, name), full, file)


def _stack(stored: Any, name: str, file: Any = None) -> Gallery:
    """Return the images of an array in an open `file`, or in memory."""
    if len(stored.shape) not in (3, 4) or 0 in stored.shape:
        raise InputError(
            f"{name}: this is not an array of images\n    found:    {list(stored.shape)}\n"
            f"    expected: [n, ny, nx, nf], or [n, ny, nx] for greyscale"
        )
    largest(stored.dtype, name)
    count, ny, nx, nf = (*stored.shape, 1)[:4]

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        pixels = values(stored, f"{name}[{number}]", (number, rows, columns))
        return pixels.reshape(*pixels.shape[:2], -1)

    shapes = [(ny, nx, nf)] * count
    return Gallery(
        shapes,
        read,
        lambda number: f"{name}[{number}]",
        stack=tuple(stored.shape),
        holders=[(name, count)],
        file=file,
    )
