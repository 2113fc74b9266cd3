"""The checkpoint of a wave: points that are computed together, their state after a step, and their records.

Each process has one file in `checkpoints/`, which the next one replaces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.storage import seal
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.files import CHECKPOINTS, WAVE
from petabatch.storage.point_rows import Layout
from petabatch.storage.points import arrays_in, datasets_in

_GROUPS = "arrays", "recorded", "events", "common"
"""Of the file, and fields of a saved wave."""


@dataclass(frozen=True)
class SavedWave:
    """A wave under way."""

    values: np.ndarray
    """Those of its points, `[points, keys]`."""
    step: int
    arrays: Mapping[str, np.ndarray]
    """The state at the end of the step, by key."""
    recorded: Mapping[str, np.ndarray]
    """What its points have recorded, by path: `[points, times so far, ...]`; of a file its open datasets."""
    events: Mapping[str, np.ndarray]
    common: Mapping[str, np.ndarray]
    """As `Rows` has them."""
    failures: Mapping[int, tuple[str, int]]
    """Why and in which step slices have failed, by their place in the wave."""


def waves_of(root: Path) -> list[Path]:
    """Return the checkpoints of waves in a run directory."""
    return sorted(path for path in (root / CHECKPOINTS).glob("*.h5") if re.fullmatch(WAVE, path.name))


def save(path: Path, layout: Layout, software: Mapping[str, Any], wave: SavedWave) -> None:
    """Write a wave of points with a `layout`, made by a `software`; raises StorageError."""
    with new_hdf5(path, run_id=layout.network) as (file, check):
        file.attrs["about"] = json.dumps({"layout": layout.table, "software": dict(software)})
        file.attrs["step"] = wave.step
        file.attrs["failures"] = json.dumps([[n, *found] for n, found in wave.failures.items()])
        file["values"] = wave.values
        for name in _GROUPS:
            for key, array in getattr(wave, name).items():
                dataset = file.create_dataset(f"{name}/{key}", array.shape, array.dtype)
                # What points record need not fit into memory, of which HDF5 would need more for a part of it.
                for at in range(len(array)) if name == "recorded" else (...,):
                    dataset[at] = array[at]
                check()


def points_of(path: Path, layout: Layout) -> tuple[np.ndarray, Mapping[str, Any]] | None:
    """Return the values of the points of a saved wave, and its software; None if it is of another layout.

    Raises DamagedError if the file is not what was written.
    """
    with _opened(path) as file:
        about = json.loads(file.attrs["about"])
        if about["layout"] != json.loads(json.dumps(layout.table)):
            return None
        return np.asarray(file["values"][()]), about["software"]


def step_of(path: Path) -> int:
    """Return the step of a saved wave."""
    with h5py.File(path, "r") as file:
        return int(file.attrs["step"])


def load(path: Path) -> SavedWave:
    """Return a saved wave; raises DamagedError if the file is not what was written."""
    file = _opened(path)
    failures = {n: (why, step) for n, why, step in json.loads(file.attrs["failures"])}
    state, events, common = (arrays_in(file, name) for name in ("arrays", "events", "common"))
    recorded, step = datasets_in(file, "recorded"), int(file.attrs["step"])
    return SavedWave(np.asarray(file["values"][()]), step, state, recorded, events, common, failures)


def _opened(path: Path) -> Any:
    seal.assert_whole(path)
    return h5py.File(path, "r")
