"""The wait for signals, compiled: it needs neither the interpreter nor a thread that answers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from petabatch.kernels.cpu.jit import njit

_poll = types.ExternalFunction("poll", types.intc(types.voidptr, types.uintp, types.intc))
_read = types.ExternalFunction("read", types.intp(types.intc, types.voidptr, types.uintp))
_write = types.ExternalFunction("write", types.intp(types.intc, types.voidptr, types.uintp))
_exit = types.ExternalFunction("_exit", types.void(types.intc))

_GRACE = 100
"""Milliseconds in which signals count as one: `timeout`, for example, sends its signal twice."""
_READABLE, _WRITABLE = 1, 4
"""POLLIN and POLLOUT."""


@njit(nogil=True)
def end_at_second(socket: int, numbers: Any, first: Any, second: Any) -> None:
    """Read signals from `socket`; answer the first of those `numbers`, and end the process at the second.

    `first` and `second` are written to standard error, if there is room. A zero ends the wait instead. The
    exit code is 128 + the number, as of a process that the signal ended. When the wait begins, one byte is
    written to `socket`.
    """
    about = np.array([socket, _READABLE], np.int32)  # struct pollfd
    number = np.zeros(1, np.uint8)
    received = 0
    _write(socket, number.ctypes, 1)
    while True:
        _read(socket, number.ctypes, 1)
        if number[0] == 0:
            return
        if not (numbers == number[0]).any():
            continue
        received += 1
        if received == 2:
            _write_error(second)
            _exit(128 + number[0])
        _write_error(first)
        for _ in range(_GRACE):
            if _poll(about.ctypes, 1, 1) > 0:
                _read(socket, number.ctypes, 1)
                if number[0] == 0:
                    return


@njit(nogil=True)
def _write_error(text: Any) -> None:
    """Write to standard error, unless that would wait for a reader: for a pipe that is full, or Ctrl-S."""
    about = np.array([2, _WRITABLE], np.int32)
    if _poll(about.ctypes, 1, 0) > 0:
        _write(2, text.ctypes, text.size)
