"""Atomic writing of files: each is complete, or not there at all."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import h5py

from petabatch.errors import Problem, StorageError
from petabatch.storage import FORMAT
from petabatch.storage.file_object import FileObject
from petabatch.storage.files import temporary_name
from petabatch.storage.seal import seal

_SUFFIXES = (".h5", ".hdf5")


def available(target: str | os.PathLike[str], example: str, kind: str = "", force: bool = False) -> Path:
    """Return the absolute path of a new HDF5 file, for which `example` is a usual name.

    With `force`, it may be that of a file that petabatch has written, with the attribute `kind`. Raises
    StorageError if another one exists, or if the path has another suffix.
    """
    path = Path(target).absolute()
    if path.is_dir():
        problem = Problem("", "this is a folder", expected="a file", hint=f"{path / example}")
    elif os.path.lexists(path) and not force:
        or_force = ", or replace it with --force (in Python: force=True)" if kind else " or remove it first"
        problem = Problem("", "already exists", hint=f"choose another name{or_force}")
    elif os.path.lexists(path) and not _is_ours(path, kind):
        what = f"already exists and is no file of {kind}; not replaced"
        problem = Problem("", what, "a file of another kind", hint="choose another name")
    elif path.suffix not in _SUFFIXES:
        expected = f"a name that ends in {' or '.join(_SUFFIXES)}"
        problem = Problem("", "an HDF5 file needs another name", path.name, expected)
    else:
        return path
    raise StorageError(problem.render(str(path)))


def _is_ours(path: Path, kind: str) -> bool:
    """Return whether a path is that of an HDF5 file of this kind, not of a link to one."""
    if path.is_symlink() or not path.is_file() or not h5py.is_hdf5(path):
        return False
    try:
        with h5py.File(path, "r") as file:
            return "petabatch_format" in file.attrs and bool(file.attrs.get("kind") == kind)
    except (OSError, RuntimeError):
        return False


def replace(source: Path, target: Path) -> None:
    """Atomically and durably replace `target` by `source`."""
    os.replace(source, target)
    sync_directory(target.parent)


def remove(path: Path) -> None:
    """Remove a file, unless it is gone; raises StorageError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(f"{path}: cannot be removed: {error.strerror}") from error


@contextmanager
def new_file(path: Path, rename: Callable[[Path, Path], None] = replace) -> Iterator[BinaryIO]:
    """Write a new file, which appears as `path` when the block ends without an error.

    `rename` is called with the path of the complete file and `path`. Raises StorageError when the file cannot
    be written; `path` is then left as it was, unless `rename` has changed it.
    """
    temporary = path.with_name(temporary_name(path.name))
    try:
        with os.fdopen(_create(temporary), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        rename(temporary, path)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(error, OSError):
            raise unwritable(path, error) from error
        raise


@contextmanager
def new_hdf5(
    path: Path, rename: Callable[[Path, Path], None] = replace, run_id: str = ""
) -> Iterator[tuple[Any, Callable[[], None]]]:
    """Write a new HDF5 file, which appears as `path` when the block ends without an error.

    Yields `(file, check)`; long writers call `check` regularly, which raises as soon as the disk is full.
    `rename` is called with the path of the complete file and `path`. A file of the run `run_id` is sealed.
    Raises StorageError when the file cannot be written; `path` is then left as it was.
    """
    temporary = path.with_name(temporary_name(path.name))
    try:
        descriptor = _create(temporary)
    except OSError as error:
        raise unwritable(path, error) from error
    target = FileObject(descriptor)

    def check() -> None:
        if target.error is not None:
            raise StorageError(f"{path}: cannot be written")

    try:
        try:
            # HDF5 1.10 (2016), which virtual datasets need anyway
            with h5py.File(path.name, "w", driver="fileobj", fileobj=target, libver=("v110", "v110")) as file:
                file.attrs["petabatch_format"] = FORMAT
                yield file, check
            check()
            try:
                if run_id:
                    seal(descriptor, run_id)
                os.fsync(descriptor)
                rename(temporary, path)
            except OSError as error:
                target.error = error
                raise
        finally:
            os.close(descriptor)
    except BaseException as error:
        with suppress(OSError):
            os.unlink(temporary)
        if isinstance(target.error, OSError):
            raise unwritable(path, target.error, target.size) from target.error
        raise target.error or error from None


def _create(temporary: Path) -> int:
    return os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o666)


def sync_directory(directory: Path) -> None:
    """Make renames within a directory survive a power failure, where the file system supports it."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(
            OSError
        ):  # not supported by some network file systems; the rename is valid all the same
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def unwritable(path: Path, error: OSError, size: int = 0) -> StorageError:
    """Return the error for a file of `size` bytes, if known, that cannot be written."""
    lines = [f"{path}: cannot be written: {error.strerror or error}"]
    if error.errno in (errno.ENOENT, errno.ENOTDIR):
        lines.append(f"    hint:     {path.parent} is not a directory")
        return StorageError("\n".join(lines))
    with suppress(OSError):
        stat = os.statvfs(path.parent)
        needed = f"at least {size:,} bytes needed, " if size else ""
        lines.append(f"    found:    {needed}{stat.f_bavail * stat.f_frsize:,} bytes free")
    lines.append(
        "    hint:     files written before are intact; free disk space or check permissions, then resume"
    )
    return StorageError("\n".join(lines))
