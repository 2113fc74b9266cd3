"""Sweeps in one batch: where points fail alone, and what is said where one ends the run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from petabatch.engine.failure import OF_A_SLICE
from petabatch.errors import ArgumentError
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network

_NAMED = 5
"""Points that are named."""
_WAVE = 64
"""Points of a wave in what is to be typed."""
_IN_WAVES = f"sweep.wave = {_WAVE} makes the points in waves, where one with an error fails alone"


def fail_alone(network: Network) -> bool:
    """Return whether slices of a run fail alone: those of a sweep do."""
    return network.sweep is not None


def described(network: Network) -> str:
    """Return what `check` says of a sweep in one batch."""
    alone = "one batch; a point that fails stops alone"
    # There, an update is one call for all slices.
    return f"{alone}, unless the update of a layer raises an error" if network.run.device == "gpu" else alone


@contextmanager
def points_named(network: Network, how: str = _IN_WAVES) -> Iterator[None]:
    """Say of an error that ends a sweep which point has caused it, and `how` the others would go on."""
    try:
        yield
    except OF_A_SLICE as error:
        if network.sweep is not None:
            points = sorted({number // network.run.batch for number in error.slices})
            if network.parallel.split:
                how = "points with such errors fail alone where ranks do not share slices"
            error.args = (f"{error}{note_of(points)}\n    hint:     {how}", *error.args[1:])
        raise


def note_of(points: Sequence[int]) -> str:
    """Return the line that names the points that may have caused an error."""
    if not points:
        return ""
    more = f" and {len(points) - _NAMED} more" if len(points) > _NAMED else ""
    several = "one of the points" if len(points) > 1 else "point"
    return f"\n    note:     this is {several} {', '.join(map(str, points[:_NAMED]))}{more}"


def in_other_waves(path: Path) -> str:
    """Return how the others would go on where a run that was resumed ends."""
    return f"{_again(path)} makes the points in waves, where one with an error fails alone"


def _again(path: Path) -> str:
    """Return what is to be typed to make the points of a run in waves."""
    return f"the same `petabatch run` with `-s sweep.wave={_WAVE} --out {_beside(path)}`"


def _beside(path: Path) -> str:
    return f"{path}-waves"


def no_retry(path: Path, loaded: Loaded) -> ArgumentError:
    """Return the error of a run whose failed points cannot be made again, with what to type instead."""
    if loaded.network.sweep is None:
        return ArgumentError("retry_failed", "this run has no sweep", str(path), "a sweep in waves")
    return ArgumentError(
        "retry_failed",
        "this sweep is one batch, whose points make their steps and are recorded together",
        str(path),
        "a sweep in waves",
        f"{_again(path)}, and then `petabatch resume {_beside(path)} --retry-failed`",
    )
