"""The whole state of a simulator, in memory and in an HDF5 file that any number of ranks writes and reads."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.engine.images import Instead
from petabatch.errors import FormatError, StorageError
from petabatch.parallel.comm import Comm
from petabatch.sizes import size_text
from petabatch.storage import FORMAT
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.damaged import SIMULATOR, naming_damage
from petabatch.storage.seal import assert_whole, new_run_id

_SHOWN = "shown"


@dataclass(frozen=True, eq=False)
class Saved:
    """The state of the slices of a rank after a step, from which a simulator goes on."""

    step: int
    arrays: Mapping[str, np.ndarray]
    """Every array of the state by its key."""
    numbers: Mapping[str, Any] = field(default_factory=dict)
    """Numbers of the network that were changed, or lists of one for each slice, by key path."""
    shown: Mapping[str, Instead] = field(default_factory=dict)
    """Images that were shown instead of those of a source, by layer."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """What was changed by hand, and after which step for the first time."""

    def __repr__(self) -> str:
        changed = f", changed by hand: {', '.join(self.changes)}" if self.changes else ""
        nbytes = sum(array.nbytes for array in self.arrays.values())
        return f"<state after step {self.step}, {size_text(nbytes)}{changed}>"


def write(path: Path, saved: Saved, batched: Collection[str], comm: Comm) -> None:
    """Write the state of all slices; `batched` are the arrays `[slices of the rank, ...]`. Collective.

    Raises StorageError when the file cannot be written.
    """
    parts = {key: array for key, array in saved.arrays.items() if key in batched}
    parts |= {f"{_SHOWN}/{layer}": one.images for layer, one in saved.shown.items()}
    ranks = comm.gather(parts)
    if ranks is None:
        return
    with new_hdf5(path, run_id=new_run_id()) as (file, check):
        file.attrs["kind"], file.attrs["step"] = SIMULATOR, saved.step
        file.attrs["numbers"] = json.dumps(dict(saved.numbers))
        file.attrs["changes"] = json.dumps(dict(saved.changes))
        for key, array in saved.arrays.items():
            whole = np.concatenate([mine[key] for mine in ranks]) if key in batched else array
            file.create_dataset(f"arrays/{key}", data=whole).attrs["batched"] = int(key in batched)
            check()
        for layer, one in saved.shown.items():
            whole = np.concatenate([mine[f"{_SHOWN}/{layer}"] for mine in ranks])
            shown = file.create_dataset(f"{_SHOWN}/{layer}", data=whole)
            shown.attrs["first"], shown.attrs["last"] = one.first, -1 if one.last is None else one.last


def read(path: Path, slices: range) -> Saved:
    """Return the state of some slices.

    Raises StorageError if there is no such file or it is damaged, FormatError if it is none of a simulator.
    """
    if not path.is_file():
        raise StorageError(f"{path}: there is no such file")
    if not h5py.is_hdf5(path):
        raise FormatError(f"{path}: this is not the state of a simulator: it is not in HDF5")
    with naming_damage(path), h5py.File(path, "r") as file:
        kind = file.attrs.get("kind")
        if kind != SIMULATOR or file.attrs.get("petabatch_format") != FORMAT:
            hint = "Simulator.from_run(DIR) goes on from a run" if kind in ("run", "checkpoint") else ""
            raise FormatError(
                f"{path}: this is not the state of a simulator\n    found:    {kind}"
                + (f"\n    hint:     {hint}" if hint else "")
            )
        assert_whole(path)
        mine = slice(slices.start, slices.stop)
        arrays: dict[str, np.ndarray] = {}

        def take(key: str, item: Any) -> None:
            if isinstance(item, h5py.Dataset):
                arrays[key] = item[mine] if item.attrs["batched"] else item[()]

        file["arrays"].visititems(take)
        shown = {layer: _instead(item, slices) for layer, item in file.get(_SHOWN, {}).items()}
        numbers, changes = (json.loads(file.attrs[name]) for name in ("numbers", "changes"))
        return Saved(int(file.attrs["step"]), arrays, numbers, shown, changes)


def _instead(item: Any, slices: range) -> Instead:
    first, last = (int(item.attrs[name]) for name in ("first", "last"))
    return Instead(item[slices.start : slices.stop], slices.start, first, None if last < 0 else last)
