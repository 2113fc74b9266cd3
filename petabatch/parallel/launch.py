"""Find out whether this process is one of several, without importing MPI."""

from __future__ import annotations

import os
from collections.abc import Mapping

from petabatch.errors import ResourceError
from petabatch.parallel.comm import Comm, Serial

_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "MPI_LOCALNRANKS", "PALS_LOCAL_SIZE", "MV2_COMM_WORLD_SIZE")


def launched_ranks(environment: Mapping[str, str]) -> int:
    """Return how many ranks the launcher says there are; 1 without a launcher.

    SLURM sets variables for plain processes of a job too; only those of a step started by `srun` count.
    """
    for name in _SIZES:
        if environment.get(name, "").isdigit():
            return int(environment[name])
    if "SLURM_STEP_ID" in environment and environment.get("SLURM_STEP_NUM_TASKS", "").isdigit():
        return int(environment["SLURM_STEP_NUM_TASKS"])
    return 1


def connect(mpi: bool | None) -> Comm:
    """Return the communicator: MPI when asked for (`True`) or launched so (`None`), else a single process.

    Raises ResourceError when MPI is wanted and missing, or when the launcher started several ranks that
    do not find each other because it belongs to another MPI library.
    """
    ranks = launched_ranks(os.environ)
    if mpi is False or (mpi is None and ranks == 1):
        return Serial()
    from petabatch.parallel.mpi import MPI

    comm = MPI()
    if comm.size < ranks and comm.size == 1:
        raise ResourceError(
            f"the launcher started {ranks} ranks, but MPI sees one\n"
            "    hint:     use the mpirun of the MPI library that mpi4py loads, as this environment's"
        )
    return comm
