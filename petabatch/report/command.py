"""Output of `petabatch info`."""

from __future__ import annotations

import sys
from pathlib import Path


def info(run: Path | None, *, watch: bool = False, devices: bool = False) -> None:
    """Print the page about a run, or keep it up to date; without a run, that about this installation.

    With `devices`, print that about its GPUs.
    """
    if devices:
        from petabatch.engine.gpu.detect import report

        text = report()
    elif run is None:
        from petabatch.report.installation import installation

        text = installation()
    elif watch:
        from petabatch.report.watch import watch as watched

        text = watched(run)
    else:
        from petabatch.report.information import describe

        text = describe(run)
    sys.stdout.write(f"{text}\n")
