"""Sums over the GPUs of all ranks: by NCCL, or by MPI through pinned host memory.

Both sum the same integers and so give the same bits as on the CPU (`parallel.reduce`).
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from petabatch.kernels.cuda.device import Device
from petabatch.logs import log
from petabatch.parallel.comm import Comm, Pending, Serial, Sums
from petabatch.parallel.reduce import ExactSum
from petabatch.variable import Array


@dataclass(frozen=True)
class _Rank:
    """What the choice of a transport depends on."""

    place: tuple[str, str]
    """Host and GPU."""
    version: int
    """Version of NCCL; 0 where it cannot be used."""
    reason: str
    here: bool


def between(device: Device, comm: Comm, here: bool) -> Sums:
    """Choose how weight changes are summed over these ranks; rank 0 logs the choice and why. Collective.

    `here` says that this rank's changes are on its GPU, not on its host.
    """
    if comm.size == 1:
        return Serial()  # MPI, of a single rank too, must not be given memory of a GPU
    reason, library = _reason(device, comm, here)
    if reason is None:
        group, reason = _join(library, comm)
        if group is not None:
            log.info("sums between GPUs: NCCL %s", _named(library.get_version()))
            return Nccl(device, comm, library, group)
    log.info("sums between GPUs: MPI through pinned host memory, since %s", reason)
    return Staged(device, comm) if here else comm


def _reason(device: Device, comm: Comm, here: bool) -> tuple[str | None, Any]:
    """Return why NCCL cannot be used (None if it can; the same on all ranks), and the library."""
    try:
        library, why = device.nccl(), ""
    except ImportError as error:
        library, why = None, str(error)
    version = library.get_version() if library else 0
    mine = _Rank((comm.hosts[comm.rank], device.uuid), version, why, here)
    ranks: Sequence[_Rank] = comm.broadcast(comm.gather(mine))
    for number, rank in enumerate(ranks):
        if not rank.version:
            return f"rank {number} has no NCCL ({rank.reason})", None
        if not rank.here:
            return f"the slices of rank {number} do not all fit on its GPU and stay on the host", None
    (place, most), *_ = Counter(rank.place for rank in ranks).most_common(1)
    if most > 1:
        return f"{most} ranks share {place[1]}, and NCCL needs one GPU per rank", None
    versions = {_named(rank.version) for rank in ranks}
    if len(versions) > 1:
        return f"the ranks have different NCCL versions: {', '.join(sorted(versions))}", None
    return None, library


def _join(library: Any, comm: Comm) -> tuple[Any, str | None]:
    """Return an NCCL communicator of all ranks, or why there is none; collective."""
    group, error = None, ""
    number = comm.broadcast(library.get_unique_id() if comm.rank == 0 else None)
    try:
        group = library.NcclCommunicator(comm.size, number, comm.rank)
    except RuntimeError as failure:
        error = str(failure)
    errors: Sequence[str] = comm.broadcast(comm.gather(error))
    for rank, found in enumerate(errors):
        if found:
            return None, f"NCCL failed to initialise on rank {rank}: {found}"
    return group, None


def _named(version: int) -> str:
    """Return an NCCL version number such as 22707 as "2.27.7"."""
    return f"{version // 10000}.{version // 100 % 100}.{version % 100}"


class Nccl:
    """Reductions by NCCL, between GPU memories, on a stream of its own."""

    def __init__(self, device: Device, comm: Comm, library: Any, group: Any) -> None:
        self._device, self._comm, self._group, self._stream = device, comm, group, device.stream()
        self._add, self._largest = library.NCCL_SUM, library.NCCL_MAX
        self._kinds = {
            "int32": library.NCCL_INT32,
            "int64": library.NCCL_INT64,
            "float32": library.NCCL_FLOAT32,
            "float64": library.NCCL_FLOAT64,
        }

    def start_sum(self, array: Array) -> Pending:
        """Start replacing an array by its sum over ranks."""
        return self._start(array, self._add)

    def start_max(self, array: Array) -> Pending:
        """Start replacing an array by its maximum over ranks."""
        return self._start(array, self._largest)

    def _start(self, array: Array, operation: int) -> Pending:
        assert array.flags.c_contiguous
        self._stream.wait_event(self._device.mark())
        place, kind = array.data.ptr, self._kinds[array.dtype.name]
        self._group.allReduce(place, place, array.size, kind, operation, self._stream.ptr)
        with self._device.on(self._stream):
            return _Sent(self._comm, self._device.mark())


class _Sent:
    """A reduction in progress in NCCL."""

    def __init__(self, comm: Comm, event: Any) -> None:
        self._comm, self._event = comm, event

    def test(self) -> bool:
        """Return whether it is done."""
        return bool(self._event.done)

    def wait(self) -> None:
        """Wait until it is done."""
        self._comm.barrier()  # tells the watchdog that this rank waits for others
        self._event.synchronize()


class Staged:
    """Reductions by MPI, staged through pinned host memory."""

    def __init__(self, device: Device, comm: Comm) -> None:
        self._device, self._comm = device, comm

    def start_sum(self, array: Array) -> Pending:
        """Start replacing an array by its sum over ranks."""
        pinned = self._download(array)
        return _Back(self._comm.start_sum(pinned), pinned, array, self._device)

    def start_max(self, array: Array) -> Pending:
        """Start replacing an array by its maximum over ranks."""
        pinned = self._download(array)
        return _Back(self._comm.start_max(pinned), pinned, array, self._device)

    def _download(self, array: Array) -> np.ndarray:
        pinned = self._device.staging(array.shape, array.dtype)
        array.get(out=pinned)
        return pinned


class _Back:
    """A reduction in progress in MPI, whose result is then copied back to the GPU."""

    def __init__(self, pending: Pending, pinned: np.ndarray, array: Array, device: Device) -> None:
        self._pending, self._pinned, self._array, self._device = pending, pinned, array, device
        self._arrived = False

    def test(self) -> bool:
        """Advance it without blocking; return whether it is done."""
        if self._pending.test():
            self._upload()
        return self._arrived

    def wait(self) -> None:
        """Wait until it is done."""
        self._pending.wait()
        self._upload()

    def _upload(self) -> None:
        if not self._arrived:
            self._device.upload(self._array, self._pinned)()
            self._arrived = True


class SideStreamSum:
    """An `ExactSum` of copies, computed on the side stream while steps go on."""

    def __init__(self, device: Device, copies: dict[str, Array], comm: Sums, slices: int, first: int) -> None:
        self._device = device
        with device.side_stream():
            self._sum = ExactSum(copies, comm, slices, first)

    def test(self) -> bool:
        """Advance the sums without blocking; return whether they are done."""
        with self._device.on_side_stream():
            return self._sum.test()

    def wait(self) -> dict[str, np.ndarray]:
        """Return each sum; see `ExactSum`."""
        with self._device.on_side_stream():
            return self._sum.wait()


def nccl() -> Any:
    """Return the NCCL library; raises ImportError with the command that installs it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # CuPy warns when the library is missing
        from cupy.cuda import nccl as library
        from cupy.cuda import runtime
    if not library.available:
        raise ImportError(f"pip install nvidia-nccl-cu{runtime.runtimeGetVersion() // 1000}")
    return library


def route() -> str:
    """Return in one line how sums over the GPUs of several ranks would be made."""
    try:
        library = nccl()
    except ImportError as error:
        return f"MPI through pinned host memory, since NCCL is not installed ({error})"
    version = _named(library.get_version())
    return f"NCCL {version} if each rank has its own GPU, else MPI through pinned host memory"
