"""Images stacked in one array: in a file of NumPy, MATLAB, HDF5 or PetaVision, or in memory."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.arrays import Channels
from petabatch.errors import InputError
from petabatch.sources.files import beginning_of_npy, dataset, shared_hdf5, shared_npy
from petabatch.sources.gallery import Gallery, lacking
from petabatch.sources.mat import MatImages
from petabatch.sources.memory import Several
from petabatch.sources.npz import shared_npz
from petabatch.sources.pvp import pvp_images
from petabatch.sources.shared import shared
from petabatch.sources.stacks import in_memory, stack
from petabatch.sources.view import View
from petabatch.spec.paths import FilePath

_SINGLE = (".npy", ".npz", ".mat", ".pvp")
"""Files that may have a single array."""


class ImageArray(View):
    """Images in an array `[n, ny, nx, nf]`, or `[n, ny, nx]` for greyscale.

    Films are `[film, frame, ny, nx, nf]`. In Python the array may be that of any library, such as torch or
    JAX, or a list: of images, which may differ in size, or of films, which may also differ in length. Only
    those parts of a file that are displayed are read.
    """

    type: Literal["array"] = "array"
    file: FilePath | None = None
    """A `.npy`, `.npz`, `.mat` or HDF5 file, or activities in a `.pvp` file of PetaVision. A `.mat` file has
    the image number last: `[ny, nx, n]` or `[ny, nx, nf, n]`."""
    dataset: str | None = None
    """Path of the dataset in the HDF5 file, such as `train/images`, or name of the variable in a `.npz` or
    `.mat` file, which may be omitted if there is only one."""
    data: Several | None = None
    """An array in place of a file, or a list of images or films; in Python only."""
    channels: Channels = "last"
    """Axis of the channels: `first` for `[n, nf, ny, nx]`, as torch has them."""
    of_numbers: ClassVar[bool] = True
    given_as: ClassVar[str] = "data"
    """The name of arrays in memory in messages."""

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
        if self.channels == "first" and self.file is not None and self.file.endswith((".mat", ".pvp")):
            raise PydanticCustomError(
                "array_channels",
                "these files have an order of axes of their own",
                {"got": 'channels = "first"', "expected": "a .npy, .npz or HDF5 file, or an array"},
            )
        return self

    def paths(self) -> tuple[str, ...]:
        """Return the file, if there is one."""
        return () if self.file is None else (self.file,)

    @property
    def read_ahead(self) -> bool:
        """Only files are."""
        return self.file is not None

    @property
    def decoded(self) -> int:
        """Nothing of a `.npy` or HDF5 file, and of an array in memory; others are loaded."""
        return 0 if self.file is None or not self.file.endswith(_SINGLE[1:]) else super().decoded

    def gallery(self) -> Gallery:
        """Open the array; raises InputError if it is not an array of images."""
        if self.data is not None:
            return in_memory(self.data, self.given_as, self.channels)
        assert self.file is not None
        return _of_file(self.file, self.dataset, self.channels)


@shared
def _of_file(path: str, name: str | None, channels: Channels) -> Gallery:
    """Return the images of the array `name` of a file, by default of its only one."""
    if path.endswith(".npy"):
        try:
            return stack(shared_npy(path), path, channels)
        except InputError as error:
            if (found := beginning_of_npy(path)) is None or found[0].ndim > 4:
                raise
            return lacking(stack(found[0], path, channels), found[1], error)
    if path.endswith(".pvp"):
        return pvp_images(path)
    full = path if name is None else f"{path}:{name}"
    if path.endswith((".npz", ".mat")):
        return stack((shared_npz if path.endswith(".npz") else MatImages)(path, name), full, channels)
    assert name is not None
    file = shared_hdf5(path)
    return stack(dataset(file, name), full, channels, file)
