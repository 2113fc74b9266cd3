"""The names of the files in a run directory, and the recognition of a run directory by them."""

from __future__ import annotations

import re
from pathlib import Path

from petabatch.errors import RunDirectoryError

RUN_FILE, PARTS, CHECKPOINTS = "run.h5", "parts", "checkpoints"
STORE, METADATA = "run.zarr", "zarr.json"
"""In place of `run.h5`: the folder of a run in Zarr, and what is in each of its groups and arrays."""
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


def temporary_name(name: str) -> str:
    """Return how a file of this name is called until it is complete, in the same folder."""
    return f".{name}.tmp"


SEGMENT = r"steps_(\d+)-(\d+)(?:_slices_(\d+)-(\d+))?(\.h5|\.json)"
"""Of `PARTS`: first and last step, first slice and the one after the last. Those of runs in Zarr are JSON."""
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
    STORE: re.compile(rf"\.?{re.escape(METADATA)}(\.tmp)?|\w+"),
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
    RUN_FILE,
    DESCRIPTION,
    *map(temporary_name, (RESOLVED, INPUTS, RUN_FILE, DESCRIPTION)),
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
