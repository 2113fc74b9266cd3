"""Arrays of other libraries, such as those of torch, JAX and CuPy: to numpy's, and back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np

from petabatch.errors import ArgumentError, Described, shortened

Channels = Literal["last", "first"]
"""The axis of the channels of images: `[y, x, c]`, or `[c, y, x]` as in torch."""

EXPECTED = "an array of numbers"


def is_array(value: Any) -> bool:
    """Return whether a value is an array, of any library."""
    return any(hasattr(value, name) for name in ("__array__", "__dlpack__", "__array_interface__"))


def as_numpy(name: str, value: Any, expected: str = EXPECTED) -> np.ndarray:
    """Return an array of any library, or a nested list, as one of numpy, on the host.

    Nothing is copied that numpy can see. Raises ArgumentError for what is not an array of real numbers, for
    masked values, and for tensors that require gradients, since none flow through petabatch.
    """
    if isinstance(value, list | tuple) and any(is_array(one) for one in value):
        return _stacked(name, value, expected)
    if np.ma.is_masked(value):
        masked = np.ma.getmaskarray(value)
        found = Described(f"{int(masked.sum()):,} of {masked.size:,} values")
        hint = "array.filled(0) puts a number in their place"
        raise ArgumentError(name, "some values are masked", found, expected, hint)
    if getattr(value, "requires_grad", False):
        hint = "no gradient flows through petabatch: pass tensor.detach()"
        raise ArgumentError(name, "this tensor requires gradients", described(value), expected, hint)
    if isinstance(value, str | bytes | dict | set) or value is None:
        raise ArgumentError(name, "this is not an array", value, expected)
    if _is_dataset(value):
        hint = "a data set is the `data` of petabatch.sources.Dataset; petabatch.encode takes it as it is"
        raise ArgumentError(name, "this is not an array", value, expected, hint)
    array = _on_host(name, value, expected)
    if array.dtype.name == "bfloat16":  # of JAX; numpy has no such numbers
        array = array.astype(np.float32)
    if array.dtype.kind not in "fiub":
        found = described(array) if array.ndim and is_array(value) else value
        raise ArgumentError(name, "this is not an array of real numbers", found, expected)
    return array


def channels_last(array: np.ndarray, channels: Channels) -> np.ndarray:
    """Return images `[..., y, x, c]`, of `[..., c, y, x]` where channels are first."""
    return np.moveaxis(array, -3, -1) if channels == "first" and array.ndim > 2 else array


def channels_first(array: np.ndarray, channels: Channels) -> np.ndarray:
    """Return images `[..., y, x, c]` as a caller has them, `[..., c, y, x]` where channels are first."""
    return np.moveaxis(array, -1, -3) if channels == "first" and array.ndim > 2 else array


def like(given: Any) -> Callable[[np.ndarray], Any]:
    """Return a function that makes of numpy's arrays those of the library and device of `given`.

    Where `given` is a list, of its first item; numpy's remain what they are where it is no array.
    """
    while isinstance(given, list | tuple) and given:
        given = given[0]
    space = library(given)
    if space is None:
        return lambda array: array
    device = getattr(given, "device", None)

    def convert(array: np.ndarray) -> Any:
        writable = array if array.flags.writeable else array.copy()
        try:
            return space.asarray(writable, device=device)
        except TypeError:  # CuPy: its arrays are on the current device
            return space.asarray(writable)

    return convert


def described(array: Any) -> Described:
    """Return the type and shape of an array, for messages."""
    shape = list(getattr(array, "shape", ()))
    return Described(f"{getattr(array, 'dtype', type(array).__name__)} {shape}")


def library(given: Any) -> Any:
    """Return the module whose `asarray` makes arrays like this, None for numpy's and what is no array."""
    if isinstance(given, np.ndarray | np.generic) or not hasattr(given, "__dlpack__"):
        return None
    if hasattr(given, "__array_namespace__"):
        return given.__array_namespace__()
    space = sys.modules.get(type(given).__module__.partition(".")[0])  # torch
    return space if hasattr(space, "asarray") else None


def _is_dataset(value: Any) -> bool:
    """Return whether a value only gives items by number, as data sets of torch do.

    numpy would ask for items until there is an IndexError, which these may never raise.
    """
    if is_array(value) or isinstance(value, Sequence) or not hasattr(value, "__getitem__"):
        return False
    try:
        memoryview(value)
    except TypeError:
        return True
    return False


def _stacked(name: str, values: Sequence[Any], expected: str) -> np.ndarray:
    """Return arrays of one shape as one array."""
    arrays = [as_numpy(f"{name}[{number}]", one, expected) for number, one in enumerate(values)]
    for number, array in enumerate(arrays):
        if array.shape != arrays[0].shape:
            found = Described(f"{list(arrays[0].shape)}, and {list(array.shape)} of item {number}")
            raise ArgumentError(
                name, "these arrays differ in shape", found, f"{expected}, of arrays of one shape"
            )
    return np.stack(arrays)


def _on_host(name: str, value: Any, expected: str) -> np.ndarray:
    """Return an array in the memory of the host; raises ArgumentError for what is none."""
    try:
        array = np.asarray(value)
        if array.dtype.kind != "O" or not hasattr(value, "__dlpack__"):
            return array
        reason = "it is read by DLPack alone"
    except Exception as error:  # of any library
        reason = str(error).partition("\n")[0]
    if isinstance(value, list | tuple):
        what = Described(shortened(repr(value)))
        raise ArgumentError(name, "these lists are not an array: their lengths differ", what, expected)
    for copied in (
        lambda: np.from_dlpack(value, device="cpu", copy=True),  # where the library asks its device for it
        lambda: np.asarray(value.get()),  # CuPy
        lambda: np.asarray(value.cpu()),  # torch
    ):
        try:
            return copied()
        except Exception:
            continue
    what = described(value) if is_array(value) else value
    hint = "convert it to float32" if "bfloat16" in str(what) else ""
    raise ArgumentError(name, f"this is not an array that numpy can read: {reason}", what, expected, hint)
