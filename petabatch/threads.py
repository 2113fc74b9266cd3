"""Several runs on threads of one process: contexts that they share, and pools that belong to one run."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from contextvars import copy_context
from functools import lru_cache, partial
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import ThreadpoolController

P = ParamSpec("P")
T = TypeVar("T")


def thread_pools() -> ThreadpoolController:
    """Return the thread pools of BLAS and OpenMP in this process."""
    return _thread_pools(len(sys.modules))  # libraries come with modules; to look for them takes milliseconds


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    return ThreadpoolController()


class SharedContext:
    """A context of the whole process: the first thread enters it and the last one leaves it, in any order."""

    def __init__(self, make: Callable[..., AbstractContextManager[Any]]) -> None:
        self._make, self._lock = make, threading.Lock()
        self._entered: AbstractContextManager[Any] | None = None
        self.inside = 0
        """Number of threads in it."""

    @contextmanager
    def __call__(self, *arguments: object) -> Iterator[None]:
        """Be in the context while the block runs; `arguments` count for the first thread."""
        with self._lock:
            if self._entered is None:
                entered = self._make(*arguments)
                entered.__enter__()
                self._entered = entered
            self.inside += 1
        try:
            yield
        finally:
            with self._lock:
                self.inside -= 1
                if not self.inside:
                    entered, self._entered = self._entered, None
                    entered.__exit__(None, None, None)


@contextmanager
def _one_thread_each(libraries: ThreadpoolController) -> Iterator[None]:
    """Have BLAS and OpenMP use one thread; a tenth of the time of `libraries.limit`."""
    before = [(one, one.num_threads) for one in libraries.lib_controllers]
    for one, _ in before:
        one.set_num_threads(1)
    try:
        yield
    finally:
        for one, threads in before:
            one.set_num_threads(threads)


ONE_BLAS_THREAD = SharedContext(_one_thread_each)
"""Of the whole process, so that it lasts as long as any of several runs on threads."""


class ThreadPool(ThreadPoolExecutor):
    """Threads that work in the context (`contextvars`) of the thread that submits, and so write its log."""

    def submit(self, work: Callable[P, T], /, *arguments: P.args, **keys: P.kwargs) -> Future[T]:
        """Let a thread call a function; return its future result."""
        return super().submit(partial(copy_context().run, work, *arguments, **keys))
