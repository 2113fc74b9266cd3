"""Gaps in the steps of a run, where segments are lost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

Gap = tuple[int, int]
"""First and last of some steps, both included."""

BEFORE: Gap = (-1, -1)
"""What ends before the first segment, which starts at step 0."""


def gaps_between(spans: Sequence[Gap], until: int, before: Gap = BEFORE) -> list[Gap]:
    """Return the steps between `before` and the spans, and after the last one up to `until`."""
    ends = [before, *spans]
    if ends[-1][1] < until:
        ends.append((until + 1, until + 1))
    return [(last + 1, first - 1) for (_, last), (first, _) in pairwise(ends) if first > last + 1]


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
