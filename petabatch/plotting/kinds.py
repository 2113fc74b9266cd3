"""The kinds of plots, by name."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

from petabatch.errors import InputError, PetabatchError
from petabatch.plotting.activity import spikes
from petabatch.results import Results

KINDS = (
    "dictionary",
    "features",
    "reconstructions",
    "code",
    "energy",
    "sparsity",
    "weights-over-time",
    "convergence",
    "sweep",
    "receptive-fields",
    "raster",
    "traces",
    "phase",
    "correlation",
    "weights",
    "compare",
    "movie",
)
"""Each is a module of this package with two functions: one of the same name, whose keyword arguments are the
options of the command line, returns the figure; `find` returns what it draws of a run by default, or raises
InputError or StorageError with the reason why there is nothing to draw."""


def draw_function(kind: str) -> Callable[..., Any]:
    """Return the function that draws this kind."""
    name = _module_name(kind)
    function: Callable[..., Any] = getattr(import_module(f"{__package__}.{name}"), name)
    return function


def reason_against(kind: str, run: Results) -> str:
    """Return why this kind cannot be drawn of a run, in one line; empty if it can."""
    try:
        import_module(f"{__package__}.{_module_name(kind)}").find(run)
    except PetabatchError as error:
        lines = str(error).splitlines()
        hints = [line.split(":", 1)[1].strip() for line in lines[1:] if line.strip().startswith("hint:")]
        return "; ".join([lines[0].removeprefix(f"{run.path}: "), *hints[:1]])
    return ""


def suggested(run: Results) -> str:
    """Return the kind that shows best what a run is: its sweep, spikes, dictionary, dynamics or energy.

    Raises InputError if none can be drawn.
    """
    spiking = [
        name for name in run if name.startswith("layers/") and name.endswith("/A") and spikes(run[name])
    ]
    first = ("sweep", *(("raster",) if spiking else ()), "dictionary", "reconstructions", "phase", "traces")
    kinds: list[str] = [*first, *KINDS]
    for kind in kinds:
        if not reason_against(kind, run):
            return kind
    raise InputError(
        f"{run.path}: nothing can be drawn of this run\n"
        f"    hint:     `petabatch plot --list {run.path.parent}` says what each kind needs"
    )


def _module_name(kind: str) -> str:
    return kind.replace("-", "_")
