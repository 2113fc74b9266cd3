"""Checkpoints: the whole state after a step, from which a run resumes on any number of ranks.

Every rank writes one part with its slices (rank 0's also holds the arrays that all slices share); then rank 0
writes the head, a small file that lists the parts and presents all arrays in global order as virtual
datasets. A checkpoint without its head is ignored.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.errors import FormatError, StorageError
from petabatch.storage import FORMAT
from petabatch.storage.atomic import new_hdf5
from petabatch.storage.checkpoint_part import Part, link, verify, write_part
from petabatch.storage.directory import RunDirectory

_HEAD = re.compile(r"step_(\d+)\.h5")
_FILE = re.compile(r"\.?step_(\d+)[_.].*")

Gather = Callable[[Part], Sequence[Part] | None]
"""Gathers the parts of all ranks: a list in rank order on rank 0, None elsewhere."""


def save_checkpoint(
    directory: RunDirectory,
    step: int,
    arrays: Mapping[str, np.ndarray],
    batched: Collection[str],
    meta: Mapping[str, object],
    *,
    lo: int,
    hi: int,
    batch: int,
    rank: int = 0,
    gather: Gather = lambda part: [part],
    keep: int = 2,
) -> None:
    """Write the state after `step`; collective, and complete when rank 0 returns.

    `arrays` maps names such as `layers/V1/V` to arrays. Those named in `batched` are `[hi - lo, ...]`; the
    others are the same on all ranks and are written by rank 0. `meta` can be anything that JSON can hold.
    The `keep` latest complete checkpoints up to `step` are kept; older ones are removed when the new one is
    complete.
    Raises StorageError when a file cannot be written.
    """
    part = write_part(directory, step, arrays, set(batched), lo, hi, rank)
    parts = gather(part)
    if parts is None:
        return
    ends = [0, *(part.hi for part in parts)]
    if [part.lo for part in parts] != ends[:-1] or ends[-1] != batch:
        raise StorageError(f"the parts of the checkpoint at step {step} do not cover the batch once")
    with new_hdf5(_head(directory, step)) as (file, _):
        file.attrs["kind"], file.attrs["step"], file.attrs["batch"] = "checkpoint", step, batch
        file.attrs["parts"] = json.dumps([asdict(part) for part in parts])
        file.attrs["meta"] = json.dumps(dict(meta))
        file.attrs["batched"] = json.dumps(sorted(batched))
        file.attrs["arrays"] = json.dumps(list(arrays))
        for name, array in arrays.items():
            if name in batched:
                link(file, name, array, parts, batch)
            else:
                file[name] = h5py.ExternalLink(parts[0].name, name)
    _retire(directory, step, keep)


def latest_checkpoint(directory: RunDirectory) -> Path | None:
    """Return the head of the latest complete checkpoint, fully verified; None if there is none."""
    for step in reversed(checkpoint_steps(directory)):
        head = _head(directory, step)
        try:
            for part in _read_head(head)[0]:
                verify(head, part)
        except StorageError:
            continue
        return head
    return None


def load_checkpoint(path: Path, lo: int, hi: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return (arrays, meta) of the checkpoint with head `path`, restricted to slices `lo` to `hi - 1`.

    The range is independent of the ranks that wrote the parts; the parts read are verified. Raises
    StorageError when a part is missing or damaged or the range lies outside the batch, FormatError for other
    format versions.
    """
    parts, attributes = _read_head(path)
    if not 0 <= lo <= hi <= attributes["batch"]:
        raise StorageError(
            f"{path}: slices {lo} to {hi - 1} were requested, but it holds a batch of {attributes['batch']}"
        )
    for index, part in enumerate(parts):
        if index == 0 or (part.lo < hi and lo < part.hi):
            verify(path, part)
    batched = set(json.loads(attributes["batched"]))
    with h5py.File(path, "r") as file:
        arrays = {
            name: np.asarray(file[name][lo:hi] if name in batched else file[name][()])
            for name in json.loads(attributes["arrays"])
        }
    return arrays, json.loads(attributes["meta"])


def checkpoint_batch(path: Path) -> tuple[int, set[str]]:
    """Return the batch of the checkpoint with head `path`, and the names of its arrays that are per slice."""
    _, attributes = _read_head(path)
    return int(attributes["batch"]), set(json.loads(attributes["batched"]))


def checkpoint_steps(directory: RunDirectory) -> list[int]:
    """Return the steps of all checkpoints that have a head, ascending."""
    found = (_HEAD.fullmatch(entry.name) for entry in directory.checkpoints.iterdir())
    return sorted(int(match[1]) for match in found if match)


def drop_checkpoints_after(directory: RunDirectory, step: int) -> None:
    """Remove the checkpoints of steps after `step`."""
    _remove(directory, lambda other: other > step)


def _head(directory: RunDirectory, step: int) -> Path:
    return directory.checkpoints / f"step_{step:09d}.h5"


def _read_head(path: Path) -> tuple[list[Part], dict[str, Any]]:
    try:
        with h5py.File(path, "r") as file:
            attributes = dict(file.attrs)
    except (OSError, RuntimeError, KeyError, ValueError) as error:  # what h5py raises for damaged files
        raise StorageError(f"{path}: this checkpoint cannot be read: {error}") from error
    if attributes.get("kind") != "checkpoint" or attributes.get("petabatch_format") != FORMAT:
        raise FormatError(
            f"{path}: not a checkpoint of format {FORMAT}\n"
            f"    found:    {attributes.get('kind')} of format {attributes.get('petabatch_format')}"
        )
    return [Part(**part) for part in json.loads(attributes["parts"])], attributes


def _retire(directory: RunDirectory, step: int, keep: int) -> None:
    """Remove all but the `keep` latest complete checkpoints up to `step`, and stray parts."""
    kept: dict[int, set[str]] = {}
    for other in reversed(checkpoint_steps(directory)):
        if other > step or len(kept) == keep:
            continue
        head = _head(directory, other)
        try:
            parts = _read_head(head)[0]
            whole = all((head.parent / part.name).stat().st_size == part.size for part in parts)
        except (StorageError, OSError):
            continue
        if whole:
            kept[other] = {head.name, *(part.name for part in parts)}
    _remove(directory, lambda other: other <= step, keeping=set().union(*kept.values()))


def _remove(
    directory: RunDirectory, chosen: Callable[[int], bool], keeping: Collection[str] = frozenset()
) -> None:
    """Remove the files of the chosen steps, heads first, so that no head is left without its parts."""
    names = [name for name in os.listdir(directory.checkpoints) if name not in keeping]
    for name in sorted(names, key=lambda name: _HEAD.fullmatch(name) is None):
        match = _FILE.fullmatch(name)
        if match and chosen(int(match[1])):
            try:
                (directory.checkpoints / name).unlink(missing_ok=True)
            except OSError as error:
                raise StorageError(
                    f"{directory.checkpoints / name}: cannot be removed: {error.strerror}"
                ) from error
