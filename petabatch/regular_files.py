"""Regular files: what a user names is opened only if it is one, so that no pipe or device is waited for."""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path
from typing import TypeVar

from petabatch.sizes import size_text

MOST_TEXT = 1 << 26
"""Bytes of a text at most: a params file, a list, a program."""
_KINDS = {
    stat.S_IFIFO: "a pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
P = TypeVar("P", str, Path)


def regular(path: P) -> P:
    """Return the path of a file, for libraries that open it; raises OSError unless it is a regular file."""
    _refuse(path, os.stat(path))
    return path


def open_regular(path: str | Path) -> BufferedReader:
    """Open a file for reading; raises OSError unless it is a regular file."""
    _refuse(path, os.stat(path))  # a device may do something when it is opened
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK  # it may have become a pipe
    descriptor = os.open(path, flags)
    try:
        _refuse(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return os.fdopen(descriptor, "rb")


def read_text(path: str | Path, encoding: str = "utf-8-sig", errors: str = "strict") -> str:
    """Return the text in a file, by default in UTF-8 with or without a mark of byte order.

    Raises OSError unless it is a regular file of at most `MOST_TEXT` bytes, UnicodeDecodeError.
    """
    with open_regular(path) as file:
        found = file.read(MOST_TEXT + 1)
    if len(found) > MOST_TEXT:
        raise OSError(errno.EFBIG, f"it is no text of at most {size_text(MOST_TEXT)}", str(path))
    return found.decode(encoding, errors).replace("\r\n", "\n").replace("\r", "\n")


def reason(error: Exception) -> str:
    """Return what an error says, of one of the system without its number and the name of the file."""
    return getattr(error, "strerror", None) or str(error)


def _refuse(path: str | Path, about: os.stat_result) -> None:
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(about.st_mode):
        kind = _KINDS.get(stat.S_IFMT(about.st_mode), "something else")
        raise OSError(errno.EINVAL, f"it is {kind}, not a file", str(path))
