"""One process at a time works on a run: a lock that the system releases however the process ends."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from typing import BinaryIO

from petabatch.errors import RunDirectoryError
from petabatch.storage.directory import RunDirectory


@contextmanager
def lock(directory: RunDirectory, rank: int) -> Iterator[None]:
    """Hold the run while the block runs; rank 0 holds it for all.

    Raises RunDirectoryError when another process does, or the directory cannot be written. File systems
    without locks let everybody in.
    """
    if rank != 0:
        yield
        return
    with _log(directory) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RunDirectoryError(
                f"{directory.path}: another process is working on this run\n"
                "    hint:     wait until it ends, or stop it: it writes a checkpoint"
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
            "    hint:     a run goes on only where its directory can be written; copy it to such a place"
        ) from error
