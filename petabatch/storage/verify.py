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

from petabatch.errors import DamagedError, StorageError
from petabatch.storage import ledger, manifest
from petabatch.storage.checkpoint import (
    checkpoint_heads,
    checkpoint_steps,
    is_head,
    is_proven,
    parts_of,
    step_of,
)
from petabatch.storage.checkpoint_part import Part
from petabatch.storage.checkpoint_part import verify as verify_part
from petabatch.storage.claim import claimed
from petabatch.storage.description import describe, indexed_steps
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import (
    CHECKPOINTS,
    DESCRIPTION,
    INPUTS,
    LOST,
    MANIFEST,
    PARTS,
    POINTS,
    RESOLVED,
    RUN_FILE,
)
from petabatch.storage.gaps import steps_text
from petabatch.storage.index import write_index
from petabatch.storage.lost import drop_lost, give_up, lost_segments
from petabatch.storage.recovery import is_former, name_files
from petabatch.storage.rows import (
    all_segments,
    check_segment,
    expected_segments,
    find_gaps,
    find_rows,
    missing_steps,
)
from petabatch.storage.segment import Segment


@dataclass(frozen=True)
class FileState:
    """What is known of one file."""

    name: str
    """Path below the run directory."""
    state: Literal["whole", "unnamed", "unproven", "unread", "damaged", "lost"]
    """`unnamed`: not in the manifest, but whole by its seal, or of format 1. `unproven`: without either.
    `unread`: of the right size. `lost`: a segment that was taken out of the run."""
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
    former = is_former(directory)
    left = limit

    def state(
        name: str,
        check: Callable[[bool], bool],
        checkpoint: int | None = None,
        segment: Segment | None = None,
        named: bool = False,
    ) -> Iterator[FileState]:
        nonlocal left
        size = _size(root / name)
        contents = size <= left
        left -= size if contents else 0
        try:
            proven = check(contents)
            if named or name in known.entries:
                yield FileState(name, "whole" if contents else "unread", "", checkpoint, segment)
            elif proven:
                yield FileState(name, "unnamed", "", checkpoint, segment)
            else:
                yield FileState(name, "unproven", f"{root / name}: {manifest.UNPROVEN}", checkpoint, segment)
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
    needed = set() if former else {RESOLVED, INPUTS, *([DESCRIPTION] if directory.run_file.exists() else [])}
    for name in sorted(named.union(directory.fixed_files(), needed)):
        yield from state(name, partial(_check_fixed, root, name, known, former))
    if RUN_FILE not in named and not directory.run_file.exists() and _had_index(directory, known):
        yield FileState(RUN_FILE, "damaged", f"{directory.run_file}: this file is missing")
    heads |= {f"{CHECKPOINTS}/{head.name}" for head in checkpoint_heads(directory)}
    for name in sorted(heads, reverse=True):
        head = root / name
        yield from state(name, partial(_check_head, head, former), step_of(head))
        with suppress(StorageError):
            for part in parts_of(head):
                yield from state(
                    f"{CHECKPOINTS}/{part.name}", partial(_check_part, head, part), step_of(head), named=True
                )
    for file in ledger.files_of(root):
        yield from state(f"{POINTS}/{file.name}", partial(_check_ledger, file), named=True)
    if directory.in_waves:
        return  # its points are no segments
    for segment in expected_segments(directory):
        yield from state(segment.path, partial(check_segment, directory, segment, known), segment=segment)
    for segment in lost_segments(directory):
        yield FileState(f"{segment.path}{LOST}", "lost", segment=segment)
    if not claimed(directory.path):  # files come and go
        yield from _missing(directory)


def _missing(directory: RunDirectory) -> Iterator[FileState]:
    """Yield the steps of which neither a segment nor the manifest is left, but the index or a checkpoint."""
    try:
        batch = describe(directory).batch
    except StorageError:
        return
    expected = expected_segments(directory)
    reached = max([indexed_steps(directory)[0], *checkpoint_steps(directory)])
    for gap in missing_steps(directory, batch, reached, expected):
        problem = f"{directory.parts}: no segment has {steps_text([gap])}"
        yield FileState(f"{PARTS}/", "damaged", problem, segment=Segment(*gap))


def _had_index(directory: RunDirectory, known: manifest.Manifest) -> bool:
    """Return whether `run.h5` has been written, though the manifest does not name it.

    If not, the run was killed in its first flush, and rank 0 has written one segment.
    """
    segments = all_segments(directory)
    unknown = bool(known.bad_lines) or not (directory.path / MANIFEST).exists()
    of_rank_0 = [segment for segment in segments if segment.lo <= 0]
    later = len(of_rank_0) > 1 or any(segment.merged for segment in of_rank_0)
    return later or (unknown and bool(segments))


def _size(path: Path) -> int:
    """Return the size of a file in bytes, 0 if it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _manifest_states(directory: RunDirectory, known: manifest.Manifest) -> Iterator[FileState]:
    path = directory.path / MANIFEST
    if known.bad_lines:
        yield FileState(MANIFEST, "damaged", known.problem(directory.path))
    elif not path.exists() and (directory.path / DESCRIPTION).exists():
        yield FileState(MANIFEST, "damaged", f"{path}: this file is missing")


def _check_fixed(root: Path, name: str, known: manifest.Manifest, former: bool, contents: bool) -> bool:
    if name not in known.entries and not (root / name).exists():
        raise DamagedError(f"{root / name}: this file is missing")
    # in a run in progress, some of these files are replaced meanwhile
    return (manifest.verify(root, name) if contents else known.check(root, name, contents)) or former


def _check_head(head: Path, former: bool, contents: bool) -> bool:
    parts_of(head)
    return former or is_proven(head)


def _check_part(head: Path, part: Part, contents: bool) -> bool:
    verify_part(head, part, contents)
    return True


def _check_ledger(file: Path, contents: bool) -> bool:
    ledger.read(file)
    return True


def repair(directory: RunDirectory) -> list[tuple[str, str]]:
    """Rebuild `run.h5` from the whole segments and name every file in the manifest, where that is needed.

    Segments that are damaged or missing are taken out of the run: the index names their steps as lost. Files
    that cannot be verified are accepted as they are. Returns what was done, `rebuilt` or `accepted`, with the
    name of each file. Called by one process, which has claimed the directory. Raises DamagedError, with
    nothing changed, if the description of what segments hold is damaged too.
    """
    done = []
    states = list(file_states(directory))
    damaged = {state.name for state in states if state.state == "damaged"}
    of_steps = not directory.in_waves
    if of_steps and (RUN_FILE in damaged or expected_segments(directory) or lost_segments(directory)):
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
            done.append(("rebuilt", RUN_FILE))
    if any(state.state in ("unnamed", "unproven") or state.name == MANIFEST for state in states):
        name_files(directory, accepting=True)
        done.append(("rebuilt", MANIFEST))
    return done + [("accepted", state.name) for state in states if state.state == "unproven"]
