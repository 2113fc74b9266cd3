"""The standard streams of a process that was started without them, or whose output goes nowhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import TextIOWrapper


def open_missing() -> None:
    """Open the standard streams that are closed, so that no file of a run takes their descriptors.

    What is written to standard error is then lost; writing to standard output remains an error. Characters
    that a stream cannot encode, as in paths that are not UTF-8, are written as escape sequences.
    """
    for number, flags in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, flags), True)  # takes the lowest number free: this one
    before = sys.stdout
    sys.stdout = _Output(
        os.fdopen(1, "wb", closefd=False),
        encoding="utf-8" if before is None else before.encoding,
        errors="backslashreplace",
        line_buffering=before is not None and before.isatty(),
    )
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", errors="backslashreplace", closefd=False)


class _Output(TextIOWrapper):
    """Standard output, with its name in errors."""

    def write(self, text: str) -> int:
        with _named():
            return super().write(text)

    def flush(self) -> None:
        with _named():
            super().flush()


@contextmanager
def _named() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        error.filename = "standard output"
        raise


def flush_output() -> None:
    """Write out what is left of standard output; drop it if that fails."""
    try:
        sys.stdout.flush()
    except OSError:
        with suppress(OSError, ValueError):
            target = os.open(os.devnull, os.O_WRONLY)
            os.dup2(target, sys.stdout.fileno())
            os.close(target)


def write_error(text: str) -> None:
    """Write a message to standard error, if anybody can read it."""
    with suppress(OSError, ValueError):
        sys.stderr.write(text)
        sys.stderr.flush()
