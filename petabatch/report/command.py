"""The command line of `petabatch info`; read by argparse, since typer takes longer than the answer."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from petabatch.errors import printable


def info(arguments: Sequence[str]) -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(
        "petabatch info",
        description="Show what a run is, how far and how fast. Without a run, describe this installation.",
    )
    parser.add_argument("run", nargs="?", type=Path, help="run directory, run.h5, or file made by merge")
    parser.add_argument(
        "--watch", "-w", action="store_true", help="keep the page up to date until the run ends"
    )
    parser.add_argument("--devices", action="store_true", help="list the GPUs, or explain why there are none")
    given, unknown = parser.parse_known_args(arguments)
    if unknown:
        parser.error(printable(f"unrecognized arguments: {' '.join(unknown)}"))
    if given.watch and given.run is None:
        parser.error("--watch needs a run")
    if given.devices:
        from petabatch.engine.gpu.detect import report

        text = report()
    elif given.run is None:
        from petabatch.report.installation import installation

        text = installation()
    elif given.watch:
        from petabatch.report.watch import watch

        text = watch(given.run)
    else:
        from petabatch.report.information import describe

        text = describe(given.run)
    sys.stdout.write(f"{text}\n")
