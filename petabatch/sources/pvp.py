"""PetaVision's .pvp files: activities, dense or sparse, and weights.

A file is read in parts: of an activity file one frame at a time. The format is that of PetaVision's
`utils/BufferUtilsPvp.hpp:30-92`.
"""

from __future__ import annotations

import os
import struct
import weakref
from array import array
from dataclasses import dataclass
from typing import Any

import numpy as np

from petabatch.errors import InputError
from petabatch.regular_files import open_regular
from petabatch.sources.files import unreadable
from petabatch.sources.gallery import Gallery, lacking
from petabatch.sources.pixels import MOST_PIXELS
from petabatch.sources.shared import shared_handle

_HEADER = struct.Struct("<18id")
_WEIGHTS = struct.Struct("<3i2fi")
_TYPES = {
    2: "binary activities",
    3: "weights, not shared",
    4: "activities",
    5: "weights",
    6: "sparse activities",
}
_EXPECTED = "a complete .pvp file of PetaVision"
_MOST_VALUES = 1 << 31
_BINARY: np.dtype[Any] = np.dtype([("at", "<u4")])
_DENSE: dict[tuple[int, int], np.dtype[Any]] = {
    (3, 4): np.dtype("<f4"),
    (2, 4): np.dtype("<i4"),
    (1, 1): np.dtype("u1"),
}
"""Types of the values of dense activities, by data type and size."""


@dataclass(frozen=True)
class Header:
    """The first bytes of a file."""

    size: int
    kind: int
    nx: int
    ny: int
    nf: int
    arbors: int
    datasize: int
    datatype: int
    nx_extended: int
    ny_extended: int
    frames: int
    """Frames that the file says to have."""
    time: float


class Pvp:
    """An open .pvp file."""

    def __init__(self, path: str) -> None:
        self.path = path
        try:
            opened = open_regular(path)
            self.file = opened.fileno()
            weakref.finalize(self, opened.close)
            self.length = os.fstat(self.file).st_size
        except OSError as error:
            raise unreadable(path, error, _EXPECTED) from error
        self.header = self._header(0)

    def bytes(self, at: int, count: int) -> bytes:
        """Return bytes of the file; raises InputError if it ends before."""
        try:
            found = os.pread(self.file, count, at) if at + count <= self.length else b""
            while 0 < len(found) < count:
                found += os.pread(self.file, count - len(found), at + len(found))  # 2 GB at a time
        except OSError as error:
            raise unreadable(self.path, error, _EXPECTED) from error
        if len(found) < count:
            raise self.damaged(f"it ends at byte {self.length:,}, within what begins at {at:,}")
        return found

    def damaged(self, reason: str) -> InputError:
        """Return the error for a file that is not what it should be."""
        return unreadable(self.path, ValueError(reason), _EXPECTED)

    def _header(self, at: int) -> Header:
        v = _HEADER.unpack(self.bytes(at, _HEADER.size))
        if v[0] not in (80, 104) or v[1] * 4 != v[0]:
            raise self.damaged("it does not begin as one")
        if v[2] not in _TYPES:
            raise self.damaged(f"files of type {v[2]} are not supported")
        found = Header(v[0], v[2], v[3], v[4], v[5], v[6], v[8], v[9], v[12], v[13], v[17], v[18])
        if min(found.nx, found.ny, found.nf) < 1 or found.nx * found.ny > MOST_PIXELS:
            raise self.damaged(f"its size is {found.ny} x {found.nx} x {found.nf}")
        return found


class Activities(Pvp):
    """An open file of activities; frames of the elements of a batch follow each other."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        header = self.header
        if header.kind in (3, 5):
            raise self.damaged(f"it holds {_TYPES[header.kind]}, not activities")
        self.shape = (header.ny, header.nx, header.nf)
        self.units = header.ny * header.nx * header.nf
        if self.units > _MOST_VALUES:
            raise self.damaged(f"its size is {header.ny} x {header.nx} x {header.nf}")
        self.starts: array[int] | None = None
        self.entry: np.dtype[Any] = np.dtype(
            [("at", "<u4"), ("value", "<f4")] if header.kind == 6 else [("at", "<u4")]
        )
        if header.kind == 4:
            known = _DENSE.get((header.datatype, header.datasize))
            if known is None:
                raise self.damaged(f"its values have type {header.datatype}, {header.datasize} bytes each")
            self.dtype = known
            self.stride = 8 + self.units * known.itemsize
            self.count = max(0, self.length - header.size) // self.stride
        else:
            self.starts = self._index()
            self.count = len(self.starts)
        self.count = min(self.count, header.frames) if header.frames > 0 else self.count

    def _index(self) -> array[int]:
        """Return where each sparse frame starts; a frame that is cut off ends the list."""
        starts, at, size = array("q"), self.header.size, self.entry.itemsize
        while at + 12 <= self.length:
            count = struct.unpack("<i", self.bytes(at + 8, 4))[0]
            if not 0 <= count <= self.units:
                raise self.damaged(f"a frame at byte {at:,} has {count:,} active units of {self.units:,}")
            after = at + 12 + count * size
            if after > self.length:
                break
            starts.append(at)
            at = after
        return starts

    def frame(self, number: int) -> np.ndarray:
        """Return the values of a frame, `[ny, nx, nf]`."""
        if self.starts is None:
            data = self.bytes(self.header.size + number * self.stride + 8, self.stride - 8)
            return np.frombuffer(data, self.dtype).reshape(self.shape)
        start = self.starts[number]
        count = struct.unpack("<i", self.bytes(start + 8, 4))[0]
        active = np.frombuffer(self.bytes(start + 12, count * self.entry.itemsize), self.entry)
        if count and active["at"].max() >= self.units:
            raise self.damaged(f"frame {number} names unit {active['at'].max():,} of {self.units:,}")
        try:
            found = np.zeros(self.units, np.float32)
        except MemoryError:
            size = " x ".join(map(str, self.shape))
            raise self.damaged(f"a frame of {size} does not fit into memory") from None
        found[active["at"]] = active["value"] if self.header.kind == 6 else 1.0
        return found.reshape(self.shape)

    def time(self, number: int) -> float:
        """Return the time of a frame."""
        start = self.header.size + number * self.stride if self.starts is None else self.starts[number]
        found: float = struct.unpack("<d", self.bytes(start, 8))[0]
        return found


class Weights(Pvp):
    """An open file of weights."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        h = self.header
        if h.kind not in (3, 5) or h.size != 104:
            raise self.damaged(f"it holds {_TYPES[h.kind]}, not weights")
        self.patch, self.grid, self.stride = self._shapes(0)
        self.count = max(0, self.length) // self.stride

    def _shapes(self, at: int) -> tuple[tuple[int, int, int], tuple[int, int], int]:
        """Return `[nyp, nxp, nf_post]`, rows and columns of patches, and the bytes of a frame."""
        h = self._header(at)
        nxp, nyp, nfp, _, _, count = _WEIGHTS.unpack(self.bytes(at + 80, 24))
        grid = (h.ny, h.nx) if h.kind == 5 else (h.ny_extended, h.nx_extended)
        if h.kind == 5 and count == h.nf:
            grid = (1, 1)  # older files have the size of the pre layer here
        if h.kind == 3 and h.nx * h.ny * h.nf == count:
            grid = (h.ny, h.nx)  # some have that of the layer with its margins first
        if min(nxp, nyp, nfp, h.arbors, *grid) < 1 or grid[0] * grid[1] * h.nf != count:
            raise self.damaged(
                f"it has {count} patches {nyp} x {nxp} x {nfp} on {grid[0]} x {grid[1]} x {h.nf}"
            )
        if (h.datatype, h.datasize) not in ((3, 4), (1, 1)):
            raise self.damaged(f"its values have type {h.datatype}, {h.datasize} bytes each")
        patch = 8 + nyp * nxp * nfp * h.datasize
        return (nyp, nxp, nfp), grid, 104 + h.arbors * count * patch

    def frame(self, number: int) -> np.ndarray:
        """Return the weights of a frame, `[arbors, ky, kx, nf_pre, nyp, nxp, nf_post]`, float32.

        Negative numbers count from the end. Weights of a byte each are scaled to their range.
        """
        if not -self.count <= number < self.count:
            raise self.damaged(f"it has {self.count} frames, not a frame {number}")
        at = (number % self.count) * self.stride
        if self._shapes(at) != (self.patch, self.grid, self.stride):
            raise self.damaged(f"frame {number} has another shape than frame 0")
        h = self.header
        compressed = h.datasize == 1
        patch = np.dtype(
            [("cut", "<u2", 2), ("offset", "<u4"), ("w", "u1" if compressed else "<f4", self.patch)]
        )
        data = np.frombuffer(self.bytes(at + 104, self.stride - 104), patch)["w"]
        found = data.astype(np.float32)
        if compressed:
            low, high = struct.unpack("<2f", self.bytes(at + 92, 8))
            found = np.float32(low) + found / np.float32(255) * np.float32(high - low)
        return found.reshape(h.arbors, *self.grid, h.nf, *self.patch)

    def time(self, number: int) -> float:
        """Return the time of a frame."""
        return self._header((number % self.count) * self.stride).time


open_activities = shared_handle(Activities)
"""An open file of activities, one for all that read it."""


def pvp_images(path: str) -> Gallery:
    """Return the frames of a file of activities as images; raises InputError if there are none."""
    file: Any = open_activities(path)
    if file.count == 0:
        raise file.damaged("it has no complete frame")

    def read(number: int, rows: slice, columns: slice) -> np.ndarray:
        return np.asarray(file.frame(number)[rows, columns])

    gallery = Gallery(
        [file.shape] * file.count,
        read,
        lambda number: f"{path}[{number}]",
        stack=(file.count, *file.shape),
        holders=[(path, file.count)],
        file=file,
    )
    missing = file.header.frames - file.count
    if 0 < missing <= 1 << 20:
        return lacking(gallery, missing, file.damaged(f"it has {file.count} of {file.header.frames} frames"))
    return gallery
