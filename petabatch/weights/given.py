"""Given weights: from an array, a file, or another run."""

from __future__ import annotations

import os
from typing import Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.sources.files import dataset, open_hdf5, open_npy, values
from petabatch.sources.mat import open_mat
from petabatch.sources.memory import Data
from petabatch.spec.model import Index, Offset
from petabatch.spec.paths import FilePath
from petabatch.spec.weights import Initial
from petabatch.weights.axes import Axes, arranged, likely_axes
from petabatch.weights.pvp import dictionary_of_pvp, of_pvp


class WeightArray(Initial):
    """Weights `[ky, kx, nf_pre, nyp, nxp, nf_post]`, or a state variable `[ny, nx, nf]`, from a numpy array.

    Leading axes of length 1 may be omitted. Available in Python only.
    """

    given = True
    type: Literal["array"] = "array"
    data: Data
    """The array."""
    axes: Axes | None = None
    """Axes of a dictionary in another order: see `file`."""

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Return the weights; raises InputError if their shape does not match."""
        return _checked(_in_order(self.data.array, self.axes, "data"), "data", shape, self.per_slice)


class WeightFile(Initial):
    """Weights `[ky, kx, nf_pre, nyp, nxp, nf_post]`, or a state variable `[ny, nx, nf]`, from a file.

    Leading axes of length 1 may be omitted. The file is a `.npy` file, an HDF5 file or `.mat` file (give
    `dataset`), another run (give `connection`), or a `.pvp` file of PetaVision. An array of a run's
    checkpoint is a dataset too: `path = "runs/a/checkpoints/step_000000400.h5"`, `dataset = "layers/V1/V"`,
    `per_slice = true`.
    """

    given = True
    type: Literal["file"] = "file"
    path: FilePath
    """A `.npy` file, an HDF5 file, a `.mat` file of MATLAB, a `.pvp` file of PetaVision, or a run directory
    or its `run.h5`."""
    dataset: str | None = None
    """Path of the dataset in an HDF5 file, such as `decoder/weights`, or name of the variable in a `.mat`
    file, which may be omitted if there is only one."""
    connection: str | None = None
    """Name of a connection of the run; its most recently recorded weights are used."""
    frame: Offset | None = None
    """Number of the frame in a `.pvp` file, from 0; negative ones count from the end. By default the last
    one of weights, the first one of a state variable; with `per_slice`, each slice has one of its own, from
    this one on."""
    arbor: Index | None = None
    """Number of the arbor, from 0, of weights in a `.pvp` file that has several."""
    axes: Axes | None = None
    """Axes of a dictionary from another program: the letters `o` (feature), `h` and `w` (patch row and
    column) and `i` (channel of the image, may be omitted for grey images), in the order of the array. PyTorch
    has `oihw`."""

    @model_validator(mode="after")
    def _one_place(self) -> WeightFile:
        given = [key for key in ("dataset", "connection") if getattr(self, key) is not None]
        single = self.path.endswith((".npy", ".pvp"))
        wanted = (0,) if single else (0, 1) if self.path.endswith(".mat") else (1,)
        if len(given) not in wanted:
            raise PydanticCustomError(
                "weight_file",
                "the location of the weights in the file is ambiguous",
                {
                    "got": " and ".join(given) or "neither `dataset` nor `connection`",
                    "expected": "`dataset` for an HDF5 file, `connection` for a run, neither for a .npy file",
                    "hint": "" if given else self._other,
                },
            )
        more = {"got": self.path, "expected": "the path of a .pvp file"}
        if self.frame is not None and not self.path.endswith(".pvp"):
            raise PydanticCustomError("frame", "only a .pvp file has frames", more)
        if self.arbor is not None and not self.path.endswith(".pvp"):
            raise PydanticCustomError("arbor", "only a .pvp file has arbors", more)
        return self

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        """Read the weights; raises InputError if they are missing, not finite, or of another shape."""
        if self.path.endswith(".pvp"):
            read = of_pvp(self.path, self.frame, shape, self.per_slice, self.arbor)
            return _checked(*read, shape, self.per_slice)
        found, name = self.stored()
        return _checked(_in_order(found, self.axes, name), name, shape, self.per_slice)

    def synapses(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Return the synapses of the connection of a run, None for others; raises InputError."""
        if self.connection is None:
            return None
        path = os.path.join(self.path, "run.h5") if os.path.isdir(self.path) else self.path
        with open_hdf5(path) as file:
            names = [f"connections/{self.connection}/{name}" for name in ("starts", "targets")]
            if not all(name in file and len(file[name]) for name in names):
                return None
            starts, targets = (values(dataset(file, name), f"{path}:{name}", -1) for name in names)
            return starts, targets

    @property
    def _other(self) -> str:
        """Return what to do with a file of another kind, "" for those that are read."""
        suffix = os.path.splitext(self.path)[1]
        known = suffix in ("", ".npy", ".pvp", ".mat", ".h5", ".hdf5")
        return (
            "" if known else f"a {suffix} file is none of these; numpy.save makes a .npy file of its numbers"
        )

    def stored(self) -> tuple[np.ndarray, str]:
        """Return the array as it is in the file, and its name for messages; raises InputError without it."""
        if self.path.endswith(".npy"):
            return open_npy(self.path), self.path
        if self.path.endswith(".pvp"):
            return dictionary_of_pvp(self.path, self.frame, self.arbor), self.path
        if self.path.endswith(".mat"):
            return open_mat(self.path, self.dataset), self.path
        path = os.path.join(self.path, "run.h5") if os.path.isdir(self.path) else self.path
        if os.path.isdir(self.path) and not os.path.exists(path):
            names = (name for name in os.listdir(self.path) if name.startswith("run."))
            kinds = {os.path.splitext(name)[1] for name in names if os.path.isdir(f"{self.path}/{name}")}
            for kind in sorted(kinds):
                hint = f"`petabatch merge {self.path} -o FILE.h5` makes a file that can be given here"
                found = f"{self.path}: this run is in {kind[1:].capitalize()}, not in HDF5"
                raise InputError(f"{found}\n    hint:     {hint}")
        name = self.dataset or f"connections/{self.connection}/weights"
        with open_hdf5(path) as file:
            try:
                found = dataset(file, name)
                if self.connection is not None and len(found) == 0:
                    raise InputError(f"{path}:{name}: no weights have been recorded yet")
            except InputError as error:
                error.key = "connection" if self.connection is not None else error.key
                raise
            last = -1 if self.connection is not None else ()
            return values(found, f"{path}:{name}", last), f"{path}:{name}"


_WEIGHTS = ["kernel rows", "kernel columns", "pre features", "patch rows", "patch columns", "post features"]
_UNITS = ["rows", "columns", "features"]


def _in_order(array: np.ndarray, axes: str | None, name: str) -> np.ndarray:
    return array if axes is None else arranged(array, axes, name)


def _checked(values: np.ndarray, name: str, shape: tuple[int, ...], per_slice: bool) -> np.ndarray:
    """Return the values as float64 weights of `shape`, adding or removing leading axes of length 1.

    With `per_slice`, these follow the batch axis. Raises InputError if the shapes differ otherwise, or a
    weight is not finite.
    """
    lead = 1 if per_slice else 0
    fits = values.shape[:lead] == shape[:lead] and _squeezed(values.shape[lead:]) == _squeezed(shape[lead:])
    if values.dtype.kind not in "fiub" or not fits:
        units = len(shape) == lead + len(_UNITS)
        axes = None if units else likely_axes(values.shape, shape[lead:][2:])
        hint = f'\n    hint:     is it a dictionary from another program? axes = "{axes}"' if axes else ""
        if not per_slice and values.ndim > 1 and _squeezed(values.shape[1:]) == _squeezed(shape):
            hint = "\n    hint:     per_slice = true, if its first axis is the batch"
        names = ["batch"] * lead + (_UNITS if units else _WEIGHTS)
        what = "values do not fit the layer" if units else "weights do not fit the connection"
        raise InputError(
            f"{name}: these {what}\n"
            f"    found:    {values.dtype} {list(values.shape)}\n"
            f"    expected: {list(shape)}: {', '.join(names)}; leading axes of length 1 may be omitted{hint}"
        )
    weights = np.asarray(values, float).reshape(shape)
    if not np.isfinite(weights).all():
        raise InputError(f"{name}: some values are not finite\n    found:    NaN or infinity")
    return weights


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return a shape without its leading axes of length 1."""
    ones = next((axis for axis, length in enumerate(shape) if length != 1), len(shape))
    return shape[ones:]
