"""The claim of a run on its directory: a lock that the operating system releases, and the proof of ownership.

Rank 0 locks `log.txt` for all ranks. A lock does not keep anybody from moving or removing the directory, so
each rank also keeps it open, and compares it with what its path names before it writes.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType

from petabatch.errors import RunDirectoryError, StorageError

LOG = "log.txt"
"""The file that is locked."""


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

    def take(self, path: Path, name: Path | None = None) -> None:
        """Claim the directory `path`; `name` is what it will be renamed to, if it is still being made.

        Raises RunDirectoryError when another process has claimed it, or when it cannot be written. File
        systems without locks do not show that another process has.
        """
        self._path = path
        try:
            self._held["."] = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
            if self._rank == 0:
                self._held[LOG] = os.open(path / LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        except OSError as error:
            self.release()
            raise RunDirectoryError(
                f"{error.filename}: cannot be written: {error.strerror}\n"
                "    hint:     to resume the run, copy its directory to a place where you can write"
            ) from error
        if self._rank == 0 and not (_locked(self._held[LOG]) and self._ours()):
            self.release()
            raise RunDirectoryError(
                f"{path}: another process is running in this directory\n"
                "    hint:     wait until it ends, or stop it with Ctrl-C (it then writes a checkpoint)"
            )
        self._path = name or path

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
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass  # no locks on this file system
    finally:
        os.close(file)
    return False


def _locked(file: int) -> bool:
    """Lock a file until it is closed; return False when another process has locked it."""
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        pass  # no locks on this file system
    return True
