"""Ranks of an MPI program. Imported only when a run is launched under MPI."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from petabatch.errors import ResourceError


class MPI:
    """The communicator of all ranks, through mpi4py."""

    def __init__(self) -> None:
        """Start MPI; raises ResourceError when mpi4py or the MPI library behind it is missing."""
        try:
            from mpi4py import MPI as mpi
        # mpi4py without an MPI library raises RuntimeError, not ImportError.
        except (ImportError, RuntimeError) as error:
            raise ResourceError(
                f"MPI cannot be used: {error}\n"
                f"    expected: mpi4py, and a libmpi in {sys.prefix}/lib, on the loader's path, or named by "
                "MPI4PY_LIBMPI\n"
                "    hint:     pip install 'petabatch[mpi]', or load your cluster's MPI module"
            ) from error
        self._mpi = mpi
        self._world = mpi.COMM_WORLD
        self.rank: int = self._world.rank
        self.size: int = self._world.size

    def barrier(self) -> None:
        """Wait for all ranks."""
        self._world.Barrier()

    def broadcast(self, value: Any) -> Any:
        """Return rank 0's value on every rank."""
        return self._world.bcast(value)

    def gather(self, value: Any) -> list[Any] | None:
        """Return all ranks' values in rank order on rank 0, None elsewhere."""
        found: list[Any] | None = self._world.gather(value)
        return found

    def sum_int64(self, array: np.ndarray) -> None:
        """Replace an int64 array by its sum over ranks."""
        self._world.Allreduce(self._mpi.IN_PLACE, array, self._mpi.SUM)

    def max_int32(self, array: np.ndarray) -> None:
        """Replace an int32 array by its maximum over ranks."""
        self._world.Allreduce(self._mpi.IN_PLACE, array, self._mpi.MAX)

    def any(self, flags: int) -> int:
        """Return the bitwise or of all ranks' flags."""
        return int(self._world.allreduce(flags, self._mpi.BOR))

    def abort(self, code: int) -> None:
        """End all ranks at once."""
        sys.stdout.flush()
        sys.stderr.flush()
        self._world.Abort(code)
