"""Find out whether this process is one of several, without importing MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Comm, Serial
from petabatch.parallel.failure import end_all_on_error

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Ranks in all: MPICH, Intel and Cray MPI; Open MPI; MVAPICH."""
_MARKS = ("PMI_RANK", "PMIX_RANK", "PALS_RANKID", "MPI_LOCALNRANKS")
"""Set by launchers that need not say how many ranks there are in all."""


def launched_ranks(environment: Mapping[str, str]) -> int:
    """Return how many ranks the launcher says there are: 1 without a launcher, 0 when it does not say.

    SLURM sets variables for plain processes of a job too; only those of a step started by `srun` count.
    """
    for name in _SIZES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    if "SLURM_STEP_ID" in environment and environment.get("SLURM_STEP_NUM_TASKS", "").isdigit():
        return int(environment["SLURM_STEP_NUM_TASKS"])
    return 0 if any(name in environment for name in _MARKS) else 1


def connect(mpi: bool | None) -> Comm:
    """Return the communicator: MPI when asked for (`True`) or launched so (`None`), else a single process.

    With several ranks, an uncaught exception of one ends all from now on. Raises ResourceError when MPI is
    wanted and missing, or when the launcher started several ranks that do not find each other, because it
    belongs to another MPI library.
    """
    ranks = launched_ranks(os.environ)
    if mpi is False or (mpi is None and ranks == 1):
        return Serial()
    from petabatch.parallel.mpi import MPI

    comm = MPI()
    if comm.size == 1 and ranks > 1:
        raise ResourceError(
            f"the launcher started {ranks} ranks, but each finds itself alone: it belongs to another MPI\n"
            f"    found:    {comm.implementation}\n"
            "    expected: the mpirun of this library, or srun with a --mpi type it knows\n"
            "    hint:     mpirun of petabatch[mpi] is in the bin directory beside python; "
            "--no-mpi for a process by itself"
        )
    if comm.size > 1:
        end_all_on_error()
    return comm
