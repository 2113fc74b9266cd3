"""MATLAB files of version 5, as `save -v6` and `-v7` write them: their arrays of real numbers.

Each variable is one element: a type, a length and its content, which may be compressed. That of an array is
itself elements: flags, dimensions, name and numbers. MATLAB stores numbers in the smallest type that holds
them.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import numpy as np

from petabatch.sources.files import (
    HDF5,
    MOST_BYTES,
    decompressed_too_large,
    kind_of,
    mapped,
    unreadable,
    variable,
)
from petabatch.sources.shared import shared_handle

_HEADER, _TAG = 128, 8
"""Bytes before the first variable; bytes of type and length of an element."""
_MATRIX, _COMPRESSED = 14, 15
_STORED = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
"""Types of numbers in elements."""
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
"""Types of numbers in MATLAB."""
_OPAQUE = 17
"""Class of objects, which have no dimensions."""
_LOGICAL, _COMPLEX = 0x200, 0x800
_BEGINNING = 4096
"""Bytes of a compressed variable that have its name: MATLAB allows 63 letters."""
_ERRORS = (OSError, ValueError, TypeError, struct.error, zlib.error, OverflowError, MemoryError)
_EXPECTED = "a complete .mat file of version 5 or 7.3, as MATLAB's save -v6, -v7 and -v7.3 write"


def open_mat5(path: str, name: str | None) -> np.ndarray:
    """Return the variable `name` of a file, by default its only one.

    Raises InputError if it is missing, damaged, or not an array of real numbers.
    """
    try:
        content = mapped(path).data
        order = {b"IM": "<", b"MI": ">"}.get(bytes(content[126:_HEADER]))
        if order is None:
            raise ValueError(
                "it is HDF5 without MATLAB's header: give it a name that ends in .h5"
                if kind_of(path) == HDF5
                else "it is of another version"
            )
        found = [_variable(one, order) for one in _elements(content[_HEADER:], order)]
        variables = {one.name: one for one in found if one.name}  # others are of functions
        chosen = variables[variable(path, name, list(variables))]
        if chosen.nbytes > MOST_BYTES and chosen.compressed:
            raise decompressed_too_large(path, chosen.nbytes, "save -v7.3")
        return chosen.array()
    except _ERRORS as error:
        raise unreadable(path, error, _EXPECTED) from error


shared_mat5 = shared_handle(open_mat5)
"""The same for those who read it as long as a run lasts."""


@dataclass(frozen=True)
class _Variable:
    content: memoryview
    """The element's content, as it is stored."""
    compressed: bool
    order: str
    """Order of bytes, as numpy has it."""
    nbytes: int
    """Length of the content when it is not compressed."""
    flags: int
    shape: tuple[int, ...]
    name: str

    def array(self) -> np.ndarray:
        """Return the numbers; raises ValueError if they are not real ones, or not complete."""
        kind = _CLASSES.get(self.flags & 0xFF)
        if kind is None or self.flags & _COMPLEX:
            raise ValueError(f"{self.name} is not an array of real numbers")
        whole = _decompressed(self.content, _TAG + self.nbytes)[_TAG:] if self.compressed else self.content
        stored, numbers = _first(4, whole, self.order)[-1]
        values = np.frombuffer(numbers, self.order + _STORED.get(stored, "V1"))
        if stored not in _STORED or values.size != math.prod(self.shape):
            raise ValueError(f"{self.name} does not have the numbers that its shape promises")
        dtype = bool if self.flags & _LOGICAL else kind
        return values.astype(dtype, copy=False).reshape(self.shape, order="F")


def _elements(content: memoryview, order: str) -> Iterator[tuple[int, memoryview]]:
    """Yield type and content of each element; raises ValueError where one is not complete."""
    at = 0
    while at + _TAG <= len(content):
        kind, size = struct.unpack_from(order + "2I", content, at)
        begin, step = at + _TAG, 8
        if kind >> 16:  # up to four bytes stand in place of the length
            kind, size, begin = kind & 0xFFFF, kind >> 16, at + 4
            if size > 4:
                raise ValueError("an element has a wrong length")
        elif kind == _COMPRESSED:
            step = 1
        end = begin + size
        if end > len(content):
            raise ValueError("it ends too early")
        yield kind, content[begin:end]
        at += -(-(end - at) // step) * step


def _first(count: int, content: memoryview, order: str) -> list[tuple[int, memoryview]]:
    """Return the first elements of a variable; raises ValueError if there are fewer."""
    found = list(islice(_elements(content, order), count))
    if len(found) < count:
        raise ValueError("a variable is not complete")
    return found


def _variable(element: tuple[int, memoryview], order: str) -> _Variable:
    kind, content = element
    nbytes, beginning = len(content), content
    if kind == _COMPRESSED:
        some = _decompressed(content, _BEGINNING, whole=False)
        inner, nbytes = struct.unpack_from(order + "2I", some)
        beginning = some[_TAG:]
    if (inner if kind == _COMPRESSED else kind) != _MATRIX:
        raise ValueError("an element is not a variable")
    flags = struct.unpack_from(order + "I", _first(1, beginning, order)[0][1])[0]
    shape: tuple[int, ...] = ()
    if flags & 0xFF == _OPAQUE:
        (_, name) = _first(2, beginning, order)[-1]
    else:
        (_, sizes), (_, name) = _first(3, beginning, order)[1:]
        shape = tuple(np.frombuffer(sizes, order + "u4").tolist())
    return _Variable(content, kind == _COMPRESSED, order, nbytes, flags, shape, bytes(name).decode("ascii"))


def _decompressed(content: memoryview, size: int, whole: bool = True) -> memoryview:
    """Return the first `size` bytes; raises ValueError if they should be the whole and are not."""
    stream = zlib.decompressobj()
    found = stream.decompress(content, size)
    if whole:
        rest = stream.decompress(stream.unconsumed_tail, 1)  # up to the checksum
        if rest or not stream.eof or len(found) != size:
            raise ValueError("a compressed variable has a wrong length")
    return memoryview(found)
