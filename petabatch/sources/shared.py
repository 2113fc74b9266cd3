"""Open input files: once in a process, shared by all that read the same files."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Hashable, Sequence
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar
from weakref import WeakValueDictionary

S = TypeVar("S", bound=Sequence[str])
P = ParamSpec("P")
T = TypeVar("T")

_open: WeakValueDictionary[Hashable, Any] = WeakValueDictionary()
_lock = threading.Lock()


def shared(opening: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Have files that are open, and have not changed since, not opened again under the same names.

    The first argument of the function is the path of a file, or several. What it returns is shared by all who
    ask for the same, and closed when the last of them lets go of it.
    """
    return _shared(opening, lambda path, identity: f"{path}\0{identity}")


def shared_handle(opening: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Have a file that stays open not opened again, under whatever name: a link is the file it leads to."""
    return _shared(opening, lambda path, identity: identity)


def _shared(
    opening: Callable[Concatenate[S, P], T], named: Callable[[str, str], str]
) -> Callable[Concatenate[S, P], T]:
    @wraps(opening)
    def opened(files: S, /, *more: P.args, **keys: P.kwargs) -> T:
        paths: Sequence[str] = (files,) if isinstance(files, str) else files

        def key() -> Hashable:
            text = "\n".join(named(path, _identity(path)) for path in paths)
            return opening, more, tuple(keys.items()), hashlib.sha256(os.fsencode(text)).digest()

        before = key()
        with _lock:
            found: T | None = _open.get(before)
        if found is not None:
            return found
        made = opening(files, *more, **keys)  # without the lock: files are opened side by side
        if key() != before:  # a file was replaced meanwhile: it is not known which one was opened
            return made
        with _lock:
            kept: T = _open.setdefault(before, made)
        return kept

    return opened


def _identity(path: str) -> str:
    """Return what tells a file from others, and from its earlier contents."""
    try:
        about = os.stat(path)
    except (OSError, ValueError):
        return f"{path} missing"
    place = f"{about.st_dev} {about.st_ino}" if about.st_ino else os.path.realpath(path)
    return f"{place} {about.st_size} {about.st_mtime_ns}"
