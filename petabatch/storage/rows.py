"""Rows of segments: files that together hold all slices over a range of steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from petabatch.errors import DamagedError, StorageError
from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.description import segments_of
from petabatch.storage.directory import RunDirectory
from petabatch.storage.gaps import BEFORE, Gap, covered, cut, gaps_between, steps_text
from petabatch.storage.lost import hint, lost_segments
from petabatch.storage.seal import verify
from petabatch.storage.segment import Segment, Summary
from petabatch.variable import Stream

_NONE = (0, 0)
"""Times of a stream that was not recorded."""


@dataclass(frozen=True)
class Row:
    """The segments of the steps `first` to `last`, in the order of their slices."""

    first: int
    last: int
    segments: tuple[Segment, ...]
    summaries: tuple[Summary, ...]

    @property
    def flushes(self) -> int:
        """Flushes merged into these files."""
        return self.summaries[0].flushes

    def holding(self, stream: Stream) -> list[Segment]:
        """Return the segments in which the stream has values."""
        pairs = zip(self.segments, self.summaries, strict=True)
        return [s for s, summary in pairs if s.may_hold(stream) and summary.times.get(stream.path, _NONE)[0]]

    def times(self, stream: Stream) -> tuple[int, int]:
        """Return (number of times, checksum of the steps) of a stream, the same on all ranks."""
        pairs = zip(self.segments, self.summaries, strict=True)
        found = {summary.times.get(stream.path, _NONE) for s, summary in pairs if s.may_hold(stream)}
        if not stream.batched:
            found = {times for times in found if times[0]}  # only rank 0 has it
        if len(found) > 1:
            names = ", ".join(segment.name for segment in self.segments)
            raise StorageError(f"{stream.path}: the ranks recorded it at different steps in {names}")
        return found.pop() if found else _NONE


def all_segments(directory: RunDirectory) -> list[Segment]:
    """Return every segment in `parts/`, in chronological order."""
    found = (Segment.parse(entry.name) for entry in directory.parts.iterdir())
    return sorted(segment for segment in found if segment is not None)


def expected_segments(directory: RunDirectory) -> list[Segment]:
    """Return every segment in `parts/`, or named by the description, in chronological order."""
    named = map(Segment.parse, segments_of(directory))
    return sorted({*all_segments(directory), *(segment for segment in named if segment is not None)})


def damaged_segments(directory: RunDirectory, segments: Iterable[Segment]) -> Iterator[tuple[Segment, str]]:
    """Yield those of the segments that are damaged, each with a message.

    They are verified as a whole.
    """
    for segment in segments:
        try:
            check_segment(directory, segment)
        except StorageError as error:
            yield segment, str(error)


def check_segment(directory: RunDirectory, segment: Segment, contents: bool = True) -> None:
    """Raise DamagedError unless a segment is as it was written, and that of its name."""
    verify(directory.path, segment.path, contents)
    _summary(directory, segment)  # a seal does not cover the name
    if contents:
        directory.format.check_values(directory, segment)


def size_of(directory: RunDirectory, segment: Segment) -> int:
    """Return the bytes that are read to verify a segment; 0 if it is gone or cannot be read."""
    try:
        return directory.format.size_of(directory.parts / segment.name)
    except (OSError, StorageError):
        return 0


def verify_segments(directory: RunDirectory, segments: Iterable[Segment]) -> None:
    """Raise DamagedError if one of the segments is damaged, with all that are."""
    _refuse(directory, [problem for _, problem in damaged_segments(directory, segments)])


def verify_rows(directory: RunDirectory, batch: int, until: int) -> None:
    """Raise DamagedError if a segment is damaged, or one of the steps up to `until` is missing."""
    expected = expected_segments(directory)
    damaged = [problem for _, problem in damaged_segments(directory, expected)]
    gaps = missing_steps(directory, batch, until, expected)
    missing = [f"{directory.parts}: no segment has {steps_text(gaps)}"] if gaps else []
    _refuse(directory, [*damaged, *missing])


def _refuse(directory: RunDirectory, problems: Sequence[str]) -> None:
    if problems:
        found = "\n".join(problems)
        raise DamagedError(f"{found}\n    hint:     restore from a copy; without one, {hint(directory)}")


def find_rows(
    directory: RunDirectory, batch: int, until: int | None = None
) -> tuple[list[Row], list[Segment]]:
    """Return (rows, superseded): the complete rows of a run in order, and segments merged into others.

    Segments that end after step `until`, which may be damaged, are not opened; none is if that is 0.
    Incomplete rows at the end, and where a segment is lost, are left out. Raises StorageError when a segment
    in between is missing without being lost.
    """
    spans, superseded = _spans(directory, until)
    whole = [(span, row) for span, row in spans if _tiles(row, batch)]
    lost = [(segment.first, segment.last) for segment in lost_segments(directory)]
    before = _before(directory, [*(span for span, _ in spans), *lost])
    for (_, last), (first, _) in pairwise([before, *(span for span, _ in whole)]):
        gap = last + 1, first - 1
        if first == last + 1 or (first > last and covered(gap, lost)):
            continue
        what = f"the segments are not contiguous: one ends at step {last}, the next starts at step {first}"
        if any(gap[0] <= start and end <= gap[1] for (start, end), _ in spans):
            what = f"a rank's segment of steps {gap[0]} to {gap[1]} is missing"
        raise StorageError(f"{directory.parts}: {what}\n    hint:     {hint(directory)}")
    return [Row(*span, row, _summaries(directory, row)) for span, row in whole], superseded


def find_gaps(directory: RunDirectory, rows: Sequence[Row], until: int | None = None) -> list[Gap]:
    """Return the steps up to `until` that are lost: between rows, and after them where a segment is lost."""
    lost = [s for s in lost_segments(directory) if until is None or s.last <= until]
    spans = [(row.first, row.last) for row in rows]
    before = _before(directory, [*spans, *((s.first, s.last) for s in lost)])
    return gaps_between(spans, max((s.last for s in lost), default=-1), before)


def missing_steps(
    directory: RunDirectory, batch: int, until: int, known: Iterable[Segment] = ()
) -> list[Gap]:
    """Return the steps up to `until` of which segments are missing that are neither lost nor `known`.

    They are cut at checkpoints, since the steps after one can be computed again from it.
    """
    if until <= 0:  # step 0 is recorded with those after it
        return []
    spans, _ = _spans(directory, None)
    lost = [(segment.first, segment.last) for segment in (*lost_segments(directory), *known)]
    before = _before(directory, [*(span for span, _ in spans), *lost])
    whole = [span for span, row in spans if _tiles(row, batch)]
    resumable = [step for step in checkpoint_steps(directory) if step > 0]  # from step 0, it too is recorded
    return cut(gaps_between([*whole, *lost], until, before), resumable)


def _before(directory: RunDirectory, known: Sequence[Gap]) -> Gap:
    """Return what ends before the first segment: if the run started from another, the steps of that one.

    Such a run saves a checkpoint before it records anything.
    """
    if not directory.started_from_another:
        return BEFORE
    starts = [*(first for first, _ in known), *(step + 1 for step in checkpoint_steps(directory))]
    last = min(starts, default=0) - 1
    return last, last


def _spans(
    directory: RunDirectory, until: int | None
) -> tuple[list[tuple[Gap, tuple[Segment, ...]]], list[Segment]]:
    """Return the segments by their steps in order, and those that are merged into others."""
    segments = all_segments(directory)
    if until is not None:
        segments = [segment for segment in segments if segment.last <= until != 0]
    merged = [segment for segment in segments if segment.merged]
    superseded = [
        segment
        for segment in segments
        if any(m != segment and m.first <= segment.first and segment.last <= m.last for m in merged)
    ]
    gone = set(superseded)
    live = [segment for segment in segments if segment not in gone]
    return [(span, tuple(row)) for span, row in groupby(live, key=lambda s: (s.first, s.last))], superseded


def _summaries(directory: RunDirectory, row: Sequence[Segment]) -> tuple[Summary, ...]:
    known = directory.summaries
    for segment in row:
        if segment.name not in known:
            known[segment.name] = _summary(directory, segment)
    return tuple(known[segment.name] for segment in row)


def _summary(directory: RunDirectory, segment: Segment) -> Summary:
    return directory.format.read_summary(directory.parts / segment.name)


def _tiles(row: Sequence[Segment], batch: int) -> bool:
    """Return whether the segments cover every slice of the batch exactly once."""
    if len(row) == 1 and row[0].merged:
        return True
    ends = [0, *(segment.hi for segment in row)]
    return all(s.lo == end for s, end in zip(row, ends, strict=False)) and ends[-1] == batch
