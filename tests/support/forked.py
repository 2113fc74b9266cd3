"""Forks of a process that has imported the command line: `petabatch ...` without the time of its imports."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import runpy
import socket
import struct
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from multiprocessing import forkserver
from multiprocessing.connection import wait
from pathlib import Path
from types import ModuleType

import matplotlib
import pytest

from support.mpirun import launcher
from support.processes import PATIENCE

TESTS = str(Path(__file__).parents[1])
_SERVER = multiprocessing.get_context("forkserver")
_SERVER.set_forkserver_preload(["support.fork_server"])
_OWN = {
    "PYTEST_CURRENT_TEST", "PYTEST_VERSION", "PYTHONDONTWRITEBYTECODE",
    "KMP_DUPLICATE_LIB_OK", "KMP_INIT_AT_FORK",
}  # fmt: skip
"""Variables that say nothing to a command; scikit-learn sets the last two when it is imported."""

_RANK = """
import os, socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
socket.send_fds(link, [b"fork"], [0, 1, 2, int(os.environ["PMI_FD"])])
code = int(link.recv(20) or 1)
if code < 0:
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
"""What mpirun starts as a rank: it hands its streams to a fork, and ends as that does."""


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _OWN}


_BEFORE = _environment()


@cache
def _start_server() -> None:
    """Let the server find modules of the tests: Python 3.11 does not pass `sys.path` on to it."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("PYTHONPATH", TESTS, prepend=os.pathsep)
        forkserver.ensure_running()


def environment_is_changed() -> bool:
    """Return whether a test has set variables that a process may read when it begins."""
    return _environment() != _BEFORE


def forked(command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of `petabatch` in a folder; return its exit code and what it printed."""
    return _forked(_run, command, folder)


def forked_code(source: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run `python -W error -c SOURCE` in a folder; return its exit code and what it printed."""
    return _forked(_execute, ["-c", source], folder)


def forked_ranks(ranks: int, command: Sequence[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a command of `petabatch` in a folder on `ranks` ranks of mpirun; return exit code and output."""
    return _forked_ranks(ranks, _run, command, folder)


def forked_code_on_ranks(ranks: int, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run `python ARGUMENTS`, a script or `-c SOURCE`, on `ranks` ranks of mpirun, here."""
    return _forked_ranks(ranks, _interpret, [*map(str, arguments)], Path.cwd())


def _forked_ranks(
    ranks: int, work: Callable[[Sequence[str]], None], command: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    _start_server()
    with tempfile.TemporaryDirectory() as place, socket.socket(socket.AF_UNIX) as server:
        address = str(Path(place, "ranks"))
        server.bind(address)
        server.listen(ranks)
        server.settimeout(PATIENCE)
        begun = [*launcher(ranks), sys.executable, "-I", "-S", "-c", _RANK, address]
        with (
            ThreadPoolExecutor(ranks) as pool,
            subprocess.Popen(begun, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process,
        ):
            try:
                for _ in range(ranks):
                    pool.submit(_rank, work, command, folder, server.accept()[0])
                printed = process.communicate(timeout=PATIENCE)
            finally:
                process.kill()
        return subprocess.CompletedProcess(command, process.returncode, *printed)


def _rank(
    work: Callable[[Sequence[str]], None], command: Sequence[str], folder: Path, link: socket.socket
) -> None:
    """Let a fork do the work of a rank of mpirun; it lives no longer than that."""
    rank = struct.unpack("3i", link.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
    alive = os.pidfd_open(rank)
    process = _SERVER.Process(target=_begin_rank, args=(work, command, folder, link, rank))
    with link:
        process.start()
        if process.sentinel not in wait([process.sentinel, alive]):
            process.kill()
        process.join()
        os.close(alive)
        with suppress(BrokenPipeError):
            link.sendall(str(process.exitcode).encode())


def _begin_rank(
    work: Callable[[Sequence[str]], None],
    command: Sequence[str],
    folder: Path,
    link: socket.socket,
    rank: int,
) -> None:
    _, streams, *_ = socket.recv_fds(link, 20, 4)
    link.close()
    given = Path(f"/proc/{rank}/environ").read_text().split("\0")
    os.environ.update(variable.split("=", 1) for variable in given if variable)
    for number in range(3):
        os.dup2(streams[number], number)
        os.close(streams[number])
    os.environ |= {"PMI_FD": str(streams[3]), "COLUMNS": "200"}
    os.chdir(folder)
    code = 0
    try:
        work(command)
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except Exception:
        sys.excepthook(*sys.exc_info())
        code = 1
    mpi = sys.modules.get("mpi4py.MPI")
    if mpi is not None and mpi.Is_initialized():  # as at the end of an interpreter
        mpi.Finalize()
    sys.stdout.flush()
    sys.stderr.flush()
    ctypes.CDLL(None).exit(code)  # MPICH takes its leave of mpirun then


def _forked(
    work: Callable[[Sequence[str]], None], command: Sequence[str], folder: Path
) -> subprocess.CompletedProcess[str]:
    _start_server()
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


def _interpret(command: Sequence[str]) -> None:
    if command[0] != "-c":
        sys.argv = list(command)
        sys.path.insert(0, str(Path(command[0]).parent))
        runpy.run_path(command[0], run_name="__main__")
        return
    sys.argv = ["-c", *command[2:]]
    sys.path.insert(0, "")
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(command[1], vars(main))


def _execute(command: Sequence[str]) -> None:
    flag, source = command
    sys.argv = [flag]
    sys.path.insert(0, "")
    main = sys.modules["__main__"] = ModuleType("__main__")
    warnings.simplefilter("error")
    matplotlib.use("agg")
    exec(source, vars(main))
