"""The entrance of the command line: `info` answers at once, without what the other verbs need."""

from __future__ import annotations

import atexit
import gc
import sys
from typing import NoReturn

from petabatch.importing import importing
from petabatch.parallel.failure import reporting
from petabatch.stop_signals import interrupt_once
from petabatch.streams import open_missing


def main() -> NoReturn:
    """Run the command line."""
    open_missing()
    interrupt_once()
    atexit.register(gc.freeze)  # or the interpreter looks for garbage among all modules before it ends
    if sys.argv[1:2] != ["info"]:
        with importing():
            from petabatch.cli import main as run_verb

        run_verb()
    with reporting():
        with importing():
            from petabatch.report.command import info

        info(sys.argv[2:])
    sys.exit(0)
