"""`njit` of kernels: numba's, with a cache of our own and kernels that are compiled into their callers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import _Cache

import petabatch.kernels
from petabatch.kernels import cache
from petabatch.kernels.cpu.inner import Kernel
from petabatch.kernels.cpu.loading import can_load, load, saved
from petabatch.kernels.cpu.target import target
from petabatch.logs import log

FAST = {"nsz", "contract"}
"""Assumptions for fast kernels: enough for fused multiply-adds, not that all is finite. No sum may be made in
another order, so that bits depend on no processor; `sums.py` has sums in vectors.
"""
_OURS = Path(petabatch.kernels.__file__).parent


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that compiles a kernel on its first call, and keeps what it compiled.

    A function that does not name a `fastmath` has none, and not that of whichever caller is compiled first.
    """
    options = {"fastmath": False, **options}

    def compiled(function: Callable[..., Any]) -> Any:
        if not can_load():
            return numba.njit(**options)(function)
        target()
        dispatcher = Kernel(function, options)
        dispatcher._cache = KernelCache(function)
        return dispatcher

    return compiled


class KernelCache(_Cache):  # type: ignore[misc]  # numba has no types
    """The files of a compiled function, one for each signature."""

    def __init__(self, function: Callable[..., Any], version: str = "") -> None:
        """`version` tells functions of the same name and file apart."""
        self._function, self._version = function, version

    @cached_property
    def _made_of(self) -> str:
        """What a function is made of apart from the kernels: the file that it is in."""
        file = Path(self._function.__code__.co_filename)
        known = file.is_relative_to(_OURS) or not file.is_file()
        return self._version if known else f"{self._version} {hashlib.sha256(file.read_bytes()).hexdigest()}"

    def name(self, sig: Any) -> str:
        """Return the name of the file for a signature."""
        kind = hashlib.sha256(f"{sig} {self._made_of}".encode()).hexdigest()[:12]
        name = f"{self._function.__module__}.{self._function.__qualname__}".removeprefix("petabatch.kernels.")
        return f"{re.sub(r'[^A-Za-z0-9_.]+', '_', name)[-100:]}-{kind}.kernel"

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        return str(cache.writable_folder())

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function compiled for a signature, None if there is none.

        Damaged files are removed with a warning: the kernel is compiled again.
        """
        file = cache.find(self.name(sig), target())
        if file is None:
            return None
        try:
            return load(file, target_context)
        except FileNotFoundError:  # removed meanwhile
            return None
        except MemoryError:
            raise
        except Exception as error:
            log.warning("%s: this compiled kernel is damaged and is compiled again: %s", file, error)
            with suppress(OSError):
                file.unlink()
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the function compiled for a signature, unless it has addresses of this process in it."""
        if data.library.has_dynamic_globals:  # large global arrays, pointers of ctypes
            return
        file = cache.new_file(self.name(sig), target())
        if file is not None:
            cache.write(file, saved(data))

    def enable(self) -> None:
        """Use the files."""

    def disable(self) -> None:
        """Leave the files alone; not supported."""

    def flush(self) -> None:
        """Forget the files; not supported."""
