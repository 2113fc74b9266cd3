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

from petabatch.errors import DamagedError, StorageError
from petabatch.logs import log
from petabatch.storage import seal
from petabatch.storage.atomic import new_hdf5, remove
from petabatch.storage.checkpoint_part import Part, link, read_parts, verify, write_part
from petabatch.storage.damaged import opened
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import HEAD

_HEAD = re.compile(HEAD)
_FILE = re.compile(r"\.?step_(\d+)[_.].*")

INDENT = "\n" + 14 * " "
"""Between the lines of a list in a message."""

RESTORE = "restore the files from a copy, or start again at step 0 with `petabatch run --force`"
"""Hint where a run cannot be resumed."""

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
    with new_hdf5(_head(directory, step), run_id=directory.run_id) as (file, _):
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


def latest_checkpoint(directory: RunDirectory, before: int | None = None) -> Path | None:
    """Return the head of the latest whole checkpoint; None if there are no checkpoints.

    `before` leaves out those of this step and later, except that of step 0. Logs a warning for each damaged
    checkpoint that is passed over. Raises DamagedError if there are checkpoints, but all are damaged.
    """
    damaged = []
    for step in reversed(checkpoint_steps(directory)):
        head = _head(directory, step)
        if before is not None and not precedes(head, before):
            continue
        try:
            verify_checkpoint(head)
        except StorageError as error:
            damaged.append(str(error))
            continue
        for problem in damaged:
            log.warning("%s; the checkpoint of step %d is used instead", problem, step)
        return head
    if damaged:
        raise DamagedError(
            f"{directory.path}: no checkpoint can be used\n    found:    {INDENT.join(damaged)}\n"
            f"    hint:     {RESTORE}"
        )
    return None


def precedes(head: Path, step: int) -> bool:
    """Return whether the steps from `step` on can be computed again from a checkpoint.

    Step 0 can from that of step 0, which is as the run began.
    """
    return step_of(head) < max(step, 1)


def is_whole(head: Path) -> bool:
    """Return whether all bytes of a checkpoint are as they were written."""
    try:
        verify_checkpoint(head)
    except StorageError:
        return False
    return True


def verify_checkpoint(head: Path) -> None:
    """Verify all bytes of a checkpoint; raises DamagedError, or FormatError for other format versions."""
    for part in parts_of(head):
        verify(head, part)


def parts_of(head: Path) -> list[Part]:
    """Return the parts of a checkpoint; raises DamagedError if its head is damaged."""
    return _read_head(head)[0]


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
    names, batched = attributes["arrays"], set(attributes["batched"])
    try:
        return read_parts(path, parts, names, batched, lo, hi), attributes["meta"]
    except (OSError, LookupError, ValueError) as error:
        raise DamagedError(f"{path}: this checkpoint does not fit its parts: {error}") from error


def checkpoint_batch(path: Path) -> tuple[int, set[str]]:
    """Return the batch of the checkpoint with head `path`, and the names of its arrays that are per slice."""
    _, attributes = _read_head(path)
    return int(attributes["batch"]), set(attributes["batched"])


def checkpoint_step(path: Path) -> int:
    """Return the step after which the checkpoint with head `path` was made."""
    _, attributes = _read_head(path)
    return int(attributes["meta"]["step"])


def checkpoint_steps(directory: RunDirectory) -> list[int]:
    """Return the steps of all checkpoints that have a head, ascending."""
    found = (_HEAD.fullmatch(entry.name) for entry in directory.checkpoints.iterdir())
    return sorted(int(match[1]) for match in found if match)


def checkpoint_heads(directory: RunDirectory) -> list[Path]:
    """Return the heads of all checkpoints, by ascending step."""
    return [_head(directory, step) for step in checkpoint_steps(directory)]


def drop_checkpoints(directory: RunDirectory) -> None:
    """Remove all checkpoints."""
    _remove(directory, lambda step: True)


def step_of(head: Path) -> int:
    """Return the step of a checkpoint, by the name of its head."""
    match = _HEAD.fullmatch(head.name)
    assert match is not None
    return int(match[1])


def drop_checkpoints_after(directory: RunDirectory, step: int) -> None:
    """Remove the checkpoints of steps after `step`."""
    _remove(directory, lambda other: other > step)


def _head(directory: RunDirectory, step: int) -> Path:
    return directory.checkpoints / f"step_{step:09d}.h5"


def _read_head(path: Path) -> tuple[list[Part], dict[str, Any]]:
    seal.verify(path.parent.parent, f"{path.parent.name}/{path.name}")
    with opened(path, "checkpoint") as file:
        attributes = dict(file.attrs)
        texts = {name: json.loads(attributes[name]) for name in ("parts", "arrays", "batched", "meta")}
        parts = [Part(**part) for part in texts.pop("parts")]
        step = _HEAD.fullmatch(path.name)
        if step is not None and not int(step[1]) == attributes["step"] == texts["meta"].get(
            "step", int(step[1])
        ):
            raise ValueError("it holds another step than its name says")
        return parts, {"batch": int(attributes["batch"]), **texts}


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
    names = [
        name
        for name in os.listdir(directory.checkpoints)
        if name not in keeping and (match := _FILE.fullmatch(name)) and chosen(int(match[1]))
    ]
    for name in sorted(names, key=lambda name: _HEAD.fullmatch(name) is None):
        remove(directory.checkpoints / name)
