"""Writing a file so that it is complete or not there at all."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import h5py

from petabatch.errors import StorageError
from petabatch.storage import FORMAT
from petabatch.storage.sink import Sink

TEMPORARY = ".tmp"
"""Ending of the names files have until they are complete."""


@contextmanager
def new_hdf5(path: Path) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Write a new HDF5 file, which appears as `path` when the block ends without an error.

    Yields `(file, check)`; a long writer calls `check` now and then to learn early that the disk is full.
    Raises StorageError when the file cannot be written; then nothing of it is left, and what was at `path`
    before is still there.
    """
    temporary = path.with_name(f".{path.name}{TEMPORARY}")
    try:
        descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o666)
    except OSError as error:
        raise _failure(path, error, 0) from error
    sink = Sink(descriptor)

    def check() -> None:
        if sink.error is not None:
            raise StorageError(f"{path}: cannot be written")

    try:
        try:
            # from HDF5 1.10 (2016) on: virtual datasets need it anyway
            with h5py.File(path.name, "w", driver="fileobj", fileobj=sink, libver=("v110", "v110")) as file:
                file.attrs["petabatch_format"] = FORMAT
                yield file, check
            check()
            _finish(descriptor, temporary, path, sink)
        finally:
            os.close(descriptor)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(sink.error, OSError):
            raise _failure(path, sink.error, sink.size) from sink.error
        raise sink.error or error from None


def _finish(descriptor: int, temporary: Path, path: Path, sink: Sink) -> None:
    try:
        os.fsync(descriptor)
        replace(temporary, path)
    except OSError as error:
        sink.error = error
        raise


def replace(source: Path, target: Path) -> None:
    """Rename a file over another, durably."""
    os.replace(source, target)
    sync_directory(target.parent)


def sync_directory(directory: Path) -> None:
    """Make renames within a directory outlast a power failure, where the file system can."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # some network file systems cannot; the rename stands all the same
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _failure(path: Path, error: OSError, wanted: int) -> StorageError:
    try:
        stat = os.statvfs(path.parent)
        free = f"{stat.f_bavail * stat.f_frsize:,} bytes free"
    except OSError:
        free = "free space unknown"
    size = f"at least {wanted:,} bytes wanted, " if wanted else ""
    return StorageError(
        f"{path}: cannot be written: {error.strerror or error}\n"
        f"    found:    {size}{free}\n"
        f"    hint:     what was written before is complete; make room or check the permissions and resume"
    )
