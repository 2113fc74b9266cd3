"""What is open of input files: once in a process, shared by all that read the same files."""

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
    """Have files that are open, and have not changed since, not opened again.

    The first argument of the function is the path of a file, or several. What it returns is shared by all who
    ask for the same, and closed when the last of them lets go of it.
    """

    @wraps(opening)
    def opened(files: S, /, *more: P.args, **keys: P.kwargs) -> T:
        key = opening, more, tuple(keys.items()), _identity((files,) if isinstance(files, str) else files)
        with _lock:
            found: T | None = _open.get(key)
        if found is not None:
            return found
        made = opening(files, *more, **keys)  # without the lock: files are opened side by side
        with _lock:
            kept: T = _open.setdefault(key, made)
        return kept

    return opened


def _identity(paths: Sequence[str]) -> bytes:
    """Return a hash of the paths, and of what tells their files from others and from earlier contents."""
    found = []
    for path in paths:
        try:
            about = os.stat(path)
            found.append(f"{path}\0{about.st_dev} {about.st_ino} {about.st_size} {about.st_mtime_ns}")
        except (OSError, ValueError):
            found.append(f"{path}\0missing")
    return hashlib.sha256(os.fsencode("\n".join(found))).digest()
