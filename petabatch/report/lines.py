"""Lines of a page on the terminal: a label, and a value that is wrapped."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence

LABEL, _WIDTH = 19, 80


def field(label: str, value: object) -> list[str]:
    """Return a line, or several where the value is long."""
    return wrapped(f"{label:{LABEL - 1}} ", str(value), LABEL)


def wrapped(head: str, text: str, indent: int) -> list[str]:
    """Return a text in lines of at most 80 characters, the first with a head, the others indented."""
    return textwrap.wrap(
        text,
        _WIDTH,
        initial_indent=head,
        subsequent_indent=" " * indent,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [head.rstrip()]


def table(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table with its columns aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  " + "  ".join(f"{text:>{width}}" for text, width in zip(row, widths, strict=True))


def ranges(numbers: Sequence[int]) -> str:
    """Return ascending numbers in short, as `0-3, 5`."""
    ends: list[list[int]] = []
    for number in numbers:
        if ends and ends[-1][-1] == number - 1:
            ends[-1] = [ends[-1][0], number]
        else:
            ends.append([number])
    return ", ".join("-".join(map(str, pair)) for pair in ends)


def finished_of(finished: int, failed: int, count: int, what: str) -> str:
    """Return how many points or slices are finished, as `44 of 60 slices finished, 2 failed`."""
    return f"{finished:,} of {count:,} {what}s finished{f', {failed:,} failed' if failed else ''}"
