"""Find out how this process was launched."""

from __future__ import annotations

from petabatch.parallel.comm import Comm, Serial


def connect(mpi: bool | None) -> Comm:
    return Serial()
