"""Forks of a process that has imported the command line: `petabatch ...` without the time of its imports."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType

import matplotlib

from support.processes import PATIENCE

_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["petabatch.cli", "petabatch.simulation", "matplotlib.pyplot", __name__])
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
    return _forked(_run, command, folder)


def forked_code(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -W error -c SOURCE` in a folder; return its exit code and what it printed."""
    return _forked(_execute, ["-c", source], folder)


def _forked(
    work: Callable[[Sequence[str]], None], command: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    with tempfile.TemporaryDirectory() as place:
        streams = [Path(place, name) for name in ("stdout", "stderr")]
        process = _SERVER.Process(target=_begin, args=(work, command, folder, streams))
        process.start()
        process.join(PATIENCE)
        if process.is_alive():
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(command, PATIENCE, *(one.read_bytes() for one in streams))
        printed = [one.read_text() for one in streams]
        return subprocess.CompletedProcess(command, process.exitcode or 0, *printed)


def _begin(
    work: Callable[[Sequence[str]], None], command: Sequence[str], folder: Path, streams: Sequence[Path]
) -> None:
    for number, file in enumerate(streams, start=1):
        opened = os.open(file, os.O_CREAT | os.O_WRONLY)
        os.dup2(opened, number)
        os.close(opened)
    os.chdir(folder)
    os.environ["COLUMNS"] = "200"
    work(command)


def _run(command: Sequence[str]) -> None:
    sys.argv = list(command)

    from petabatch.main import main

    main()


def _execute(command: Sequence[str]) -> None:
    flag, source = command
    sys.argv = [flag]
    sys.path.insert(0, "")
    main = sys.modules["__main__"] = ModuleType("__main__")
    warnings.simplefilter("error")
    matplotlib.use("agg")
    exec(source, vars(main))
