"""Removal of the checkpoints of a run that is done."""

from __future__ import annotations

import os

from petabatch.errors import DamagedError, RunDirectoryError
from petabatch.storage.checkpoint import INDENT, checkpoint_heads, drop_checkpoints, is_whole, precedes
from petabatch.storage.claim import Claim
from petabatch.storage.description import describe, indexed_steps
from petabatch.storage.directory import RunDirectory
from petabatch.storage.lost import lost_segments
from petabatch.storage.rows import verify_rows


def prune(folder: str | os.PathLike[str]) -> int:
    """Remove the checkpoints of the run directory `folder`; return the number of bytes freed.

    Raises RunDirectoryError when the run is not done, or another process runs in the directory, and
    DamagedError when a segment is damaged, or lost steps can be computed again from a checkpoint.
    """
    directory = RunDirectory.open(folder)
    with Claim() as claim:
        claim.take(directory.path)
        described = describe(directory)
        if (status := described.status) != "done":
            raise RunDirectoryError(
                f"{directory.path}: the checkpoints of a run can be removed when it is done\n"
                f"    found:    a run that is {status}\n    hint:     petabatch resume {directory.path}"
            )
        if not directory.in_waves:  # which has no segments of steps
            verify_rows(directory, described.batch, indexed_steps(directory)[0])
        _refuse_recoverable(directory)
        freed = sum(file.stat().st_size for file in directory.checkpoints.iterdir())
        drop_checkpoints(directory)
        return freed


def _refuse_recoverable(directory: RunDirectory) -> None:
    """Raise DamagedError, with all whole checkpoints from before lost segments, if there are any."""
    lost = lost_segments(directory)
    heads = [
        head
        for head in checkpoint_heads(directory)
        if any(precedes(head, segment.first) for segment in lost) and is_whole(head)
    ]
    recoverable = [one.path for one in lost if any(precedes(head, one.first) for head in heads)]
    if recoverable:
        raise DamagedError(
            f"{directory.path}: lost segments can be computed again from checkpoints\n"
            f"    found:    {INDENT.join(recoverable)}\n"
            f"    hint:     petabatch resume {directory.path};\n"
            f"              or accept the loss: remove {INDENT.join(map(str, heads))}\n"
            "              and prune again"
        )
