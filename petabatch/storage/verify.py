"""Verification of every file of a run, and the repair of those that can be made from others."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from petabatch.errors import StorageError
from petabatch.storage import manifest
from petabatch.storage.checkpoint import checkpoint_heads, is_head, parts_of, step_of
from petabatch.storage.checkpoint_part import Part
from petabatch.storage.checkpoint_part import verify as verify_part
from petabatch.storage.description import describe, indexed_steps
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import CHECKPOINTS, DESCRIPTION, LOST, PARTS, RUN_FILE
from petabatch.storage.index import write_index
from petabatch.storage.lost import drop_lost, give_up, lost_segments
from petabatch.storage.manifest import MANIFEST
from petabatch.storage.recovery import name_files
from petabatch.storage.rows import (
    all_segments,
    expected_segments,
    find_gaps,
    find_rows,
    missing_steps,
)
from petabatch.storage.segment import Segment, read_summary


@dataclass(frozen=True)
class FileState:
    """What is known of one file."""

    name: str
    """Path below the run directory."""
    state: Literal["whole", "unnamed", "unread", "damaged", "lost"]
    """`unnamed`: not in the manifest, but readable. `unread`: of the right size. `lost`: a segment that was
    taken out of the run."""
    problem: str = ""
    """What is wrong with a damaged file, with its path."""
    checkpoint: int | None = None
    """The step of the checkpoint that it belongs to."""
    segment: Segment | None = None


def file_states(directory: RunDirectory, limit: float = math.inf) -> Iterator[FileState]:
    """Yield the state of every file, the newest checkpoints before the older, segments last.

    At most `limit` bytes are read; of further files only the size is compared. Files that a run in progress
    removes meanwhile are left out.
    """
    root, known = directory.path, manifest.read(directory.path)
    left = limit

    def state(
        name: str,
        check: Callable[[bool], bool],
        checkpoint: int | None = None,
        segment: Segment | None = None,
    ) -> Iterator[FileState]:
        nonlocal left
        size = _size(root / name)
        contents = size <= left
        left -= size if contents else 0
        try:
            named = check(contents)
            found: Literal["whole", "unnamed", "unread"] = "whole" if contents else "unread"
            yield FileState(name, found if named else "unnamed", "", checkpoint, segment)
        except StorageError as error:
            if (
                os.path.lexists(root / name)
                or name in manifest.read(root).entries
                or name not in known.entries
            ):
                yield FileState(name, "damaged", str(error), checkpoint, segment)

    yield from _manifest_states(directory, known)
    heads = {name for name in known.entries if is_head(name)}
    named = {name for name in known.entries if not name.startswith(f"{PARTS}/")} - heads
    for name in sorted(named.union(directory.fixed_files())):
        yield from state(name, partial(_check_fixed, root, name, known))
    # an index that a whole manifest does not name was never written: the run was killed in its first flush
    unknown = known.bad_lines or not (root / MANIFEST).exists()
    if unknown and not directory.run_file.exists() and RUN_FILE not in named and all_segments(directory):
        yield FileState(RUN_FILE, "damaged", f"{directory.run_file}: this file is missing")
    heads |= {f"{CHECKPOINTS}/{head.name}" for head in checkpoint_heads(directory)}
    for name in sorted(heads, reverse=True):
        head = root / name
        yield from state(name, partial(_check_head, head, name in known.entries), step_of(head))
        with suppress(StorageError):
            for part in parts_of(head):
                yield from state(
                    f"{CHECKPOINTS}/{part.name}", partial(_check_part, head, part), step_of(head)
                )
    for segment in expected_segments(directory):
        yield from state(segment.path, partial(_check_segment, root, segment, known), segment=segment)
    for segment in lost_segments(directory):
        yield FileState(f"{segment.path}{LOST}", "lost", segment=segment)


def _size(path: Path) -> int:
    """Return the size of a file in bytes, 0 if it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _manifest_states(directory: RunDirectory, known: manifest.Manifest) -> Iterator[FileState]:
    path = directory.path / MANIFEST
    if known.bad_lines:
        lines = ", ".join(map(str, known.bad_lines))
        yield FileState(MANIFEST, "damaged", f"{path}: this file is damaged in line {lines}")
    elif not path.exists() and (directory.path / DESCRIPTION).exists():
        yield FileState(MANIFEST, "damaged", f"{path}: this file is missing")


def _check_fixed(root: Path, name: str, known: manifest.Manifest, contents: bool) -> bool:
    # in a run in progress, some of these files are replaced meanwhile
    return manifest.verify(root, name) if contents else known.check(root, name, contents)


def _check_head(head: Path, named: bool, contents: bool) -> bool:
    parts_of(head)
    return named


def _check_part(head: Path, part: Part, contents: bool) -> bool:
    verify_part(head, part, contents)
    return True


def _check_segment(root: Path, segment: Segment, known: manifest.Manifest, contents: bool) -> bool:
    named = known.check(root, segment.path, contents)
    if not named:
        read_summary(root / segment.path)
    return named


def repair(directory: RunDirectory) -> list[str]:
    """Rebuild `run.h5` from the whole segments and name every file in the manifest, where that is needed.

    Segments that are damaged or missing are taken out of the run: the index names their steps as lost.
    Returns the names of the files that were rebuilt. Called by one process, which has claimed the directory.
    Raises DamagedError, with nothing changed, if the description of what segments hold is damaged too.
    """
    rebuilt = []
    states = list(file_states(directory))
    damaged = {state.name for state in states if state.state == "damaged"}
    if RUN_FILE in damaged or expected_segments(directory) or lost_segments(directory):
        d = describe(directory)
        indexed = indexed_steps(directory)
        whole = [s.checkpoint for s in states if s.checkpoint is not None and s.name not in damaged]
        give_up(directory, {s.segment for s in states if s.segment is not None and s.state == "damaged"})
        missing = missing_steps(directory, d.batch, max([indexed[0], *whole]))
        give_up(directory, (Segment(*gap) for gap in missing))
        rows, _ = find_rows(directory, d.batch)
        gaps = find_gaps(directory, rows)
        drop_lost(directory, lambda s: not any(s.first <= last and first <= s.last for first, last in gaps))
        if RUN_FILE in damaged or (rows[-1].last if rows else 0, gaps) != indexed:
            write_index(
                directory, d.streams, d.provenance, d.batch, d.status,
                limit=math.inf, files=d.files, coordinates=d.coordinates,
            )  # fmt: skip
            rebuilt.append(RUN_FILE)
    if any(state.state == "unnamed" or state.name == MANIFEST for state in states):
        name_files(directory)
        rebuilt.append(MANIFEST)
    return rebuilt
