"""Array declarations: a single declaration defines allocation, output, units and checkpointing."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = Any
"""A numpy or cupy array, depending on the device."""

Border = Literal["zero", "mirror", "image"] | float | Array
"""Boundary condition of a layer: zeros, reflection (with the edge unit repeated), a constant, or the
surrounding image, which kernels receive as an array that extends beyond the layer by the margin they need."""


def host(array: Array) -> np.ndarray:
    """Return a numpy array: the array itself, or a copy of a GPU array."""
    copied: np.ndarray = array.get() if hasattr(array, "get") else np.asarray(array)
    return copied


def module_of(array: Array) -> Any:
    """Return the array module of an array, numpy or cupy."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    import cupy  # cupy arrays lack __array_namespace__

    return cupy


LAYER_DIMS = ("y", "x", "feature")
"""`dims` of a variable with one value per unit of a layer."""


@dataclass(frozen=True)
class Whole:
    """Whole numbers that a step relies on without a look, such as indices: what they are, their bounds."""

    what: str
    least: int
    most: int | None = None
    partition: Literal["none", "whole", "within"] = "none"
    """They begin at `least` and never decrease: the begin of ranges, and last the end of all.

    `whole`: that is `most`, `within`: it may come before.
    """

    def expected(self) -> str:
        """Return what the numbers must be."""
        if self.partition == "none":
            most = " or more" if self.most is None else f" to {self.most:,}"
            return f"{self.what}, whole numbers from {self.least}{most}"
        end = "at most " if self.partition == "within" else ""
        return f"{self.what}: {self.least}, then none below the one before, and last {end}{self.most:,}"

    def wrong(self, array: np.ndarray) -> str:
        """Return what is wrong in an array `[..., numbers]`; what is not finite is not looked at."""
        low, high = self.least, np.inf if self.most is None else self.most
        bad = (array < low) | (array > high)
        if array.dtype.kind == "f":  # NaN and infinity are told elsewhere: they may end a slice alone
            bad |= np.floor(array) < array
        if self.partition != "none":
            bad[..., 1:] |= array[..., 1:] < array[..., :-1]
            bad[..., 0] |= array[..., 0] != low
            bad[..., -1] |= (array[..., -1] != high) & (self.partition == "whole")
        if not bad.any():
            return ""
        place = tuple(np.argwhere(bad)[0].tolist())
        return (
            f"{array[place]:g} at {list(place)}"
            if array.dtype.kind == "f"
            else f"{array[place]:,} at {list(place)}"
        )


@dataclass(frozen=True)
class Variable:
    """One array of a layer, connection or probe.

    `shape` and `dims` omit the leading axis: the batch (`per = "slice"`), or an axis of length one
    (`per = "network"`: shared by all slices, as the weights of mode `extra_shared`).
    """

    name: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    description: str = ""
    units: str = "1"
    dtype: Literal["float", "float32", "float64", "int32", "int64", "uint8"] = "float"
    """`float` is the precision of the run (`run.precision`)."""
    initial: float = 0.0
    per: Literal["slice", "network"] = "slice"
    checkpoint: bool = True
    """False for arrays that are recomputed before they are read: scratch space and derived weights."""
    infinite: bool = False
    """It may hold infinities; in other variables they end the run, as a NaN does in any."""
    whole: Whole | None = None
    """It holds such numbers alone; others are refused wherever they come from."""
    on_host: bool = False
    """It stays in the memory of the host, where what changes it runs, if the network is on a GPU."""

    def dtype_in(self, precision: str) -> str:
        """Return the dtype in a run of the given precision."""
        return precision if self.dtype == "float" else self.dtype

    def nbytes(self, precision: str) -> int:
        """Return the bytes of the array in a run of the given precision, without its leading axis."""
        return math.prod(self.shape) * np.dtype(self.dtype_in(precision)).itemsize


@dataclass(frozen=True)
class Stream:
    """One dataset of the run file that grows with time: a quantity of a probe or a sampled variable.

    `shape` and `dims` omit the leading time axis. `batched` streams have `batch` as the first of `dims`, with
    the global batch size in `shape`; every rank records its own slices. Other streams are recorded by rank 0
    only.
    """

    path: str
    """Path in the file, such as `layers/V1/A`, `connections/dictionary/weights` or `probes/energy/total`."""
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    dtype: str
    batched: bool
    description: str = ""
    units: str = "1"
    sparse: bool = False
    """Mostly zeros: stored in compressed chunks of one slice at one time step."""
    events: bool = False
    """A column of events, of which there is any number in a step; rank 0 writes those of all slices."""

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Stream:
        """Return the stream with these fields, as JSON has them."""
        return cls(**{**table, "shape": tuple(table["shape"]), "dims": tuple(table["dims"])})

    @property
    def leaf(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]

    @property
    def nbytes(self) -> int:
        """Bytes of one record."""
        return math.prod(self.shape) * np.dtype(self.dtype).itemsize


@dataclass(frozen=True)
class Coordinate:
    """What slices differ in: a value for each slice of the batch."""

    name: str
    """In the run file, such as `threshold`."""
    values: tuple[float, ...]
    key: str = ""
    """Key path of the value, such as `layers.V1.threshold`; empty for numbers of slices and points."""
    description: str = ""

    @property
    def dtype(self) -> str:
        """The type of the values, also where there are none yet."""
        return "int64" if self.key in ("", "run.seed") else "float64"
