"""Progress and contents of a run directory; versions and optional parts of this installation."""

from __future__ import annotations

import importlib.util
import os
import platform
from pathlib import Path

from petabatch import results
from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.directory import RunDirectory
from petabatch.version import __version__


def describe(path: Path) -> str:
    """Return a run's progress, provenance and contents as text; raises RunDirectoryError without a run."""
    directory = RunDirectory.open(path)
    steps = checkpoint_steps(directory)
    lines = [f"run directory      {directory.path}"]
    if not directory.run_file.exists():
        lines.append("status             started; nothing recorded yet")
    else:
        with results.open(path) as run:
            lines += _run(run)
    kept = ", ".join(str(step) for step in steps) or "none"
    lines.append(f"checkpoints        at steps {kept}")
    return "\n".join(lines)


def _run(run: results.Results) -> list[str]:
    about, params = run.attributes, run.params
    settings = params["run"]
    length = settings["steps"] or settings["displays"] * settings["display"]
    lines = [
        f"title              {params['title'] or '-'}",
        f"status             {run.status}: step {run.steps_reached} of {length}",
        f"batch              {run.batch} slices on {about['ranks']} rank(s): {', '.join(about['hosts'])}",
        f"started            {about['started']}, last updated {about['updated']}",
        f"command            {about['command']}",
        f"petabatch          {about['petabatch_version']}",
        "recorded",
    ]
    for name in run.names():
        series = run[name]
        lines.append(f"  {name:32} {' x '.join(map(str, series.shape))}  ({', '.join(series.dims)})")
    return lines


def installation() -> str:
    """Return versions, cores, BLAS and installed extras as text."""
    from petabatch.storage.provenance import blas_libraries, library_versions, preset_warning

    optional = {"mpi": "mpi4py", "analysis": "xarray", "images": "skimage", "video": "av"}
    parts = [
        f"{extra} {'yes' if importlib.util.find_spec(module) else 'no'}" for extra, module in optional.items()
    ]
    lines = [
        f"petabatch          {__version__}",
        f"machine            {platform.node()}, {len(os.sched_getaffinity(0))} cores available",
        f"libraries          {', '.join(map(' '.join, library_versions().items()))}",
        *(f"BLAS               {library}" for library in blas_libraries()),
        f"extras             {', '.join(parts)}",
    ]
    warning = preset_warning()
    if warning:
        lines.append(f"warning            {warning}")
    return "\n".join(lines)
