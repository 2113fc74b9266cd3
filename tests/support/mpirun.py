"""Start real ranks with the mpirun of this environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.processes import PATIENCE

MPIRUN = Path(sys.executable).parent / "mpirun"


def launcher(ranks: int) -> list[str]:
    """Return the words before a command that start it on `ranks` ranks; skip the test without mpirun."""
    if not MPIRUN.exists():
        pytest.skip(f"there is no {MPIRUN}; pip install '.[mpi]'")
    return [str(MPIRUN), "-n", str(ranks)]


def mpirun(
    ranks: int, *arguments: str | Path, timeout: float = PATIENCE, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` on `ranks` ranks and return what it printed and its exit code."""
    return subprocess.run(
        [*launcher(ranks), *options, sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
