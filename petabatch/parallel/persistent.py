"""Messages of MPI that compiled code starts and waits for: persistent requests, by their handles."""

from __future__ import annotations

import ctypes
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from petabatch.kernels import messages as m


class PersistentMessages:
    """Persistent requests of MPI, by their handles and the addresses of MPI's functions."""

    def __init__(
        self,
        library: Any,
        group: Any,
        sent: Mapping[int, np.ndarray],
        received: Mapping[int, np.ndarray],
        tag: int,
        waiting: np.ndarray,
    ) -> None:
        """Prepare messages; `waiting` is what they count threads and nanoseconds in."""
        requests = [group.Recv_init(array, rank, tag) for rank, array in received.items()]
        requests += [group.Send_init(array, rank, tag) for rank, array in sent.items()]
        size, count = library._sizeof(library.Request), len(requests)
        handles = b"".join(ctypes.string_at(library._addressof(one), size) for one in requests)
        self._handles = np.frombuffer(handles, np.uint8).copy()
        self._statuses = np.zeros(count * library._sizeof(library.Status), np.uint8)
        self._library, self._arrays = library, (sent, received, waiting)
        functions = ctypes.CDLL(library.__file__)  # which finds those of the library that mpi4py has loaded
        self.table = np.zeros(m.PLACES, np.int64)
        for place, function in ((m.START, functions.MPI_Startall), (m.WAIT, functions.MPI_Waitall)):
            self.table[place] = ctypes.cast(function, ctypes.c_void_p).value or 0
        self.table[m.COUNT] = count
        for place, array in ((m.REQUESTS, self._handles), (m.STATUSES, self._statuses), (m.WAITING, waiting)):
            self.table[place] = array.ctypes.data
        weakref.finalize(self, _free, library, requests).atexit = False

    def check(self) -> None:
        """Raise the error that has ended them: that of the first message that failed, where MPI names one."""
        code = int(self.table[m.ERROR])
        if not code:
            return
        if self._library.Get_error_class(code) == self._library.ERR_IN_STATUS:
            passed = self._library.SUCCESS, self._library.ERR_PENDING
            failed = (one for one in self._errors() if self._library.Get_error_class(one) not in passed)
            code = next(failed, code)
        raise self._library.Exception(code)

    def _errors(self) -> Iterator[int]:
        """Yield the error of each message, from its status."""
        status = self._library.Status()
        for one in self._statuses.reshape(int(self.table[m.COUNT]), -1):
            ctypes.memmove(self._library._addressof(status), one.ctypes.data, one.size)
            yield status.Get_error()


def _free(library: Any, requests: Sequence[Any]) -> None:
    if not library.Is_finalized():
        for one in requests:
            one.Free()
