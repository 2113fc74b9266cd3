"""Recovery of an interrupted run: the checkpoint to resume from, and the manifest of what is kept."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import h5py

from petabatch.errors import DamagedError, RunDirectoryError, StorageError
from petabatch.logs import log
from petabatch.storage import manifest
from petabatch.storage.checkpoint import (
    RESTORE,
    checkpoint_heads,
    latest_checkpoint,
    step_of,
    verify_checkpoint,
)
from petabatch.storage.description import describe
from petabatch.storage.directory import CHECKPOINTS, DESCRIPTION, RunDirectory
from petabatch.storage.manifest import MANIFEST, Entry
from petabatch.storage.rows import all_segments, damaged_segments, expected_segments
from petabatch.storage.segment import read_summary


def refuse_unnamed(directory: RunDirectory) -> None:
    """Raise DamagedError if a file that the run has from the start has no line in the manifest.

    Such a file may have been edited. The manifest has their lines before the run directory appears; only
    runs of format 1 have no manifest.
    """
    known = manifest.read(directory.path)
    unnamed = [name for name in directory.initial_files() if name not in known.entries]
    if unnamed and not _is_former(directory):
        raise DamagedError(
            f"{directory.path / MANIFEST}: this file is damaged, or missing\n"
            f"    found:    no line for {', '.join(unnamed)}, which may have changed\n"
            "    hint:     restore it; or compare params.json with a copy, then accept the files as they are "
            f"with petabatch verify --repair {directory.path}"
        )


def name_initial(directory: RunDirectory) -> None:
    """Give the files that a run of format 1 has from the start their lines, before it gets others."""
    known = manifest.read(directory.path).entries
    missing = [name for name in directory.initial_files() if name not in known]
    manifest.append(directory.path, [Entry.of(directory.path / name, name) for name in missing])


def _is_former(directory: RunDirectory) -> bool:
    """Return whether this is a run of format 1; one that was killed before any result may be."""
    if (directory.path / DESCRIPTION).exists():
        return False
    for path in (directory.run_file, *checkpoint_heads(directory)):
        with suppress(OSError, RuntimeError, LookupError), h5py.File(path, "r") as file:
            return bool(file.attrs["petabatch_format"] == 1)
    return not (directory.path / MANIFEST).exists()


def resume_point(directory: RunDirectory) -> Path | None:
    """Return the head of the latest whole checkpoint; None if nothing has been recorded yet.

    If segments from before it are damaged, it is an earlier checkpoint from which they are computed again.
    Raises DamagedError if there is none: the run is then left as it is.
    """
    head = latest_checkpoint(directory)
    if head is None:
        if all_segments(directory):
            if describe(directory).status == "done":
                raise RunDirectoryError(f"{directory.path}: this run is already done; it has no checkpoints")
            raise DamagedError(
                f"{directory.path}: results were recorded, but there is no checkpoint to resume from\n"
                f"    hint:     {RESTORE}"
            )
        return None
    step = step_of(head)
    kept = (segment for segment in expected_segments(directory) if segment.last <= step and step > 0)
    damaged = dict(damaged_segments(directory, kept))
    if damaged:
        head = latest_checkpoint(directory, before=min(segment.first for segment in damaged))
        problems = "\n".join(damaged.values())
        if head is None:
            raise DamagedError(
                f"{problems}\n    found:    no checkpoint from before these steps\n    hint:     {RESTORE}"
            )
        log.warning(
            "%s; the run is resumed at step %d, and its steps are computed again", problems, step_of(head)
        )
    return head


def name_files(directory: RunDirectory) -> None:
    """Give every file that can be read a line in the manifest.

    Files without one are left by a killed run, or belong to a run of format 1.
    """
    root, known = directory.path, manifest.read(directory.path).entries
    readers: dict[str, Callable[[Path], object]] = dict.fromkeys(directory.fixed_files(), lambda path: None)
    readers |= dict.fromkeys(
        (f"{CHECKPOINTS}/{head.name}" for head in checkpoint_heads(directory)), verify_checkpoint
    )
    readers |= dict.fromkeys((segment.path for segment in all_segments(directory)), read_summary)
    new = []
    for name, read in readers.items():
        if name not in known:
            with suppress(StorageError):
                read(root / name)
                new.append(Entry.of(root / name, name))
    manifest.rewrite(root, [*(entry for entries in known.values() for entry in entries), *new])
