"""Detection of an MPI launch, without importing MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping

from petabatch.errors import ResourceError, install
from petabatch.logs import silence
from petabatch.parallel.comm import Comm, Serial
from petabatch.parallel.failure import end_all_on_error

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE")
"""Number of ranks, as set by MPICH, Intel and Cray MPI; Open MPI; MVAPICH."""
_MARKS = ("PMI_RANK", "PMIX_RANK", "PALS_RANKID", "MPI_LOCALNRANKS")
"""Set by launchers that may not give the number of ranks."""


def launched_ranks(environment: Mapping[str, str]) -> int:
    """Return the number of ranks given by the launcher: 1 without a launcher, 0 when it is not given.

    SLURM sets variables for plain processes of a job, too; only those of a step started by `srun` count.
    """
    for name in _SIZES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    if "SLURM_STEP_ID" in environment and environment.get("SLURM_STEP_NUM_TASKS", "").isdigit():
        return int(environment["SLURM_STEP_NUM_TASKS"])
    return 0 if any(name in environment for name in _MARKS) else 1


def connected(mpi: bool | None) -> Comm:
    """Return the communicator as `connect` does; only rank 0 writes a log."""
    comm = connect(mpi)
    if comm.rank > 0:
        silence()
    return comm


def connect(mpi: bool | None) -> Comm:
    """Return the communicator: MPI if `mpi` is True, or None and a launcher is detected; else one process.

    With several ranks, an uncaught exception on one terminates all from now on. Raises ResourceError when MPI
    is wanted and missing, or when the launcher belongs to another MPI library, so that its ranks do not find
    each other.
    """
    ranks = launched_ranks(os.environ)
    if mpi is False or (mpi is None and ranks == 1):
        return Serial()
    from petabatch.parallel.mpi import MPI

    comm = MPI()
    if comm.size == 1 and ranks > 1:
        raise ResourceError(
            f"the launcher started {ranks} ranks, but each sees only itself: it uses another MPI\n"
            f"    found:    {comm.implementation}\n"
            "    expected: the mpirun of this library, or srun with a --mpi type that it supports\n"
            f"    hint:     {install('mpi')} installs mpirun next to python; use --no-mpi for independent "
            "processes"
        )
    if comm.size > 1:
        end_all_on_error()
    return comm
