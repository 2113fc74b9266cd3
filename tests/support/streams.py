"""Streams and events like CuPy's without a GPU: work is done as late as its order allows."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

_HERE = threading.local()


class Event:
    """All that a stream was given until it was recorded."""

    def __init__(self, stream: Stream) -> None:
        self.stream, self.known = stream, dict(stream.known)
        stream.waiting = [one for one in stream.waiting if not one.made]
        self._work = list(stream.waiting)

    def synchronize(self) -> None:
        for one in self._work:
            one()

    @property
    def done(self) -> bool:
        return all(one.ready() for one in self._work)


class Work:
    """What is done once, when somebody waits for it."""

    def __init__(self, work: Callable[[], None], ready: Callable[[], bool]) -> None:
        self._work, self.ready = work, ready
        self._lock, self.made = threading.Lock(), False

    def __call__(self) -> None:
        with self._lock:
            if not self.made:
                self._work()
            self.made = True


class Stream:
    """An order of work, and what of the work of other streams is known to be before it."""

    def __init__(self, name: str) -> None:
        self.name, self.ptr = name, id(self)
        self.waiting: list[Work] = []
        self.known: dict[int, int] = {self.ptr: 0}
        """Number of the last thing done on each stream that is before what comes next on this."""
        ALL[self.ptr] = self

    def use(self) -> None:
        _stack()
        _HERE.current = self

    def __enter__(self) -> Stream:
        _stack().append(self)
        _HERE.current = self
        return self

    def __exit__(self, *_: Any) -> None:
        _stack().pop()
        _HERE.current = _stack()[-1]  # as CuPy's: not what `use` has set

    def record(self) -> Event:
        return Event(self)

    def wait_event(self, event: Event) -> None:
        if self is current():  # what comes next is done at once, so what it waits for must be
            event.synchronize()
        self.waiting += [one for one in event._work if one not in self.waiting]
        for stream, number in event.known.items():
            self.known[stream] = max(number, self.known.get(stream, 0))

    def later(self, work: Callable[[], None], ready: Callable[[], bool] = lambda: True) -> None:
        self.touch()
        self.waiting.append(Work(work, ready))

    def touch(self) -> dict[int, int]:
        """Do something on this stream; return what is before it, and itself."""
        self.known[self.ptr] += 1
        return dict(self.known)

    def synchronize(self) -> None:
        self.record().synchronize()


ALL: dict[int, Stream] = {}
"""By their pointers."""


def current() -> Stream:
    """Return the stream of this thread."""
    _stack()
    found: Stream = _HERE.current
    return found


def _stack() -> list[Stream]:
    if not hasattr(_HERE, "stack"):
        _HERE.stack = [Stream("default")]
        _HERE.current = _HERE.stack[0]
    found: list[Stream] = _HERE.stack
    return found
