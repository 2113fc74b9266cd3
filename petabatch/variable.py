"""Declarations of arrays. One declaration drives allocation, output, units and checkpoints alike."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

Array = Any
"""A numpy or cupy array; which one is the kernels' choice."""

Border = Literal["zero", "mirror", "image"] | float | Array
"""What lies beyond the edge of a layer: zeros, the mirrored layer (edge unit repeated), a value, or the image
it is a part of, which kernels get as an array with as much around the layer as they may ask for."""


def host(array: Array) -> np.ndarray:
    """Return an array as numpy's: itself, or a copy of what is on a GPU."""
    copied: np.ndarray = array.get() if hasattr(array, "get") else np.asarray(array)
    return copied


def module_of(array: Array) -> Any:
    """Return the array module of an array: numpy, or cupy."""
    if hasattr(array, "__array_namespace__"):
        return array.__array_namespace__()
    import cupy  # whose arrays do not say

    return cupy


@dataclass(frozen=True)
class Variable:
    """One array of a layer, connection or probe.

    `shape` and `dims` leave out the leading axis, which is the batch (`per = "slice"`) or has length
    one (`per = "network"`: one value for all slices, as the weights of mode `extra_shared`).
    """

    name: str
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    description: str = ""
    units: str = "1"
    dtype: Literal["float", "float32", "float64", "int64", "uint8"] = "float"
    """`float` is the precision of the run (`run.precision`)."""
    initial: float = 0.0
    per: Literal["slice", "network"] = "slice"
    checkpoint: bool = True
    """False for what is computed anew before it is read: scratch space and derived weights."""


@dataclass(frozen=True)
class Stream:
    """One dataset of the run file that grows with time: what a probe measures or an output samples.

    `shape` and `dims` leave out the leading time axis. `batched` streams have `batch` as the first of
    `dims`, with the global batch size in `shape`; every rank records its own slices. Streams that are not
    batched are recorded by rank 0 alone.
    """

    path: str
    """Place in the file, as `layers/V1/A`, `connections/dictionary/weights` or `probes/energy/total`."""
    shape: tuple[int, ...]
    dims: tuple[str, ...]
    dtype: str
    batched: bool
    description: str = ""
    units: str = "1"
    sparse: bool = False
    """Mostly zeros: stored in compressed chunks of one slice at one time."""
