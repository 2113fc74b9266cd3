"""A function applied to many files, on threads where files are slow to open."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import sub
from typing import TypeVar

from petabatch.errors import InputError
from petabatch.progress import with_progress

T = TypeVar("T")

_THREADS = 8
_SLOW = 0.0005
"""Seconds that a file takes where threads help: on a network file system most of it is latency. Files in the
page cache are read faster by one thread than by several, which would wait for the interpreter's lock."""
_FEW = 4
"""Files after which that is judged, by the fastest of them, and that a thread takes at a time."""


def over_files(function: Callable[[str], T], paths: Sequence[str], what: str) -> list[T]:
    """Return what the function returns for each path; `what` is shown as progress if that takes long."""
    return list(with_progress(_results(function, paths), len(paths), what))


def errors_of(function: Callable[[str], T]) -> Callable[[str], T | InputError]:
    """Return the function with InputError returned instead of raised, so that none hides others."""

    def attempt(path: str) -> T | InputError:
        try:
            return function(path)
        except InputError as error:
            return error

    return attempt


def _results(function: Callable[[str], T], paths: Sequence[str]) -> Iterator[T]:
    fastest, done = 0.0, 0
    while done < len(paths) and fastest < _SLOW:
        times = [time.perf_counter()]
        for path in paths[done : done + _FEW]:
            yield function(path)
            times.append(time.perf_counter())
        fastest = min(map(sub, times[1:], times))
        done += _FEW
    with ThreadPoolExecutor(_THREADS, "files") as pool:
        for few in pool.map(
            lambda first: [function(path) for path in paths[first : first + _FEW]],
            range(done, len(paths), _FEW),
        ):
            yield from few
