"""The GPUs of this machine, through CuPy: what is there, which one a rank takes, and work on it."""

from __future__ import annotations

import importlib.util
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from petabatch.errors import ResourceError
from petabatch.kernels.cuda.device import Limits
from petabatch.logs import log
from petabatch.parallel import gpu_sums
from petabatch.parallel.comm import Comm
from petabatch.spec.network import Run
from petabatch.variable import Array

_OLDEST = (8, 0)
"""Compute capability from which a block can have enough shared memory."""


def missing() -> str | None:
    """Return why no GPU can be used, None when one can."""
    if importlib.util.find_spec("cupy") is None:
        return "CuPy is not installed: pip install 'petabatch[gpu]', or [gpu-cuda12] for a driver of CUDA 12"
    try:
        import cupy

        count = cupy.cuda.runtime.getDeviceCount()
    except (ImportError, RuntimeError, OSError) as error:
        return f"CuPy finds no driver that works: {' '.join(str(error).split())}"
    if count == 0:
        return "the driver works and shows no device (is CUDA_VISIBLE_DEVICES empty?)"
    best = max(_capability(cupy, number) for number in range(count))
    return None if best >= _OLDEST else f"the GPU has compute capability {best}, and 8.0 is needed"


def report() -> str:
    """Return what GPUs there are, one a line, or why there are none."""
    reason = missing()
    if reason is not None:
        return f"devices            cpu only: {reason}"
    import cupy

    lines = []
    for number in range(cupy.cuda.runtime.getDeviceCount()):
        about = cupy.cuda.runtime.getDeviceProperties(number)
        lines.append(
            f"device {number}           {_name(about)}, {about['totalGlobalMem'] / 2**30:.0f} GiB, "
            f"{about['multiProcessorCount']} multiprocessors, compute capability "
            f"{about['major']}.{about['minor']}, {_uuid(about)}"
        )
    lines.append(f"sums of ranks      {gpu_sums.route()}")
    return "\n".join(lines)


def choose(run: Run, comm: Comm) -> Gpu | None:
    """Return the GPU of this rank, by its number among the ranks of its host; None for `device = "cpu"`.

    Collective. Prints which rank has which, and warns where ranks share one. Raises ResourceError when there
    is none, or displays end early.
    """
    if run.device == "cpu":
        return None
    if run.until is not None:  # a params file cannot say so; `resume --device gpu` can
        raise ResourceError(
            "displays of this run end slice by slice (run.until), and a GPU makes the steps of all slices "
            "together\n"
            "    hint:     --device cpu"
        )
    reason = missing()
    if reason is not None:
        raise ResourceError(
            'run.device = "gpu" is asked for, and there is none\n'
            f"    found:    {reason}\n"
            "    expected: an NVIDIA GPU of compute capability 8.0 or more, its driver, and CuPy 14\n"
            '    hint:     --device cpu (or run.device = "cpu"); petabatch info --devices shows what is found'
        )
    import cupy

    gpu = Gpu(comm.local_rank % cupy.cuda.runtime.getDeviceCount(), run.tf32)
    announce(comm, gpu.name, gpu.uuid)
    return gpu


def announce(comm: Comm, name: str, uuid: str) -> None:
    """Say on rank 0 which rank has which GPU, and warn of each that ranks share; collective."""
    both: Sequence[tuple[str, str]] = comm.gather((name, uuid)) or ()
    for rank, (its, number) in enumerate(both):
        log.info("rank %d on %s: %s (%s)", rank, comm.hosts[rank], its, number)
    for number, ranks in Counter(number for _, number in both).items():
        if ranks > 1:
            log.warning("%d ranks share %s: one rank for each GPU is faster", ranks, number)


class Gpu:
    """One GPU, with one stream on which the steps of this rank are made in order, and others beside it."""

    def __init__(self, number: int, tf32: bool = False) -> None:
        import cupy

        self.xp: Any = cupy
        about = cupy.cuda.runtime.getDeviceProperties(number)
        self.name, self.uuid = _name(about), _uuid(about)
        self.limits = Limits(
            about["multiProcessorCount"], about["sharedMemPerMultiprocessor"],
            about["sharedMemPerBlockOptin"], about["regsPerMultiprocessor"],
            about["maxThreadsPerMultiProcessor"],
        )  # fmt: skip
        self._device = cupy.cuda.Device(number)
        with self._device:
            self._stream, self._side = (cupy.cuda.Stream(non_blocking=True) for _ in range(2))
            # With a workspace for each stream, products of parallel streams have the same bits every time.
            os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
        self._graphs, self._tf32 = True, tf32
        self._kept = cupy.cuda.MemoryPool()

    def enter(self) -> None:
        """Make this GPU and its stream those of the calling thread, and its products as precise as asked."""
        from cupy._core import _routines_linalg as products

        self._device.use()
        self._stream.use()
        wanted = products.COMPUTE_TYPE_TF32 if self._tf32 else products.COMPUTE_TYPE_DEFAULT
        products.set_compute_type(np.float32, wanted)

    def free(self) -> int:
        """Return the bytes of memory that are free."""
        return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(self.xp.get_default_memory_pool().free_bytes())

    def wait(self) -> None:
        """Wait until all work is done."""
        self._stream.synchronize()

    def stream(self) -> Any:
        """Return a further stream, on which work goes on beside that of others."""
        with self._device:
            return self.xp.cuda.Stream(non_blocking=True)

    def mark(self) -> Any:
        """Return an event: all that the present stream was given until now."""
        event = self.xp.cuda.Event(disable_timing=True)
        event.record(self.xp.cuda.get_current_stream())
        return event

    def follow(self, event: Any) -> None:
        """Let what the present stream is given from now on wait for an event; the host does not wait."""
        self.xp.cuda.get_current_stream().wait_event(event)

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        """Work on a stream of its own, after what the present one was given until now."""
        self._side.wait_event(self.mark())
        with self.on_side_stream():
            yield

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        """Work on the stream of `beside`, without a look at another: one may be captured meanwhile."""
        with self._device, self._side:
            yield

    def nccl(self) -> Any:
        """Return the library NCCL; raises ImportError that says how it is installed."""
        return gpu_sums.nccl()

    def compile(self, code: str) -> Callable[[str], Any]:
        """Compile a source text; CuPy keeps the result on disk."""
        made: Callable[[str], Any] = self.xp.RawModule(code=code, options=("--std=c++17",)).get_function
        return made

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what repeats the launches `work` makes: a CUDA graph, or `work` where that fails."""
        if not self._graphs:
            return work
        self._stream.begin_capture()
        try:
            # A graph keeps the addresses of what is made meanwhile: nobody else may be given this memory.
            with self.xp.cuda.using_allocator(self._kept.malloc):
                work()
            graph = self._stream.end_capture()
        except RuntimeError as error:  # of CUDA, or of a library that cannot be captured
            self._graphs = False
            log.warning("no CUDA graph: kernels are launched one by one (%s)", error)
            with suppress(RuntimeError):  # leave the state of capturing, in which nothing runs
                self._stream.end_capture()
            return work
        return lambda: graph.launch(self._stream)

    def staging(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return pinned memory of the host, from which copies run beside the kernels."""
        import cupyx

        if 0 in shape:
            return np.empty(shape, dtype)
        pinned: np.ndarray = cupyx.empty_pinned(shape, dtype)
        return pinned

    def upload(self, into: Array, pinned: np.ndarray) -> Callable[[], None]:
        """Begin to copy; return what waits until `pinned` may be written again."""
        if into.flags.c_contiguous:
            into.set(pinned)
        else:
            into[...] = self.xp.asarray(pinned)
        wait: Callable[[], None] = self.mark().synchronize
        return wait


def _capability(cupy: Any, number: int) -> tuple[int, int]:
    about = cupy.cuda.runtime.getDeviceProperties(number)
    return about["major"], about["minor"]


def _name(about: dict[str, Any]) -> str:
    name = about["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def _uuid(about: dict[str, Any]) -> str:
    digits = bytes(about["uuid"]).hex().ljust(32, "0")
    parts = (digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:32])
    return "GPU-" + "-".join(parts)
