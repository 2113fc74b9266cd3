"""The lock on a run directory, released by the operating system however the process ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from petabatch.errors import RunDirectoryError
from petabatch.storage.directory import RunDirectory


@contextmanager
def lock(directory: RunDirectory, rank: int) -> Iterator[None]:
    """Hold the lock on a run while the block runs; rank 0 holds it for all ranks.

    Raises RunDirectoryError when another process holds it, or when the directory cannot be written. Has no
    effect on file systems without locks.
    """
    if rank != 0:
        yield
        return
    with _log(directory) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunDirectoryError(
                f"{directory.path}: another process is running in this directory\n"
                "    hint:     wait until it ends, or stop it with Ctrl-C (it then writes a checkpoint)"
            ) from None
        except OSError:
            pass  # no locks on this file system
        yield


def _log(directory: RunDirectory) -> BinaryIO:
    try:
        return directory.log.open("ab")
    except OSError as error:
        raise RunDirectoryError(
            f"{directory.log}: cannot be written: {error.strerror}\n"
            "    hint:     to resume the run, copy its directory to a place where you can write"
        ) from error
