"""The claim of a run on its directory: a lock that the operating system releases, and the proof of ownership.

Rank 0 locks `log.txt` for all ranks. Jobs of an array share the lock: what removes or repairs files has it
alone. A lock does not keep anybody from moving or removing the directory, so
each rank also keeps it open, and compares it with what its path names before it writes.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from petabatch.errors import RunDirectoryError, StorageError

LOG = "log.txt"
"""The file that is locked."""
_MOMENT, _POLL = 10.0, 0.05
"""Seconds for which one waits to share the lock, and between two tries."""


class Claim:
    """The claim of one rank on a run directory; a context manager, which gives it up at the end."""

    def __init__(self, rank: int = 0) -> None:
        self._rank = rank
        self._path = Path()
        self._held: dict[str, int] = {}
        """Descriptors of the directory and of the locked file, by their names in it."""

    def __enter__(self) -> Claim:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def take(self, path: Path, name: Path | None = None, shared: bool = False) -> None:
        """Claim the directory `path`; `name` is what it will be renamed to, if it is still being made.

        With `shared`, beside others that share it; one that has it alone may have it for a moment only.
        Raises RunDirectoryError when another process has claimed it, or when it cannot be written. File
        systems without locks do not show that another process has.
        """
        self._path = path
        try:
            self._held["."] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            if self._rank == 0:
                self._held[LOG] = os.open(path / LOG, os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            self.release()
            raise RunDirectoryError(
                f"{error.filename}: cannot be written: {error.strerror}\n"
                "    hint:     to resume the run, copy its directory to a place where you can write"
            ) from error
        if self._rank == 0 and not (self._locked(shared) and self._ours()):
            self.release()
            raise RunDirectoryError(
                f"{path}: another process is running in this directory\n"
                "    hint:     wait until it ends, or stop it with Ctrl-C (it then writes a checkpoint)"
            )
        self._path = name or path

    def _locked(self, shared: bool) -> bool:
        """Lock the file until it is closed; return False when another process has locked it."""
        kind, end = (fcntl.LOCK_SH, time.monotonic() + _MOMENT) if shared else (fcntl.LOCK_EX, 0.0)
        while not _lock(self._held[LOG], kind):
            if time.monotonic() > end:
                return False
            time.sleep(_POLL)
        return True

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Let the block write to the directory; raises RunDirectoryError if it is no longer that of this run.

        Files are written to a temporary name and then renamed. If the directory is replaced meanwhile, the
        rename fails, so nothing enters another run.
        """
        self._check()
        try:
            yield
        except StorageError:
            self._check()
            raise

    def release(self) -> None:
        """Give it up; without effect if nothing is claimed."""
        while self._held:
            os.close(self._held.popitem()[1])

    def _check(self) -> None:
        if not self._ours():
            raise RunDirectoryError(
                f"{self._path}: this is no longer the directory of this run: it, or its {LOG}, was moved, "
                "removed or replaced\n"
                "    hint:     nothing more was written; if the directory was moved, resume the run there"
            )

    def _ours(self) -> bool:
        try:
            return all(
                os.path.samestat(os.fstat(held), os.stat(self._path / name))
                for name, held in self._held.items()
            )
        except OSError:
            return False


def claimed(path: Path) -> bool:
    """Return whether a process runs in this directory; False where the file system does not tell."""
    try:
        file = os.open(path / LOG, os.O_RDONLY)
    except OSError:
        return False
    try:
        # Some network file systems refuse the second lock, by which those that share it are found.
        return not (_lock(file, fcntl.LOCK_SH) and _lock(file, fcntl.LOCK_EX))
    finally:
        os.close(file)


def _lock(file: int, kind: int) -> bool:
    """Lock a file until it is closed; return False when another process has locked it."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # no locks on this file system
    return True
