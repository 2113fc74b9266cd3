"""Gaps in the steps of a run, where segments are lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

Gap = tuple[int, int]
"""First and last of some steps, both included."""

BEFORE: Gap = (-1, -1)
"""What ends before the first segment, which starts at step 0."""


def gaps_between(spans: Iterable[Gap], until: int, before: Gap = BEFORE) -> list[Gap]:
    """Return the steps between `before` and the spans, and after the last one up to `until`."""
    gaps: list[Gap] = []
    reached = before[1]
    for first, last in (*sorted(spans), (until + 1, until)):
        if first > reached + 1:
            gaps.append((reached + 1, first - 1))
        reached = max(reached, last)
    return gaps


def cut(gaps: Iterable[Gap], steps: Iterable[int]) -> list[Gap]:
    """Return gaps of which none has steps both up to and after one of `steps`."""
    barriers = sorted(steps)
    pieces: list[Gap] = []
    for first, last in gaps:
        ends = [*(step for step in barriers if first <= step < last), last]
        pieces += zip([first, *(end + 1 for end in ends[:-1])], ends, strict=True)
    return pieces


def covered(gap: Gap, spans: Iterable[Gap]) -> bool:
    """Return whether every step of a gap belongs to a span."""
    at, end = gap
    for first, last in sorted(spans):
        if first <= at <= last:
            at = last + 1
    return at > end


def steps_text(gaps: Sequence[Gap]) -> str:
    """Return gaps in words: `steps 11 to 20 and 41 to 50`."""
    return f"steps {' and '.join(f'{first} to {last}' for first, last in gaps)}"
