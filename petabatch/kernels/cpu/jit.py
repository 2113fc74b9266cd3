"""`njit` of kernels: numba's, with a cache whose files are looked for and loaded when a kernel is called."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, _Cache

from petabatch.kernels.cpu.loading import can_load, load
from petabatch.logs import log


def njit(**options: Any) -> Callable[[Callable[..., Any]], Any]:
    """Return the decorator that compiles a kernel on its first call, and keeps what it compiled."""

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = numba.njit(**options)(function)
        dispatcher._cache = KernelCache(function)
        return dispatcher

    return compiled


class KernelCache(_Cache):  # type: ignore[misc]  # numba has no types
    """The files of a compiled function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    @cached_property
    def _files(self) -> Any:
        return FunctionCache(self._function)

    @property
    def cache_path(self) -> str:
        """The folder of the files."""
        path: str = self._files.cache_path
        return path

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function compiled for a signature, None if there is none.

        Damaged files, as a full disk leaves them, are removed with a warning: the kernel is compiled again.
        """
        index = self._files._cache_file
        try:
            if not can_load():
                return self._files.load_overload(sig, target_context)
            name = index._load_index().get(self._files._index_key(sig, target_context.codegen()))
            return None if name is None else load(Path(index._data_path(name)), target_context)
        except FileNotFoundError:  # removed meanwhile
            return None
        except MemoryError:
            raise
        except Exception as error:
            file = Path(index._index_path)
            file.unlink(missing_ok=True)
            log.warning("%s: this compiled kernel is damaged and is compiled again: %s", file, error)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store the function compiled for a signature."""
        self._files.save_overload(sig, data)

    def enable(self) -> None:
        """Use the files."""
        self._files.enable()

    def disable(self) -> None:
        """Leave the files alone."""
        self._files.disable()

    def flush(self) -> None:
        """Forget the files."""
        self._files.flush()
