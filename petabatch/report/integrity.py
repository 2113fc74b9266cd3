"""Output of `petabatch verify`: the state of every file of a run, and what damage means for the run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from petabatch.errors import StorageError
from petabatch.storage.claim import Claim, claimed
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import DATA, DESCRIPTION, INPUTS, KEPT, POINTS, RESOLVED
from petabatch.storage.verify import FileState, can_be_indexed, file_states, repair

_NEEDED = (RESOLVED, INPUTS, DESCRIPTION)
"""Files without which a run cannot be resumed."""


def verify(path: Path, repairing: bool) -> tuple[str, bool]:
    """Verify a run, repair it if asked; return the text to print, and whether everything is whole."""
    directory = RunDirectory.open(path)
    lines, repaired = [f"run directory      {directory.path}"], True
    if repairing:
        with Claim() as claim:
            claim.take(directory.path)
            directory.clean()
            try:
                lines += [f"{what:18} {name}" for what, name in repair(directory)]
            except StorageError as error:
                lines.append(f"not rebuilt        {error}")
                repaired = False
    states = list(file_states(directory))
    damaged = [state for state in states if state.state == "damaged"]
    count = Counter(state.state for state in states)
    lines.append(f"files              {count['whole']} whole, {count['damaged']} damaged")
    lost = [state for state in states if state.state == "lost"]
    whole = {state.checkpoint for state in states if state.checkpoint is not None}
    whole -= {state.checkpoint for state in damaged}
    running = claimed(directory.path)
    indexed = can_be_indexed(directory, (one.segment for one in damaged if one.segment is not None))
    for state in (*damaged, *lost):
        lines += [
            f"{state.state:18} {state.problem or directory.path / state.name}",
            f"                   {_meaning(state, sorted(whole), running, directory, indexed)}",
        ]
    steps = ", ".join(str(step) for step in sorted(whole))
    lines.append(f"whole checkpoints  {f'at steps {steps}' if steps else 'none'}")
    return "\n".join(lines), repaired and not damaged


def _meaning(
    state: FileState,
    checkpoints: Sequence[int | None],
    running: bool,
    directory: RunDirectory,
    indexed: bool,
) -> str:
    """Return what is lost with a damaged file, or how to get it back; `indexed`: the index can be rebuilt."""
    steps = [step for step in checkpoints if step is not None]
    if state.segment is not None:
        first, last = state.segment.first, state.segment.last
        slices = (
            "all slices" if state.segment.merged else f"slices {state.segment.lo} to {state.segment.hi - 1}"
        )
        before = [step for step in steps if step < first or step == 0]
        if before:
            remedy = f"`petabatch resume` computes them again from step {before[-1]}"
            remedy += "; stop the run first, before it removes that checkpoint" if running else ""
        elif state.state == "lost":
            remedy = "lost; the other steps can be read, and an unfinished run can be resumed"
        else:
            remedy = "lost without a copy of the file"
            if directory.format.has_gaps:
                remedy += "; `petabatch verify --repair` leaves them out of the run"
        return f"steps {first} to {last} of {slices}: {remedy}"
    if state.checkpoint is not None:
        return f"the checkpoint of step {state.checkpoint} is lost; the recorded results are not affected"
    if state.name == directory.index or (directory.in_waves and state.name == DESCRIPTION):
        if not indexed:
            return "can be made from the other files when the damaged segments are restored from a copy"
        return "can be made from the other files: petabatch verify --repair"
    if state.name.startswith(f"{POINTS}/") and state.state == "lost":
        return "`petabatch resume` makes its points again"
    if state.name.startswith(f"{POINTS}/"):
        return "`petabatch verify --repair` takes damaged points out, and `petabatch resume` makes them again"
    if state.name.startswith(f"{KEPT}/"):
        return "no more points can be made; restore the file from a copy"
    if state.name in _NEEDED or state.name.startswith(f"{DATA}/"):
        return "the run cannot be resumed; restore the file from a copy"
    return "nothing depends on this file"
