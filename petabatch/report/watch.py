"""The page about a run, kept up to date on a terminal until the run ends."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from petabatch.report.information import describe, ended

_PERIOD = 1.0
"""Seconds between two looks at the run."""
_ALTERNATE, _NORMAL = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
"""Switch to the alternate screen without a cursor, and back."""
_HOME, _CLEAR_LINE, _CLEAR_BELOW = "\x1b[H", "\x1b[K", "\x1b[J"


def watch(path: Path) -> str:
    """Show the page until the run ends, or until Ctrl-C; return the last page.

    Where standard output is no terminal, wait for the end of the run.
    """
    screen = sys.stdout.isatty()
    try:
        if screen:
            sys.stdout.write(_ALTERNATE)
        while not ended(path):
            if screen:
                sys.stdout.write(_fitted(describe(path)))
                sys.stdout.flush()
            time.sleep(_PERIOD)
    except KeyboardInterrupt:
        pass
    finally:
        if screen:
            sys.stdout.write(_NORMAL)
            sys.stdout.flush()
    return describe(path)


def _fitted(page: str) -> str:
    """Return the page as it replaces the one on the screen, with as many rows as the terminal has."""
    columns, rows = shutil.get_terminal_size()
    lines = [part for line in page.splitlines() for part in _broken(line, columns - 1)]
    if len(lines) >= rows:
        lines = [*lines[: rows - 2], "..."]
    return _HOME + "".join(f"{line}{_CLEAR_LINE}\n" for line in lines) + _CLEAR_BELOW


def _broken(line: str, width: int) -> list[str]:
    """Return a line in parts of at most `width` characters."""
    return [line[at : at + width] for at in range(0, len(line), width)] or [""]
