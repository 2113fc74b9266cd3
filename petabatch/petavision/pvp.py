"""Writing of PetaVision's .pvp files; `petabatch.sources.pvp` reads them."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

import numpy as np

_HEADER = struct.Struct("<18id")
_FLOAT = 3
KINDS_OF_WEIGHTS = (3, 5)
"""Types of files of weights: not shared, and shared."""


def write_activities(
    path: Path, shape: tuple[int, int, int], frames: Iterable[tuple[float, np.ndarray]], sparse: bool = False
) -> int:
    """Write frames `[ny, nx, nf]` and their times; return how many there were.

    Frames are taken and written one by one. Of a `sparse` file, only values other than 0 are stored.
    """
    with path.open("wb") as file:
        _activity_header(file, shape, sparse, 0)
        count = 0
        for time, values in frames:
            flat = np.ascontiguousarray(values, "<f4").reshape(-1)
            file.write(struct.pack("<d", time))
            file.write(_active(flat) if sparse else flat.tobytes())
            count += 1
        file.seek(0)
        _activity_header(file, shape, sparse, count)
    return count


def _activity_header(file: BinaryIO, shape: tuple[int, int, int], sparse: bool, count: int) -> None:
    ny, nx, nf = shape
    kind, record, size = (6, 0, 8) if sparse else (4, nx * ny * nf, 4)
    ends = (1, 1, nx, ny, 0, 0, 1, count)
    file.write(_HEADER.pack(80, 20, kind, nx, ny, nf, 1, record, size, _FLOAT, *ends, 0.0))


def _active(flat: np.ndarray) -> bytes:
    at = np.flatnonzero(flat)
    entries = np.empty(len(at), [("at", "<u4"), ("value", "<f4")])
    entries["at"], entries["value"] = at, flat[at]
    return struct.pack("<i", len(at)) + entries.tobytes()


def write_weights(
    path: Path,
    frames: Iterable[tuple[float, np.ndarray]],
    units: tuple[int, int] | None = None,
) -> int:
    """Write weights `[ky, kx, nf_pre, nyp, nxp, nf_post]` and their times; return the number of frames.

    With `units`, the rows and columns of the pre layer, they are not shared: `ky, kx` count patches of the
    layer with its margins.
    """
    count = 0
    with path.open("wb") as file:
        for time, weights in frames:
            ky, kx, nf, nyp, nxp, nfp = weights.shape
            ny, nx = units or (ky, kx)
            kind = 5 if units is None else 3
            head = (104, 26, kind, nx, ny, nf, 1, 0, 4, _FLOAT, 1, 1, kx, ky, 0, 0, 1, 1, time)
            file.write(_HEADER.pack(*head))
            values = np.ascontiguousarray(weights, "<f4").reshape(-1, nyp * nxp * nfp)
            extent = float(values.min()), float(values.max())
            file.write(struct.pack("<3i2fi", nxp, nyp, nfp, *extent, len(values)))
            patch = np.empty(
                len(values), [("nx", "<u2"), ("ny", "<u2"), ("offset", "<u4"), ("w", "<f4", values.shape[1])]
            )
            patch["nx"], patch["ny"], patch["offset"], patch["w"] = nxp, nyp, 0, values
            file.write(patch.tobytes())
            count += 1
    return count
