"""Recovery of an interrupted run: the checkpoint to resume from."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from petabatch.errors import DamagedError, RunDirectoryError
from petabatch.logs import log
from petabatch.storage.checkpoint import (
    RESTORE,
    checkpoint_batch,
    latest_checkpoint,
    step_of,
)
from petabatch.storage.description import describe
from petabatch.storage.directory import RunDirectory
from petabatch.storage.gaps import steps_text
from petabatch.storage.lost import hint, lost_segments
from petabatch.storage.rows import all_segments, damaged_segments, expected_segments, missing_steps
from petabatch.storage.segment import Segment


def resume_point(directory: RunDirectory) -> Path | None:
    """Return the head of the latest whole checkpoint; None if nothing has been recorded yet.

    If segments from before it are damaged or lost, it is an earlier checkpoint from which they are computed
    again. If there is none, the run goes on without those that are lost; for the others DamagedError is
    raised, and the run is left as it is.
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
    if step == 0:
        return head
    kept = (segment for segment in expected_segments(directory) if segment.last <= step)
    damaged = dict(damaged_segments(directory, kept))
    for gap in missing_steps(directory, checkpoint_batch(head)[0], step, damaged):
        damaged[Segment(*gap)] = f"{directory.parts}: no segment has {steps_text([gap])}"
    lost = [segment for segment in lost_segments(directory) if segment.last <= step]
    problems = {**damaged, **{one: f"{directory.path / one.path}: this segment is lost" for one in lost}}
    for segment in sorted(problems):
        earlier = _checkpoint_before(directory, segment)
        if earlier is not None:
            _warn(problems, step_of(earlier))
            return earlier
        if segment in damaged:
            found = "\n".join(dict.fromkeys(damaged.values()))  # commits may share a chunk
            without = f";\n              or {hint(directory)}, and the run can be resumed"
            raise DamagedError(
                f"{found}\n    found:    no checkpoint from before these steps\n    hint:     {RESTORE}"
                f"{without if directory.format.has_gaps else ''}"
            )
    _warn(problems, step)
    return head


def _checkpoint_before(directory: RunDirectory, segment: Segment) -> Path | None:
    """Return the head of the latest whole checkpoint from which a segment can be computed again, if any."""
    try:
        return latest_checkpoint(directory, before=segment.first)
    except DamagedError:
        return None


def _warn(problems: Mapping[Segment, str], step: int) -> None:
    """Say of damaged and lost segments whether a run that is resumed at `step` computes them again."""
    again = [problem for segment, problem in problems.items() if segment.first > step or step == 0]
    without = [problem for segment, problem in problems.items() if 0 < step >= segment.first]
    if again:
        text = "\n".join(again)
        log.warning("%s; the run is resumed at step %d, and its steps are computed again", text, step)
    if without:
        log.warning("%s; the run is resumed at step %d without its steps", "\n".join(without), step)
