"""Versions and optional parts of this installation."""

from __future__ import annotations

import importlib.util
import os
import platform

from petabatch.storage.provenance import (
    blas_libraries,
    commit,
    library_versions,
    preset_warning,
    processor,
)
from petabatch.version import __version__


def installation() -> str:
    """Return versions, processor, BLAS and installed extras as text."""
    optional = {
        "mpi": "mpi4py",
        "analysis": "xarray",
        "images": "skimage",
        "video": "av",
        "petavision": "lupa",
        "sklearn": "sklearn",
        "torch": "torch",
        "zarr": "zarr",
    }
    parts = [
        f"{extra} {'yes' if importlib.util.find_spec(module) else 'no'}" for extra, module in optional.items()
    ]
    lines = [
        f"petabatch          {__version__}, commit {commit() or 'unknown'}",
        f"machine            {platform.node()}, {len(os.sched_getaffinity(0))} cores available",
        f"processor          {processor()}",
        f"libraries          {', '.join(map(' '.join, library_versions().items()))}",
        *(f"BLAS               {library}" for library in blas_libraries()),
        f"extras             {', '.join(parts)}",
    ]
    warning = preset_warning()
    if warning:
        lines.append(f"warning            {warning}")
    return "\n".join(lines)
