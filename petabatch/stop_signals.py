"""Stop requests: the first signal sets a flag, which is checked at sync events; a second ends the process.

Python runs signal handlers only when the main thread returns to the interpreter. A second signal must not
depend on that, nor the answer to the first: signals are awaited by a thread that runs compiled code, to which
Python's signal handler in C sends the numbers of all signals that have a handler in Python.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
import time
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

WATCHED = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)

_SHOW_CURSOR = b"\x1b[?25h"
"""The progress bar hides it, and does not show it again when the process is ended by a second signal."""
_SECOND = "; a second signal ends the process at once\n"
_ENDED = b"ended by a second signal\n"


class StopFlag:
    """A signal handler that stores the number of the signal received, 0 for none."""

    def __init__(self) -> None:
        self.received = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        """Store the signal."""
        self.received = number


@contextmanager
def watch(answer: str = "") -> Iterator[StopFlag]:
    """While the block runs, let SIGINT, SIGTERM and SIGUSR1 set a flag, and a second one end the process.

    The first one is answered on standard error, such as with "stopping with a checkpoint". Outside of the
    main thread, which alone may set handlers, signals are left to the program.
    """
    flag = StopFlag()
    if threading.current_thread() is not threading.main_thread():
        yield flag
        return
    said = f"{answer}{_SECOND}".encode() if answer else b""
    with _ending_at_second(_SHOW_CURSOR + said if said and os.isatty(2) else said):
        once = bool(_interrupt().flags & _ONCE)
        before = {number: signal.signal(number, flag) for number in WATCHED}
        try:
            yield flag
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
            if once:
                interrupt_once()


def ignore_signals() -> None:
    """From now on, ignore them: the command has done its work, and its process is about to end."""
    for number in WATCHED:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def _ending_at_second(answer: bytes) -> Iterator[None]:
    import socket

    import numpy as np

    from petabatch.kernels.cpu.second_signal import end_at_second

    numbers, first, second = (np.frombuffer(bytes(values), np.uint8) for values in (WATCHED, answer, _ENDED))
    here, there = socket.socketpair()

    def wait() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())  # they interrupt no call here
        try:
            end_at_second(there.fileno(), numbers, first, second)
        finally:
            there.close()

    with here, there:
        thread = threading.Thread(target=wait, name="second signal", daemon=True)
        thread.start()
        here.recv(1)  # from now on it does without the interpreter
        here.setblocking(False)
        before = signal.set_wakeup_fd(here.fileno(), warn_on_full_buffer=False)
        try:
            yield
        finally:
            signal.set_wakeup_fd(before)
            here.send(b"\0")
            thread.join()


class _Action(ctypes.Structure):
    """`struct sigaction` of Linux."""

    _fields_ = (
        ("handler", ctypes.c_void_p),
        ("mask", ctypes.c_ulong * 16),
        ("flags", ctypes.c_int),
        ("restorer", ctypes.c_void_p),
    )


_ONCE = -(1 << 31)
"""SA_RESETHAND: the handler is for one signal, and the default action for the next."""


def interrupt_once() -> None:
    """Let the first Ctrl-C raise KeyboardInterrupt, and the kernel end the process at the second.

    For everything but steps, as reading, merging and starting. The second has this effect on Linux only. An
    interrupt of a callback of the garbage collector, which Python drops, is raised again after it.
    """
    sys.unraisablehook = _raise_again
    if sys.platform.startswith("linux"):
        action = _interrupt()
        action.flags |= _ONCE
        ctypes.CDLL(None).sigaction(signal.SIGINT, ctypes.byref(action), None)


def _raise_again(dropped: sys.UnraisableHookArgs) -> None:
    """Let an interrupt that Python dropped interrupt the main thread once this function has returned."""
    if issubclass(dropped.exc_type, KeyboardInterrupt):
        threading.Thread(target=_interrupt_after, args=(sys._getframe(),), daemon=True).start()
    else:
        sys.__unraisablehook__(dropped)


def _interrupt_after(hook: FrameType) -> None:
    """Interrupt the main thread when it has left a frame, in which Python would drop the interrupt again."""
    frame: FrameType | None = hook
    while frame is not None:
        time.sleep(0.01)
        frame = sys._current_frames()[threading.main_thread().ident or 0]
        while frame is not None and frame is not hook:
            frame = frame.f_back
    interrupt_main()


def _interrupt() -> Any:
    """Return the present action at Ctrl-C."""
    action = _Action()
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).sigaction(signal.SIGINT, None, ctypes.byref(action))
    return action
