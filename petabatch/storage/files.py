"""The names of the files in a run directory, and the recognition of a run directory by them."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path

from petabatch.errors import RunDirectoryError

PARTS, CHECKPOINTS = "parts", "checkpoints"
RESOLVED, INPUTS = "params.json", "inputs.json"
EQUATIONS = "equations.json"
"""What was derived of the equations of a network, where it has any."""
DATA = "data"
DESCRIPTION = "run.json"
POINTS = "points"
"""The folder of a sweep or a pool; see `storage.points`."""
ORIGIN = "origin"
"""The folder of a sweep with the checkpoint that its points start from, in a folder `CHECKPOINTS`."""
LOST = ".lost"
"""Ending of what is left of a segment that is lost; see `storage.lost`."""
PARAMS = ("params.toml", "params.py")


@dataclass(frozen=True)
class Output:
    """Where a run keeps what it records."""

    module: str
    """That of its `storage.format.Format`."""
    file: str
    """What people open, in the run directory."""
    suffix: str
    """That of its segments."""
    metadata: str = ""
    """Where `file` is a folder: the file of it without which nothing can be read."""
    extra: str = ""
    """What has to be installed for it, an extra of petabatch."""

    @property
    def index(self) -> str:
        """The file without which nothing can be read, by its path in the run directory."""
        return f"{self.file}/{self.metadata}" if self.metadata else self.file

    @property
    def folders(self) -> tuple[str, ...]:
        """What is made with the run directory."""
        return (self.file,) if self.metadata else ()


OUTPUTS = {
    "hdf5": Output("petabatch.storage.hdf5", "run.h5", ".h5"),
    "zarr": Output("petabatch.storage.zarr3", "run.zarr", ".json", "zarr.json", "zarr"),
}
"""By the value of `output.format`."""
HDF5 = OUTPUTS["hdf5"]
RUN_FILE = HDF5.file
RUN_FILES = tuple(one.file for one in OUTPUTS.values())


def output_in(root: Path) -> Output:
    """Return where the run in a directory keeps what it records, also where that has been removed."""
    there = [one for one in OUTPUTS.values() if (root / one.file).exists()]
    if there:
        return there[-1]
    # Otherwise files that are missing would have the names of a run in HDF5, and `resume` would make one.
    return OUTPUTS.get(str(resolved_value(root, "output", "format")), HDF5)


def output_at(file: Path) -> Output:
    """Return the kind of what people open: by its name, or, of a folder, by what is in it."""
    kinds = [one for one in OUTPUTS.values() if one.metadata and (file / one.metadata).is_file()]
    return next((one for one in (*kinds, *OUTPUTS.values()) if one in kinds or one.file == file.name), HDF5)


def resolved_value(root: Path, table: str, key: str, unknown: object = None) -> object:
    """Return a value of `params.json`, None if it has none, or `unknown` where the file cannot be read."""
    try:
        return json.loads((root / RESOLVED).read_text(encoding="utf-8")).get(table, {}).get(key)
    except (OSError, ValueError, TypeError, AttributeError):
        return unknown


def temporary_name(name: str) -> str:
    """Return how a file of this name is called until it is complete, in the same folder."""
    return f".{name}.tmp"


SEGMENT = (
    r"steps_(\d+)-(\d+)(?:_slices_(\d+)-(\d+))?"
    f"({'|'.join(re.escape(one.suffix) for one in OUTPUTS.values())})"
)
"""Of `PARTS`: first and last step, first slice and the one after the last, suffix."""
HEAD, PART = r"step_(\d+)\.h5", r"step_\d+_rank_\d+_[0-9a-f]{8}\.h5"
"""Of `CHECKPOINTS`: a checkpoint by its step, and what a rank wrote of it, by its checksum."""
POINTS_FILE = r"(\d+)-of-(\d+)_(\d+)_(\d+)(?:-(\d+))?\.h5"
"""Of `POINTS`: chunk, number of chunks, attempt, first and last commit."""
WAVE = r"(\d+)-of-(\d+)_(\d+)\.h5"
"""Of `CHECKPOINTS`: the wave under way of a chunk, by its attempt."""
ARRAY = r"[0-9a-f]{16}\.npy"
"""Of `DATA`."""
_OURS = {
    PARTS: re.compile(rf"\.?{SEGMENT}(\.tmp|\{LOST})?"),
    CHECKPOINTS: re.compile(rf"\.?({HEAD}|{PART}|step_\d+_rank_\d+\.h5|{WAVE})(\.tmp)?"),
    DATA: re.compile(ARRAY),
    **{
        one.file: re.compile(rf"\.?{re.escape(one.metadata)}(\.tmp)?|\w+")
        for one in OUTPUTS.values()
        if one.metadata
    },
    ORIGIN: re.compile(CHECKPOINTS),
    POINTS: re.compile(rf"\.?{POINTS_FILE}(\.tmp|\{LOST})?|\d+-of-\d+_\d+\.txt"),
}
FOLDERS = tuple(_OURS)
_FILES = {
    *FOLDERS,
    *PARAMS,
    RESOLVED,
    INPUTS,
    EQUATIONS,
    *RUN_FILES,
    DESCRIPTION,
    *map(temporary_name, (RESOLVED, INPUTS, DESCRIPTION, *RUN_FILES)),
}
_LOGS = re.compile(r"log(\.rank\d+)?\.txt|\.shared_[0-9a-f]+\.tmp")
"""Also what `storage.shared` leaves if it is killed."""


def lacking(path: Path) -> list[str]:
    """Return what a directory lacks to be a run directory."""
    found = [f"{name}/" for name in (PARTS, CHECKPOINTS) if not (path / name).is_dir()]
    if not any((path / name).is_file() for name in PARAMS):
        found.append("params.toml or params.py")
    return found


def refuse_replacement(path: Path, force: bool) -> None:
    """Raise RunDirectoryError unless a run, and no one else, has written `path`, and `force` is given."""
    run = path.is_dir() and (not any(path.iterdir()) or not lacking(path) or (path / INPUTS).is_file())
    if path.is_symlink() or not run:
        kind = "a directory" if path.is_dir() else "a file"
        raise RunDirectoryError(
            f"{path}: already exists and is not a run directory; not replaced\n"
            f"    found:    {kind} that no run has written\n"
            "    hint:     choose another run directory with --out"
        )
    if not force:
        raise RunDirectoryError(
            f"{path}: already exists\n"
            "    hint:     resume it, choose another directory, or replace it with --force (in Python: "
            "force=True)"
        )
    foreign = [
        entry.name for entry in path.iterdir() if entry.name not in _FILES and not _LOGS.fullmatch(entry.name)
    ]
    for folder, pattern in _OURS.items():
        if not (path / folder).is_dir():
            continue
        names = (entry.name for entry in (path / folder).iterdir())
        foreign += [f"{folder}/{name}" for name in names if not pattern.fullmatch(name)]
    if foreign:
        listed = ", ".join(sorted(foreign)[:5])
        raise RunDirectoryError(
            f"{path}: contains files that no run has written; not replaced\n    found:    {listed}\n"
            f"    hint:     move them elsewhere, or choose another run directory"
        )
