"""NumPy archives: one array of a `.npz` file, or all of them."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from petabatch.errors import InputError, did_you_mean
from petabatch.parallel.host_memory import memory_limit
from petabatch.regular_files import open_regular
from petabatch.sizes import size_text
from petabatch.sources.files import (
    MOST_BYTES,
    NPY_ERRORS,
    ZIP,
    decompressed_too_large,
    mapped,
    npy_header,
    refuse_others,
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
_COPIES = 3
"""Of arrays that are read whole, at least, while they are sorted."""
_LOCAL = struct.Struct("<26x2H")
"""A file's header in the archive, which ends with the lengths of its name and of an extra field."""


def open_npz(path: str, name: str | None) -> np.ndarray:
    """Return array `name` of an archive, by default its only one.

    It is memory-mapped, or decompressed in memory where the archive is compressed. Raises InputError if the
    file or the array is missing or damaged.
    """
    try:
        with open_regular(path) as opened, zipfile.ZipFile(opened) as archive:
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


def read_npz(path: str, expected: str, hints: Mapping[str, str]) -> dict[str, np.ndarray]:
    """Return all arrays of an archive by name.

    Raises InputError if it is damaged or none; `hints` say what to do with a file of another kind.
    """
    refuse_others(path, ZIP, expected, hints)
    try:
        with open_regular(path) as opened, np.load(opened, allow_pickle=False) as file:
            nbytes, limit = sum(info.file_size for info in file.zip.infolist()), memory_limit()
            if _COPIES * nbytes > limit.nbytes:
                raise InputError(
                    f"{path}: the arrays of this file do not fit into memory\n"
                    f"    found:    {size_text(nbytes)}, which need {_COPIES} times as much while they are "
                    f"sorted\n    expected: at most {size_text(limit.nbytes // _COPIES)}, for {limit.what}"
                )
            return {name: np.asarray(file[name]) for name in file.files}
    except NPZ_ERRORS as error:
        raise unreadable(path, error, expected) from error


def refuse_unknown(path: str, names: Iterable[str], known: Sequence[str]) -> None:
    """Raise InputError for an array that nobody would read."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known)
            raise InputError(
                f"{path}: there is no use for one of its arrays\n    found:    {name}\n"
                f"    expected: {', '.join(known)}" + (f"\n    hint:     {hint}" if hint else "")
            )


def _mapped(path: str, member: zipfile.ZipInfo) -> np.ndarray:
    """Return the array of a member that is stored as it is."""
    with open_regular(path) as file:
        file.seek(member.header_offset)
        start = member.header_offset + _LOCAL.size + sum(_LOCAL.unpack(file.read(_LOCAL.size)))
        file.seek(start)
        shape, fortran, dtype = npy_header(file)
        origin = file.tell()
    end = origin + math.prod(shape) * dtype.itemsize
    if dtype.hasobject or end - start > member.file_size:
        raise ValueError("it does not hold the numbers that its header promises")
    return mapped(path)[origin:end].view(dtype).reshape(shape, order="F" if fortran else "C")
