"""Containment of a run: its files refer to nothing outside of the run directory.

A run directory from an untrusted source cannot make petabatch read or write files elsewhere, nor load a
library named by an HDF5 filter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
from h5py import h5d, h5l, h5o, h5z

from petabatch.errors import DamagedError, StorageError
from petabatch.storage.damaged import opened
from petabatch.storage.files import FOLDERS, HDF5, PARTS, RUN_FILES, SEGMENT
from petabatch.storage.seal import sealed_by

_FILTERS = {h5z.FILTER_DEFLATE, h5z.FILTER_SHUFFLE, h5z.FILTER_FLETCHER32}
"""Filters that are part of HDF5 and that runs use; HDF5 looks for libraries with others."""
_NUMBERS = ("first_step", "last_step", "first_slice", "end_slice")
"""Attributes of a segment, in the order of its name."""


def is_segment(name: str) -> bool:
    """Return whether this is how an index names a segment of its own run."""
    return name.endswith(HDF5.suffix) and re.fullmatch(f"{PARTS}/{SEGMENT}", name) is not None


def refuse_links(root: Path) -> None:
    """Raise StorageError if an entry of a run directory, or of a folder in it, leads out of it.

    Symbolic links within the directory are allowed; pipes, sockets and devices are not.
    """
    inside = os.path.realpath(root)
    for folder in (root, *(root / name for name in FOLDERS)):
        if not folder.is_dir():
            continue
        _refuse_entries(folder, inside, folder.name in RUN_FILES)


def refuse_references(file: Any, allowed: Callable[[str], bool] = lambda name: False) -> None:
    """Raise StorageError if an open HDF5 file refers to other files.

    It may do so by external links, virtual datasets (except of files whose name is `allowed`) and external
    storage. Soft links, and filters that are not part of HDF5, are refused as well.
    """

    def link(name: bytes, about: Any) -> bytes | None:
        return None if about.type == h5l.TYPE_HARD else name

    def dataset(name: bytes) -> str | None:
        return _reference(h5o.open(file.id, name), allowed)

    # h5py's own iteration takes four times as long
    if (name := file.id.links.visit(link, info=True)) is not None:
        _refuse(file.filename, f"{os.fsdecode(name)} is a link")
    if (found := h5o.visit(file.id, dataset)) is not None:
        _refuse(file.filename, found)


def refuse_renamed(path: Path, file: Any) -> None:
    """Raise DamagedError if the steps and slices of a segment, which is open, are not those of its name."""
    expected = re.fullmatch(SEGMENT, path.name)
    for number, attribute in zip(expected.groups() if expected else (), _NUMBERS, strict=False):
        found = file.attrs.get(attribute)
        if found != (None if number is None else int(number)):
            raise DamagedError(f"{path}: this file is damaged: its {attribute} is {found}")


def refuse_segment(path: Path, root: Path, name: str, run_id: str) -> None:
    """Raise StorageError if a segment of the run in `root` has elsewhere what it recorded under `name`.

    Raises DamagedError if its metadata cannot be read, if its steps and slices are not those of its name, or
    if it is sealed by another run than `run_id`.
    """
    if run_id and sealed_by(path) not in (None, run_id):
        raise DamagedError(f"{path}: this file is damaged: it belongs to another run")
    if not path.resolve().is_relative_to(root.resolve()):
        raise _outside(path, path.resolve())
    with opened(path, "segment") as file:
        refuse_renamed(path, file)
        for place in (f"{name}/values", f"{name}/step"):
            parts = place.split("/")
            for depth in range(1, len(parts) + 1):
                part = "/".join(parts[:depth]).encode()
                if file.id.links.get_info(part).type != h5l.TYPE_HARD:
                    _refuse(path, f"{part.decode()} is a link")
            found = _reference(h5o.open(file.id, place.encode()), lambda other: False)
            if found is not None:
                _refuse(path, found)


def _reference(found: Any, allowed: Callable[[str], bool]) -> str | None:
    """Return what a dataset has outside of its file; None if nothing, or if it is no dataset."""
    if not isinstance(found, h5d.DatasetID):
        return None
    made, name = found.get_create_plist(), os.fsdecode(h5py.h5i.get_name(found) or b"?")
    if made.get_external_count():
        return f"the values of {name} are in {os.fsdecode(made.get_external(0)[0])}"
    filters = {made.get_filter(number)[0] for number in range(made.get_nfilters())} - _FILTERS
    if filters:
        return f"{name} is stored with filter {', '.join(map(str, sorted(filters)))}"
    if made.get_layout() == h5d.VIRTUAL:
        names = {made.get_virtual_filename(number) for number in range(made.get_virtual_count())}
        if foreign := sorted(other for other in names if not allowed(other)):
            return f"the values of {name} are in {foreign[0]}"
    return None


def _refuse(file: object, found: str) -> None:
    raise StorageError(
        f"{file}: refused, since this file refers to what is no part of the run\n"
        f"    found:    {found}\n"
        "    expected: files of the run directory only, with the filters of HDF5"
    )


def _refuse_entries(folder: str | Path, inside: str, deep: bool) -> None:
    with os.scandir(folder) as entries:
        for entry in entries:
            _refuse_entry(entry, inside)
            if deep and entry.is_dir():
                _refuse_entries(entry.path, inside, deep)


def _refuse_entry(entry: os.DirEntry[str], inside: str) -> None:
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if os.path.commonpath([target, inside]) != inside:
            raise _outside(entry.path, target)
    if os.path.exists(entry.path) and not (entry.is_file() or entry.is_dir()):
        raise StorageError(f"{entry.path}: refused, since this is neither a file nor a directory")


def _outside(path: object, target: object) -> StorageError:
    return StorageError(
        f"{path}: refused, since this symbolic link leads out of the run directory\n"
        f"    found:    {target}\n"
        "    hint:     if it is yours, put the file itself there"
    )
