"""Description of the machine, stored with every result."""

from __future__ import annotations

import os

from petabatch.storage.provenance import blas_libraries, commit, library_versions, processor
from petabatch.version import __version__


def machine() -> dict[str, object]:
    """Return processor, cores, load, BLAS with its CPU kernels, and versions."""
    return {
        "petabatch": __version__,
        "git": commit(),
        "processor": processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": [round(load, 2) for load in os.getloadavg()],
        "blas": blas_libraries(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
        "libraries": library_versions(),
    }
