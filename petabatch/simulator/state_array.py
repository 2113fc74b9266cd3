"""A variable of a running network as an array that can be assigned to, and arrays that take its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, get_args

import numpy as np

from petabatch.arguments import choice
from petabatch.arrays import Channels, as_numpy, channels_last, described
from petabatch.errors import ArgumentError, Described
from petabatch.variable import Whole


class StateArray(np.ndarray[Any, Any]):
    """A variable `[batch, ...]` as it was when it was read; assigning to its elements changes the network.

    Arithmetic and slices give plain arrays, which are copies.
    """

    _write: Callable[[Any, Any], np.ndarray] | None = None

    @classmethod
    def of(cls, values: np.ndarray, write: Callable[[Any, Any], np.ndarray]) -> Self:
        """Return `values` as such an array; `write(key, value)` assigns, and returns all values."""
        found = values.view(cls)
        found._write = write
        found.flags.writeable = False  # methods that change in place, such as `fill`, do not assign
        return found

    def __getitem__(self, key: Any) -> Any:
        """Return elements, as a copy."""
        found = np.asarray(self)[key]
        return found.copy() if isinstance(found, np.ndarray) else found

    def __setitem__(self, key: Any, value: Any) -> None:
        """Change elements of the network's array; raises ArgumentError when they cannot be `value`."""
        if self._write is None:
            super().__setitem__(key, value)
            return
        values = self._write(key, value)
        self.flags.writeable = True
        np.copyto(self, values)
        self.flags.writeable = False

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        """Compute with plain arrays; in place, as in `sim["V1"]["V"] += 1`, assign the result."""
        plain = [np.asarray(one) if isinstance(one, StateArray) else one for one in inputs]
        out = options.pop("out", None)
        if out is None or not isinstance(out[0], StateArray):
            options |= {} if out is None else {"out": out}
            return getattr(ufunc, method)(*plain, **options)
        out[0][...] = getattr(ufunc, method)(*plain, **options)
        return out[0]

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        """Return results of numpy's functions as plain arrays."""
        return array[()] if return_scalar else array

    def __reduce__(self) -> Any:
        """Copy and pickle as a plain array."""
        return np.array(self).__reduce__()


def assigned(
    name: str, array: np.ndarray, key: Any, value: Any, infinite: bool = False, whole: Whole | None = None
) -> np.ndarray:
    """Return a copy of an array with `array[key] = value`; raises ArgumentError when that is impossible."""
    what = f"{array.dtype} {list(array.shape)}"
    given = as_numpy(name, value, what)
    if not np.can_cast(given.dtype, array.dtype, "same_kind"):
        raise ArgumentError(name, "the values have the wrong type", described(given), what)
    of_any_size = given
    with np.errstate(over="ignore"):
        given = given.astype(array.dtype)
    if array.dtype.kind in "iu" and (given != of_any_size).any():
        raise ArgumentError(name, "some values are too large", described(of_any_size), what)
    if not (~np.isnan(given) if infinite else np.isfinite(given)).all():
        raise ArgumentError(
            name,
            "some values are not finite",
            described(given) if given.ndim else value,
            f"finite numbers as {array.dtype}",
        )
    changed = array.copy()
    try:
        changed[key] = given
    except IndexError as error:
        raise ArgumentError(
            name, f"there are no such elements: {error}", Described(f"[{key!r}]"), what
        ) from None
    except (ValueError, TypeError) as error:
        found = described(given) if given.ndim else value
        raise ArgumentError(name, f"cannot be assigned: {error}", found, what) from None
    if whole is not None and (wrong := whole.wrong(changed)):
        raise ArgumentError(name, "these values are not possible", Described(wrong), whole.expected())
    return changed


def images_for(shape: tuple[int, ...], images: Any, channels: Channels) -> np.ndarray:
    """Return images that are shown by hand, float32 of `shape`; raises ArgumentError if they do not fit."""
    choice("channels", channels, get_args(Channels))
    given = _fitting(as_numpy("images", images), shape, channels)
    return assigned("images", np.zeros(shape, np.float32), ..., given)


def _fitting(images: np.ndarray, shape: tuple[int, ...], channels: Channels) -> np.ndarray:
    """Return images with the channels last; raises ArgumentError if they cannot be broadcast to a shape."""
    found = channels_last(images, channels)
    if _broadcasts(found, shape):
        return found
    hint = 'channels = "first", if they are' if _broadcasts(channels_last(images, "first"), shape) else ""
    expected = f"{list(shape)}, or what can be broadcast to it"
    raise ArgumentError("images", "these images do not fit the layer", described(images), expected, hint)


def _broadcasts(array: np.ndarray, shape: tuple[int, ...]) -> bool:
    try:
        return np.broadcast_shapes(array.shape, shape) == shape
    except ValueError:
        return False
