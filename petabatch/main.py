"""The entrance of the command line: `info [DIR]` answers at once, without typer, which takes longer."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NoReturn

from petabatch.importing import importing
from petabatch.parallel.failure import reporting
from petabatch.stop_signals import ignore_signals, interrupt_once
from petabatch.streams import open_missing


def main() -> NoReturn:
    """Run the command line."""
    open_missing()
    interrupt_once()
    verb, rest = sys.argv[1:2], sys.argv[2:]
    if verb != ["info"] or len(rest) > 1 or any(word.startswith("-") for word in rest):
        with importing():
            from petabatch.cli import main as run_verb

        try:
            run_verb()
        except SystemExit as end:
            if not end.code:
                ignore_signals()
            raise
    with reporting():
        with importing():
            from petabatch.report.command import info

        info(Path(rest[0]) if rest else None)
    sys.exit(0)
