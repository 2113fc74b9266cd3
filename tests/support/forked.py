"""Forks of a process that has imported the command line: `petabatch ...` without the time of its imports."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from support.processes import PATIENCE

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["petabatch.cli", "petabatch.simulation", __name__])
_OWN = {"PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTHONDONTWRITEBYTECODE"}
"""Variables that say nothing to a command."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OWN}


_BEFORE = _environment()


def environment_is_changed() -> bool:
    """Return whether a test has set variables that a process may read when it begins."""
    return _environment() != _BEFORE


def forked(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of `petabatch` in a folder; return its exit code and what it printed."""
    with tempfile.TemporaryDirectory() as place:
        streams = [Path(place, name) for name in ("stdout", "stderr")]
        process = _SERVER.Process(target=_run, args=(command, folder, streams))
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, PATIENCE, *(one.read_bytes() for one in streams))
        printed = [one.read_text() for one in streams]
        return subprocess.CompletedProcess(command, process.exitcode or 0, *printed)


def _run(command: Sequence[str], folder: Path, streams: Sequence[Path]) -> None:
    for number, file in enumerate(streams, start=1):
        opened = os.open(file, os.O_CREAT | os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ["COLUMNS"] = "200"
    sys.argv = list(command)

    from petabatch.main import main

    main()
