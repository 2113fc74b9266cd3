"""One rank's part of a checkpoint: writing, verification, and its place in the head."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from petabatch.errors import DamagedError, StorageError
from petabatch.storage.atomic import new_hdf5, replace
from petabatch.storage.containment import refuse_references
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import PART
from petabatch.storage.seal import checksum, stated_checksum


@dataclass(frozen=True)
class Part:
    """The file that one rank wrote, with its size and checksum."""

    name: str
    size: int
    """Bytes."""
    crc32: int
    """CRC-32 of the whole file."""
    lo: int
    hi: int
    """Slices `lo` to `hi - 1`."""


def write_part(
    directory: RunDirectory,
    step: int,
    arrays: Mapping[str, np.ndarray],
    batched: set[str],
    lo: int,
    hi: int,
    rank: int,
) -> Part:
    """Write the slices `lo` to `hi - 1` of the arrays named in `batched`, and on rank 0 all others."""
    if missing := batched - set(arrays):
        raise StorageError(f"there is no array {', '.join(sorted(missing))} to write to a checkpoint")
    stem = f"step_{step:09d}_rank_{rank:05d}"
    unnamed = directory.checkpoints / f"{stem}.h5"
    with new_hdf5(unnamed, run_id=directory.run_id) as (file, _):
        file.attrs["kind"] = "checkpoint part"
        for name, array in arrays.items():
            if name in batched and len(array) != hi - lo:
                raise StorageError(f"{name}: holds {len(array)} slices, expected {hi - lo}")
            if name in batched or rank == 0:
                file.create_dataset(name, data=array)
    # the checksum in the name keeps this from overwriting a part of an earlier attempt at the same step
    crc, size = stated_checksum(unnamed)
    part = Part(f"{stem}_{crc:08x}.h5", size, crc, lo, hi)
    try:
        replace(unnamed, directory.checkpoints / part.name)
    except OSError as error:
        raise StorageError(f"{unnamed}: cannot be renamed: {error.strerror}") from error
    return part


def link(file: Any, name: str, array: np.ndarray, parts: Sequence[Part], batch: int) -> None:
    """Create a virtual dataset that joins an array of all parts in global order."""
    shape = (batch, *array.shape[1:])
    if 0 in shape:
        file.create_dataset(name, shape=shape, dtype=array.dtype)
        return
    layout = h5py.VirtualLayout(shape, array.dtype)
    for part in parts:
        if part.lo < part.hi:
            source = h5py.VirtualSource(part.name, name, (part.hi - part.lo, *shape[1:]), array.dtype)
            layout[part.lo : part.hi] = source
    file.create_virtual_dataset(name, layout)


def verify(head: Path, part: Part, contents: bool = True) -> None:
    """Raise DamagedError unless size and checksum of the part are those recorded in the head.

    Without `contents` only the size is compared.
    """
    path = head.parent / part.name
    if not re.fullmatch(PART, part.name):
        raise StorageError(f"{head}: refused, since it names a part elsewhere\n    found:    {part.name}")
    try:
        size = path.stat().st_size
        whole = size == part.size and (not contents or checksum(path)[0] == part.crc32)
    except OSError as error:
        raise DamagedError(f"{path}: this part of {head.name} cannot be read: {error.strerror}") from error
    if not whole:
        what = "its bytes have changed" if size == part.size else f"it has {size} bytes, expected {part.size}"
        raise DamagedError(f"{path}: this part of {head.name} is damaged: {what}")


def read_parts(
    head: Path, parts: Sequence[Part], names: Sequence[str], batched: Collection[str], lo: int, hi: int
) -> dict[str, np.ndarray]:
    """Return the arrays with these names, those in `batched` restricted to slices `lo` to `hi - 1`.

    They are read from the verified parts, not through the head: HDF5 would fill in zeros for a part that it
    cannot find.
    """
    pieces: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for index, part in enumerate(parts):
        first, last = max(lo, part.lo), min(hi, part.hi)
        if index > 0 and first >= last:
            continue
        verify(head, part)
        with h5py.File(head.parent / part.name, "r") as file:
            refuse_references(file)
            for name in names:
                if name in batched:
                    pieces[name].append(file[name][first - part.lo : max(first, last) - part.lo])
                elif index == 0:
                    pieces[name].append(np.asarray(file[name][()]))
    return {name: found[0] if len(found) == 1 else np.concatenate(found) for name, found in pieces.items()}
