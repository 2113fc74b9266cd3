"""Description of the machine, stored with every result."""

from __future__ import annotations

import os
import platform
from pathlib import Path

from petabatch.storage.provenance import blas_libraries, git_hash, library_versions
from petabatch.version import __version__


def machine() -> dict[str, object]:
    """Return processor, cores, load, BLAS with its CPU kernels, and versions."""
    return {
        "petabatch": __version__,
        "git": git_hash(Path(__file__).parent),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "load": [round(load, 2) for load in os.getloadavg()],
        "blas": blas_libraries(),
        "OPENBLAS_CORETYPE": os.environ.get("OPENBLAS_CORETYPE"),
        "libraries": library_versions(),
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
