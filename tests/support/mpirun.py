"""Start real ranks with the mpirun of this environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from support.processes import PATIENCE

MPIRUN = Path(sys.executable).parent / "mpirun"


def mpirun(
    ranks: int, *arguments: str | Path, timeout: float = PATIENCE, options: Sequence[str] = ()
) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS` on `ranks` ranks and return what it printed and its exit code."""
    if not MPIRUN.exists():
        pytest.skip(f"there is no {MPIRUN}; pip install '.[mpi]'")
    return subprocess.run(
        [MPIRUN, "-n", str(ranks), *options, sys.executable, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
