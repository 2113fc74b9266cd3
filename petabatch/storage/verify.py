"""Verification of every file of a run, and the repair of those that can be made from others."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from petabatch.errors import DamagedError, StorageError
from petabatch.storage import points, seal
from petabatch.storage.checkpoint import checkpoint_heads, checkpoint_steps, parts_of, step_of
from petabatch.storage.checkpoint_part import verify as verify_part
from petabatch.storage.claim import claimed
from petabatch.storage.description import describe, indexed_steps, segments_of, verify_index
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import (
    CHECKPOINTS,
    DESCRIPTION,
    KEPT,
    LOST,
    PARAMS,
    PARTS,
    POINTS,
    resolved_value,
)
from petabatch.storage.gaps import steps_text
from petabatch.storage.index import write_index
from petabatch.storage.lost import drop_lost, give_up, lost_segments
from petabatch.storage.rows import (
    all_segments,
    check_segment,
    expected_segments,
    find_gaps,
    find_rows,
    missing_steps,
    size_of,
)
from petabatch.storage.segment import Segment
from petabatch.storage.wave import waves_of


@dataclass(frozen=True)
class FileState:
    """What is known of one file."""

    name: str
    """Path below the run directory."""
    state: Literal["whole", "unread", "damaged", "lost"]
    """`unread`: its seal was not compared with its bytes. `lost`: a segment that was taken out of the run."""
    problem: str = ""
    """What is wrong with a damaged file, with its path."""
    checkpoint: int | None = None
    """The step of the checkpoint that it belongs to."""
    segment: Segment | None = None


def file_states(directory: RunDirectory, limit: float = math.inf) -> Iterator[FileState]:
    """Yield the state of every file, the newest checkpoints before the older, segments last.

    At most `limit` bytes are read; of further files only whose they are. Files that a run in progress
    removes meanwhile are left out.
    """
    root, left = directory.path, limit

    def state(
        name: str,
        check: Callable[[bool], object],
        checkpoint: int | None = None,
        segment: Segment | None = None,
        needed_by: Path | None = None,
    ) -> Iterator[FileState]:
        nonlocal left
        size = _size(root / name) if segment is None else size_of(directory, segment)
        contents = size <= left
        left -= size if contents else 0
        try:
            check(contents)
            yield FileState(name, "whole" if contents else "unread", "", checkpoint, segment)
        except StorageError as error:
            if (root / name).exists() or (needed_by is not None and needed_by.exists()):
                yield FileState(name, "damaged", str(error), checkpoint, segment)

    for name in _fixed_files(directory):
        yield from state(name, partial(_check_fixed, directory, name), needed_by=root)
    heads = [(CHECKPOINTS, head, step_of(head)) for head in reversed(checkpoint_heads(directory))]
    for folder, head, step in (*heads, *((KEPT, head, None) for head in _kept(directory))):
        needed_by = root if folder == KEPT else None
        yield from state(f"{folder}/{head.name}", partial(_check_head, head), step, needed_by=needed_by)
        with suppress(StorageError):
            for part in parts_of(head):
                check = partial(verify_part, head, part)
                yield from state(f"{folder}/{part.name}", check, step, needed_by=head)
    for path in waves_of(root):
        yield from state(f"{CHECKPOINTS}/{path.name}", partial(_check_wave, path))
    described, there = root / DESCRIPTION, set(points.names_of(root))
    for file in points.expected_names(root, segments_of(directory)):
        check = partial(_check_points, directory, file)
        yield from state(f"{POINTS}/{file}", check, needed_by=None if file in there else described)
    for path in sorted((root / POINTS).glob(f"*{LOST}")):
        yield FileState(f"{POINTS}/{path.name}", "lost")
    if directory.in_waves:
        return  # it has no segments of steps
    for segment in expected_segments(directory):
        check = partial(check_segment, directory, segment)
        named = segment.name in segments_of(directory)
        yield from state(segment.path, check, segment=segment, needed_by=described if named else None)
    for segment in lost_segments(directory):
        yield FileState(f"{segment.path}{LOST}", "lost", segment=segment)
    if not claimed(directory.path):  # files come and go
        yield from _missing(directory)


def _fixed_files(directory: RunDirectory) -> list[str]:
    """Return the names of the files that are neither segments nor checkpoints, missing ones included."""
    given = [name for name in PARAMS if (directory.path / name).is_file()]
    segments = all_segments(directory)
    of_rank_0 = [segment for segment in segments if segment.lo <= 0]
    # A run that was killed in its first flush has no index, and rank 0 has written one segment; the index
    # is there before the first checkpoint of steps that it has made, and described before. A sweep may have
    # been killed after its only checkpoint, at its end, and before its first index.
    alone = not directory.started_from_another and not directory.in_waves
    flushed = alone and any(checkpoint_steps(directory))
    merged = directory.format.per_rank and any(segment.merged for segment in of_rank_0)
    there = (directory.path / directory.index).exists()
    indexed = flushed or merged or len(of_rank_0) > 1 or _ended(directory) or there
    described = indexed or (directory.path / DESCRIPTION).exists()
    return [*given, *directory.initial_files(), *[DESCRIPTION] * described, *[directory.index] * indexed]


def _kept(directory: RunDirectory) -> list[Path]:
    """Return the head of the checkpoint from which the points of a sweep start, if it has a copy of one."""
    name = resolved_value(directory.path, "run", "start_from")
    folder = directory.path / KEPT
    return [folder / Path(str(name)).name] if name is not None and folder.is_dir() else []


def _ended(directory: RunDirectory) -> bool:
    try:
        return describe(directory).status != "running"
    except StorageError:
        return False


def _missing(directory: RunDirectory) -> Iterator[FileState]:
    """Yield the steps of which no segment is left, but the index, the description or a checkpoint."""
    try:
        batch = describe(directory).batch
    except StorageError:
        return
    reached = max([indexed_steps(directory)[0], *checkpoint_steps(directory)])
    for gap in missing_steps(directory, batch, reached, expected_segments(directory)):
        problem = f"{directory.parts}: no segment has {steps_text([gap])}"
        yield FileState(f"{PARTS}/", "damaged", problem, segment=Segment(*gap))


def _size(path: Path) -> int:
    """Return the size of a file in bytes, 0 if it is gone."""
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _check_fixed(directory: RunDirectory, name: str, contents: bool) -> None:
    if name not in PARAMS:
        if name == directory.index:
            verify_index(directory, contents)
        else:
            seal.verify(directory.path, name, contents)
        return
    try:
        given = describe(directory).provenance.get("params_given")
    except StorageError:
        return  # nothing tells how it was
    if given not in (None, directory.params_text):
        raise DamagedError(f"{directory.path / name}: this file is damaged: its text has changed")


def _check_head(head: Path, contents: bool) -> None:
    parts_of(head)


def _check_wave(path: Path, contents: bool) -> None:
    seal.assert_whole(path)


def _check_points(directory: RunDirectory, name: points.Name, contents: bool) -> None:
    points.read(directory, name, contents)


def can_be_indexed(directory: RunDirectory, damaged: Iterable[Segment]) -> bool:
    """Return whether an index can be made where these segments are damaged, or their values are."""
    if directory.format.has_gaps:
        return True
    for segment in damaged:
        try:
            check_segment(directory, segment, contents=False)
        except StorageError:
            return False
    return True


def repair(directory: RunDirectory) -> list[tuple[str, str]]:
    """Rebuild the index from the whole segments.

    Segments that are damaged or missing are taken out of the run: the index names their steps as lost, and
    points of a sweep are to be made again; its index is made by who knows all of its points.
    Returns what was done, `lost` or `rebuilt`, with the name of each file. Called by one process, which has
    claimed the directory. Raises DamagedError, with nothing changed, if the description of what segments hold
    is damaged too.
    """
    done = [("lost", name) for name in points.lose_damaged(directory)]
    if directory.in_waves:
        return done
    states = list(file_states(directory))
    damaged = {state.name for state in states if state.state == "damaged"}
    if directory.index in damaged or all_segments(directory) or lost_segments(directory):
        d = describe(directory)
        indexed = indexed_steps(directory)
        whole = [s.checkpoint for s in states if s.checkpoint is not None and s.name not in damaged]
        lost = {s.segment for s in states if s.segment is not None and s.state == "damaged"}
        if lost and not directory.format.has_gaps:
            if directory.index not in damaged or not can_be_indexed(directory, lost):
                what = f"steps cannot be taken out of {directory.run_file.name}, whose arrays have no gaps"
                hint = "restore the files from a copy, or resume the run from an earlier checkpoint"
                raise DamagedError(f"{directory.path}: {what}\n    hint:     {hint}")
            write_index(directory, d, limit=math.inf)
            return [*done, ("rebuilt", directory.index)]
        give_up(directory, lost)
        missing = missing_steps(directory, d.batch, max([indexed[0], *whole]))
        give_up(directory, (Segment(*gap) for gap in missing))
        rows, _ = find_rows(directory, d.batch)
        gaps = find_gaps(directory, rows)
        drop_lost(directory, lambda s: not any(s.first <= last and first <= s.last for first, last in gaps))
        if directory.index in damaged or (rows[-1].last if rows else 0, gaps) != indexed:
            write_index(directory, d, limit=math.inf)
            done.append(("rebuilt", directory.index))
    return done
