"""Arrays by key, whose shapes and dtypes are fixed: assigning copies, and checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from petabatch.variable import Array


class FixedArrays(Mapping[str, Array]):
    """A mapping to arrays that stay where they are, so that views on them stay valid."""

    def __init__(self, arrays: Mapping[str, Array]) -> None:
        self._arrays = dict(arrays)

    def __getitem__(self, key: str) -> Array:
        """Return an array, to be read or changed in place."""
        return self._arrays[key]

    def __setitem__(self, key: str, value: Array) -> None:
        """Copy `value` into an array; raises ValueError unless shape and dtype are the array's."""
        array = self._arrays[key]
        if value.shape != array.shape or value.dtype != array.dtype:
            raise ValueError(
                f"cannot assign {value.dtype} {list(value.shape)} to {key}, "
                f"which is {array.dtype} {list(array.shape)}"
            )
        array[...] = value

    def __iter__(self) -> Iterator[str]:
        """Iterate over the keys."""
        return iter(self._arrays)

    def __len__(self) -> int:
        """Return the number of arrays."""
        return len(self._arrays)
