"""`petabatch import x.pvp`: activities and weights of PetaVision as `.npy` and HDF5 files."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import ArgumentError
from petabatch.petavision.pvp import KINDS_OF_WEIGHTS
from petabatch.sources.pvp import Activities, Pvp, Weights
from petabatch.storage.atomic import new_hdf5

_LARGEST = 1 << 22
"""Values of the largest chunk; HDF5 compresses a chunk in memory."""


def convert_pvp(source: Path, output: Path | None, force: bool) -> str:
    """Write the frames of a `.pvp` file, one by one; return what was written.

    An HDF5 file has the datasets `frames` (or `weights`) and `time`. Raises ArgumentError if the output is
    neither, or exists and `force` is not given; InputError if the file is damaged.
    """
    if output is None or output.suffix not in (".npy", ".h5", ".hdf5"):
        raise ArgumentError("--output", "frames become a .npy or HDF5 file", output, f"{source.stem}.h5")
    if output.exists() and not force:
        raise ArgumentError("--output", "this file exists", str(output), hint="--force replaces it")
    weights = Pvp(str(source)).header.kind in KINDS_OF_WEIGHTS
    file: Any = Weights(str(source)) if weights else Activities(str(source))
    if file.count == 0:
        raise file.damaged("it has no complete frame")
    name, shape = ("weights" if weights else "frames"), (file.count, *file.frame(0).shape)
    if output.suffix == ".npy":
        array = np.lib.format.open_memmap(output, "w+", np.float32, shape)
        for number in range(file.count):
            array[number] = file.frame(number)
        array.flush()
    else:
        with new_hdf5(output) as (made, _):
            frames = made.create_dataset(
                name, shape, "float32", chunks=_chunks(shape), compression="gzip", shuffle=True
            )
            times = made.create_dataset("time", shape[:1], "float64")
            for number in range(file.count):
                frames[number] = file.frame(number)
                times[number] = file.time(number)
    return f"{output}: {name} {list(shape)}"


def _chunks(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of a chunk: a frame, or a part of a large one."""
    found = [1, *shape[1:]]
    for axis in range(1, len(found)):
        others = math.prod(found) // found[axis]
        found[axis] = max(1, min(found[axis], _LARGEST // others))
    return tuple(found)
