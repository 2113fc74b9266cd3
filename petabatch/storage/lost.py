"""Lost segments: damaged or missing files that `petabatch verify --repair` took out of a run.

Of each one `parts/NAME.lost` is left: the damaged file as it was found, or an empty file where it was
missing. It allows the other segments not to be contiguous; nothing is read from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from petabatch.errors import StorageError
from petabatch.storage.atomic import remove
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import LOST
from petabatch.storage.segment import Segment


def lost_segments(directory: RunDirectory) -> list[Segment]:
    """Return the lost segments, in chronological order, without those that have been put back."""
    return [one for one in _marked(directory) if not (directory.parts / one.name).exists()]


def give_up(directory: RunDirectory, segments: Iterable[Segment]) -> None:
    """Take segments out of a run; called by one process, which has claimed the directory."""
    for segment in segments:
        put_aside(directory.parts / segment.name)
        directory.summaries.pop(segment.name, None)


def put_aside(path: Path) -> None:
    """Rename a damaged file to `NAME.lost`, and leave an empty one where it is missing."""
    mark = path.with_name(f"{path.name}{LOST}")
    try:
        if path.exists():
            path.replace(mark)
        else:
            mark.touch()
    except OSError as error:
        raise StorageError(f"{mark}: cannot be made: {error.strerror}") from error


def drop_lost(directory: RunDirectory, chosen: Callable[[Segment], bool]) -> None:
    """Remove what is left of the chosen segments, since their steps are recorded again."""
    for segment in filter(chosen, _marked(directory)):
        remove(directory.parts / f"{segment.name}{LOST}")


def _marked(directory: RunDirectory) -> list[Segment]:
    names = (entry.name for entry in directory.parts.iterdir() if entry.name.endswith(LOST))
    found = (Segment.parse(name.removesuffix(LOST)) for name in names)
    return sorted(segment for segment in found if segment is not None)


def hint(directory: RunDirectory) -> str:
    """Return what can be done about damaged segments of which there is no copy."""
    if not directory.format.has_gaps:  # `repair` refuses it
        return "`petabatch run --force` starts the run again at step 0"
    return f"`petabatch verify --repair {directory.path}` takes their steps out of the run, and lists them"
