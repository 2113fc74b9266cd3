"""A variable of a running network as an array that can be assigned to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np

from petabatch.arrays import as_numpy, described
from petabatch.errors import ArgumentError


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


def assigned(name: str, array: np.ndarray, key: Any, value: Any, infinite: bool = False) -> np.ndarray:
    """Return a copy of an array with `array[key] = value`; raises ArgumentError when that is impossible."""
    what = f"{array.dtype} {list(array.shape)}"
    given = as_numpy(name, value, what)
    if not np.can_cast(given.dtype, array.dtype, "same_kind"):
        raise ArgumentError(name, "the values have the wrong type", described(given), what)
    with np.errstate(over="ignore"):
        given = given.astype(array.dtype)
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
    except (IndexError, ValueError, TypeError) as error:
        raise ArgumentError(name, f"cannot be assigned: {error}", described(given), what) from None
    return changed
