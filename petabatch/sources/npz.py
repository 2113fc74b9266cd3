"""NumPy archives: one array of a `.npz` file."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.files import (
    MOST_BYTES,
    NPY_ERRORS,
    decompressed_too_large,
    mapped,
    npy_header,
    unreadable,
    variable,
)
from petabatch.sources.shared import shared_handle

NPZ_ERRORS = (
    *NPY_ERRORS,
    KeyError,
    RuntimeError,
    NotImplementedError,
    struct.error,
    zipfile.BadZipFile,
    zlib.error,
)
"""What zipfile and numpy raise for damaged files."""
_LOCAL = struct.Struct("<26x2H")
"""A file's header in the archive, which ends with the lengths of its name and of an extra field."""


def open_npz(path: str, name: str | None) -> np.ndarray:
    """Return array `name` of an archive, by default its only one.

    It is memory-mapped, or decompressed in memory where the archive is compressed. Raises InputError if the
    file or the array is missing or damaged.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
            member = members[variable(path, name, list(members))]
            if member.compress_type == zipfile.ZIP_STORED:
                return _mapped(path, member)
            if member.file_size > MOST_BYTES:
                raise decompressed_too_large(path, member.file_size, "a .npy file, or numpy.savez")
            with archive.open(member) as file:
                values: np.ndarray = np.lib.format.read_array(file, allow_pickle=False)
                return values
    except InputError:
        raise
    except NPZ_ERRORS as error:
        raise unreadable(path, error, "a complete .npz file of numbers") from error


shared_npz = shared_handle(open_npz)
"""The same for those who read it as long as a run lasts."""


def _mapped(path: str, member: zipfile.ZipInfo) -> np.ndarray:
    """Return the array of a member that is stored as it is."""
    with open(path, "rb") as file:
        file.seek(member.header_offset)
        start = member.header_offset + _LOCAL.size + sum(_LOCAL.unpack(file.read(_LOCAL.size)))
        file.seek(start)
        shape, fortran, dtype = npy_header(file)
        origin = file.tell()
    end = origin + math.prod(shape) * dtype.itemsize
    if dtype.hasobject or end - start > member.file_size:
        raise ValueError("it does not hold the numbers that its header promises")
    return mapped(path)[origin:end].view(dtype).reshape(shape, order="F" if fortran else "C")
