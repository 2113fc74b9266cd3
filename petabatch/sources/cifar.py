"""CIFAR-10 and CIFAR-100: batches in the binary and in the Python version."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import numpy as np

from petabatch.errors import InputError
from petabatch.regular_files import open_regular, regular
from petabatch.sources.files import mapped, unreadable
from petabatch.sources.gallery import Gallery, joined, stacked, unusable
from petabatch.sources.over_files import errors_of, over_files
from petabatch.sources.paths import Files, find_files
from petabatch.sources.shared import shared, shared_handle
from petabatch.sources.view import View

_PIXELS = 3 * 32 * 32
_ERRORS = (OSError, EOFError, pickle.UnpicklingError, ValueError, TypeError, LookupError, AttributeError,
           ImportError, struct.error, OverflowError, MemoryError, RecursionError)  # fmt: skip
"""What unpickling a damaged file raises."""


class Cifar10(View):
    """Colour images of 32 x 32 pixels in the batches of CIFAR-10, binary or Python version.

    The pickled batches of the Python version are read without executing anything that they name.
    """

    labels: ClassVar[int] = 1
    """Bytes of labels before the pixels of an image, in the binary version."""
    type: Literal["cifar10"] = "cifar10"
    files: Files
    """Batches, such as `cifar-10-batches-py/data_batch_*`, or a folder of `.bin` files."""

    def paths(self) -> Sequence[str]:
        """Return the files; raises InputError if there are none."""
        return find_files(self.files, (".bin",), "CIFAR batches")

    def gallery(self) -> Gallery:
        """Open the batches; in place of one that is none stands one bad image."""
        return _batches(self.paths(), self.labels)


class Cifar100(Cifar10):
    """Colour images of 32 x 32 pixels in the files of CIFAR-100, binary or Python version.

    The pickled files of the Python version are read without executing anything that they name.
    """

    labels = 2
    type: Literal["cifar100"] = "cifar100"  # type: ignore[assignment]


@shared
def _batches(paths: Sequence[str], labels: int) -> Gallery:
    def opened(path: str) -> Gallery:
        if path.endswith(".bin"):
            return _binary(path, labels)
        planes = _pickled(path)
        return stacked(_images(planes), path, planes)

    found = over_files(errors_of(opened), paths, f"opening {len(paths):,} batches")
    pairs = zip(paths, found, strict=True)
    return joined([unusable(path, one) if isinstance(one, InputError) else one for path, one in pairs])


def _images(planes: np.ndarray) -> np.ndarray:
    """Return images `[n, 32, 32, 3]` of the stored planes of colours."""
    return planes.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1)


class _Array:
    """What a pickle says of an array or of its dtype. Nothing of numpy's is called: with a crafted dtype, its
    own unpickling would follow arbitrary pointers."""

    def __init__(self, *arguments: Any) -> None:
        self.arguments = arguments
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def uint8(self) -> np.ndarray | None:
        """Return the array `[n, pixels]`; None if this is not one of 8-bit numbers."""
        try:
            _, (rows, columns), dtype, fortran, content = self.state
            if dtype.arguments[0] not in ("u1", b"u1") or fortran or not isinstance(content, bytes):
                return None
            return np.frombuffer(content, np.uint8).reshape(rows, columns)
        except (ValueError, TypeError, AttributeError, LookupError):
            return None


class _Encode:
    """The bytes of an array that are stored as a text."""

    __slots__ = ()

    def __call__(self, text: Any, encoding: Any) -> bytes:
        if not isinstance(text, str) or encoding not in ("latin1", b"latin1"):
            raise pickle.UnpicklingError("it encodes a text that is not part of an array")
        return text.encode("latin1")


_NAMED: dict[tuple[str, str], Any] = {
    **{(f"numpy.{core}.multiarray", "_reconstruct"): _Array for core in ("core", "_core")},
    ("numpy", "ndarray"): _Array,
    ("numpy", "dtype"): _Array,
    ("_codecs", "encode"): _Encode(),
}
"""What the pickled arrays of the Python version name; nothing is looked up."""


class _Unpickler(pickle._Unpickler):
    """Builds plain containers and descriptions of arrays, and nothing else.

    The implementation in C takes gigabytes for a small file that claims to have many objects.
    """

    def find_class(self, module: str, name: str) -> Any:
        """Return what stands for a name; raises UnpicklingError unless it belongs to an array."""
        if (module, name) not in _NAMED:
            raise pickle.UnpicklingError(f"it names {module}.{name}, which is not part of an array")
        return _NAMED[module, name]


def _binary(path: str, labels: int) -> Gallery:
    """Return the images of a batch, of which the last is bad if it is incomplete."""
    record = labels + _PIXELS
    try:
        size = os.path.getsize(regular(path))
        count, torn = divmod(size, record)
        problem = InputError(
            f"{path}: the length of this file is wrong\n    found:    {size:,} bytes\n"
            f"    expected: a multiple of {record:,}: {labels} for labels and 3 x 32 x 32 for each image"
        )
        if not count:
            raise problem
        stored = mapped(path)
        records = stored[: count * record].reshape(-1, record)
        return stacked(_images(records[:, labels:]), path, stored, 1, problem if torn else None)
    except OSError as error:
        raise unreadable(path, error, "a binary CIFAR batch") from error


@shared_handle
def _pickled(path: str) -> np.ndarray:
    """Return the planes of colours `[n, pixels]` of a batch; raises InputError if it is none."""
    expected = "a batch of the Python version of CIFAR"
    try:
        with open_regular(path) as file:
            stored = _Unpickler(file, encoding="bytes").load()
    except _ERRORS as error:
        raise unreadable(path, error, expected) from error
    found = stored.get(b"data") if isinstance(stored, dict) else None
    data = found.uint8() if isinstance(found, _Array) else None
    if data is None or not len(data) or data.shape[1] != _PIXELS:
        raise InputError(
            f"{path}: there are no images in this file\n"
            f"    expected: {expected}, with `data` uint8 [n, {_PIXELS}]"
        )
    return data
