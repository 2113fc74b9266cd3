"""The check that all ranks see the same run directory, before any of them writes to it."""

from __future__ import annotations

import os
import secrets
import time
from pathlib import Path

from petabatch.errors import RunDirectoryError
from petabatch.parallel.comm import Comm
from petabatch.parallel.consistency import name_ranks

_PATIENCE, _PAUSE = 5.0, 0.1
"""Seconds until all hosts must see a new file, since network file systems may cache what a folder holds, and
between two looks."""


def assert_shared(comm: Comm, path: Path) -> None:
    """Check that rank 0's `path`, or the nearest folder above it that exists, is the same on all ranks.

    Collective. Rank 0 leaves a file of a random name there, for which all ranks look. Raises
    RunDirectoryError on all ranks when one does not see it, and on rank 0 when that cannot write there.
    """
    if comm.size == 1:
        return
    token = _leave(path) if comm.rank == 0 else None
    try:
        shown: Path = comm.broadcast(token)
        seen: list[bool] = comm.broadcast(comm.gather(_sees(shown)))
    finally:
        if token is not None:
            token.unlink(missing_ok=True)
    blind = [rank for rank, sees in enumerate(seen) if not sees]
    if blind:
        raise RunDirectoryError(
            f"{shown.parent}: this folder is not shared by all hosts\n"
            f"    found:    a file that rank 0 (on {comm.hosts[0]}) made there is missing on "
            f"{name_ranks(blind, comm.hosts)}\n"
            "    expected: a file system that all hosts have mounted at this place, such as NFS or Lustre\n"
            "    hint:     choose another run directory; nothing has been written to this one"
        )


def _leave(path: Path) -> Path:
    """Make an empty file, of a name that no host can have looked up before, and return its path."""
    folder = next(one for one in (path, *path.parents) if one.is_dir())
    token = folder / f".shared_{secrets.token_hex(8)}.tmp"
    try:
        os.close(os.open(token, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666))
    except OSError as error:
        raise RunDirectoryError(
            f"{folder}: cannot be written: {error.strerror}\n    hint:     choose another run directory"
        ) from error
    return token


def _sees(token: Path) -> bool:
    end = time.monotonic() + _PATIENCE
    while not (found := os.path.exists(token)) and time.monotonic() < end:
        time.sleep(_PAUSE)
    return found
