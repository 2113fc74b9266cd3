"""Weights and state variables in .pvp files of PetaVision."""

from __future__ import annotations

import numpy as np

from petabatch.errors import InputError
from petabatch.sources.pvp import Weights, open_activities

_UNIT_AXES = 3


def of_pvp(
    path: str, frame: int | None, shape: tuple[int, ...], per_slice: bool, arbor: int | None = None
) -> tuple[np.ndarray, str]:
    """Return weights, or a state variable, for an array of `shape`, and its name for messages.

    Weights that are not shared are cut to the units of `shape`: the file also has those of the margin.
    Raises InputError if the file is damaged or has no such frame.
    """
    if len(shape) <= _UNIT_AXES + per_slice:
        return _units(path, frame or 0, shape[0] if per_slice else None), _name(path, frame or 0)
    found = dictionary_of_pvp(path, frame, arbor)
    rows, columns = ((have - want) // 2 for have, want in zip(found.shape[:2], shape[:2], strict=True))
    if min(rows, columns) >= 0 < max(rows, columns):
        found = found[rows : rows + shape[0], columns : columns + shape[1]]
    return found, _name(path, -1 if frame is None else frame)


def dictionary_of_pvp(path: str, frame: int | None, arbor: int | None = None) -> np.ndarray:
    """Return weights `[ky, kx, nf_pre, nyp, nxp, nf_post]`, by default the last ones of the file.

    Raises InputError if it has no such arbor.
    """
    weights = Weights(path).frame(-1 if frame is None else frame)
    if arbor is None and len(weights) > 1:
        raise InputError(
            f"{path}: these weights are of several arbors\n    found:    {len(weights)}\n"
            f"    expected: arbor, 0 to {len(weights) - 1}"
        )
    if arbor is not None and arbor >= len(weights):
        raise InputError(
            f"{path}: these weights have no such arbor\n    found:    {arbor}\n"
            f"    expected: 0 to {len(weights) - 1}"
        ).at("arbor")
    return np.asarray(weights[arbor or 0])


def _units(path: str, frame: int, batch: int | None) -> np.ndarray:
    file = open_activities(path)
    if not -file.count <= frame < max(file.count, 1) or file.count == 0:
        raise file.damaged(f"it has {file.count} frames, not a frame {frame}")
    if batch is None:
        return np.asarray(file.frame(frame % file.count))
    return np.stack([file.frame((frame + number) % file.count) for number in range(batch)])


def _name(path: str, frame: int) -> str:
    return f"{path}[{frame}]"
