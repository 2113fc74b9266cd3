"""What ranks say to each other, and the stand-in for a single process, which needs no MPI."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from petabatch.errors import ResourceError


class Comm(Protocol):
    """A group of ranks; every method but `abort` is collective: all ranks call it, in the same order."""

    rank: int
    size: int

    def barrier(self) -> None:
        """Wait for all ranks."""

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values in rank order on rank 0, None elsewhere."""

    def sum_int64(self, array: np.ndarray) -> None:
        """Replace an int64 array by its sum over ranks."""

    def max_int32(self, array: np.ndarray) -> None:
        """Replace an int32 array by its maximum over ranks."""

    def any(self, flags: int) -> int:
        """Return the bitwise or of all ranks' flags."""

    def abort(self, code: int) -> None:
        """End all ranks at once."""


def share(batch: int, rank: int, size: int) -> tuple[int, int]:
    """Return the global slices lo <= slice < hi that a rank owns; shares differ by one slice at most.

    Raises ResourceError when there are more ranks than slices.
    """
    if size > batch:
        raise ResourceError(
            f"{size} ranks are more than the batch of {batch} slices\n"
            f"    hint:     start at most {batch} ranks, or raise run.batch"
        )
    return batch * rank // size, batch * (rank + 1) // size


class Serial:
    """One process, alone."""

    rank = 0
    size = 1

    def barrier(self) -> None:
        """Return at once."""

    def broadcast(self, value: Any) -> Any:
        """Return the value."""
        return value

    def gather(self, value: Any) -> list[Any] | None:
        """Return the one value."""
        return [value]

    def sum_int64(self, array: np.ndarray) -> None:
        """Leave the array as it is."""

    def max_int32(self, array: np.ndarray) -> None:
        """Leave the array as it is."""

    def any(self, flags: int) -> int:
        """Return the flags."""
        return flags

    def abort(self, code: int) -> None:
        """Do nothing: the one process ends by itself."""
