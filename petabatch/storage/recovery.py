"""Recovery of an interrupted run: the checkpoint to resume from, and the manifest of what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import h5py

from petabatch.errors import DamagedError, RunDirectoryError, StorageError
from petabatch.logs import log
from petabatch.storage import manifest
from petabatch.storage.checkpoint import (
    RESTORE,
    checkpoint_batch,
    checkpoint_heads,
    latest_checkpoint,
    step_of,
    verify_checkpoint,
)
from petabatch.storage.description import describe
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import CHECKPOINTS, DESCRIPTION, MANIFEST
from petabatch.storage.gaps import steps_text
from petabatch.storage.lost import hint, lost_segments
from petabatch.storage.manifest import Entry
from petabatch.storage.rows import (
    all_segments,
    check_segment,
    damaged_segments,
    expected_segments,
    missing_steps,
    refuse_unproven,
)
from petabatch.storage.segment import Segment


def refuse_unnamed(directory: RunDirectory) -> None:
    """Raise DamagedError if a file on which all others depend has neither a line in the manifest nor a seal.

    Such a file may have been edited. The manifest has the lines of the files with which a run starts before
    the run directory appears; only runs of format 1 have no manifest. Warns of damaged lines, which
    `name_files` removes.
    """
    known = manifest.read(directory.path)
    unnamed = [name for name in directory.initial_files() if name not in known.entries]
    if (directory.path / DESCRIPTION).exists() and not known.check(directory.path, DESCRIPTION):
        unnamed.append(DESCRIPTION)
    if unnamed and not is_former(directory):
        raise DamagedError(
            f"{directory.path / MANIFEST}: this file is damaged, or missing\n"
            f"    found:    no line for {', '.join(unnamed)}, which may have changed\n"
            "    hint:     restore it; or compare params.json with a copy, then accept the files as they are "
            f"with petabatch verify --repair {directory.path}"
        )
    if known.bad_lines:
        log.warning(
            "%s; files that it does not name are verified by their seals", known.problem(directory.path)
        )


def name_initial(directory: RunDirectory) -> None:
    """Give the files that a run of format 1 has from the start their lines, before it gets others."""
    known = manifest.read(directory.path).entries
    missing = [n for n in directory.initial_files() if n not in known and (directory.path / n).is_file()]
    manifest.append(directory.path, [Entry.of(directory.path / name, name) for name in missing])


def is_former(directory: RunDirectory) -> bool:
    """Return whether this is a run of format 1; one that was killed before any result may be."""
    if (directory.path / DESCRIPTION).exists():
        return False
    for path in (directory.run_file, *checkpoint_heads(directory)):
        with suppress(OSError, RuntimeError, LookupError), h5py.File(path, "r") as file:
            return bool(file.attrs["petabatch_format"] == 1)
    return not (directory.path / MANIFEST).exists()


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
            found = "\n".join(damaged.values())
            raise DamagedError(
                f"{found}\n    found:    no checkpoint from before these steps\n    hint:     {RESTORE};\n"
                f"              or {hint(directory)}, and the run can be resumed"
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


def name_files(directory: RunDirectory, accepting: bool = False) -> None:
    """Give every whole file a line in the manifest; with `accepting`, every file that can be read.

    Files without one are left by a killed run, belong to a run of format 1, or had a damaged line.
    """
    root, known = directory.path, manifest.read(directory.path)
    checks: dict[str, Callable[[], object]] = {
        name: partial(known.check, root, name) for name in directory.fixed_files()
    }
    for head in checkpoint_heads(directory):
        checks[f"{CHECKPOINTS}/{head.name}"] = partial(verify_checkpoint, head)
    for segment in all_segments(directory):
        checks[segment.path] = partial(
            check_segment if accepting else refuse_unproven, directory, segment, known
        )
    new = []
    for name, check in checks.items():
        if name not in known.entries:
            with suppress(StorageError):
                check()
                new.append(Entry.of(root / name, name))
    manifest.rewrite(root, [*(entry for entries in known.entries.values() for entry in entries), *new])
