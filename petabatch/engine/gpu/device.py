"""The GPU of a rank, through CuPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from petabatch.engine.gpu.detect import device_name, device_uuid
from petabatch.engine.gpu.products import Products
from petabatch.kernels.cuda.device import Limits
from petabatch.logs import log
from petabatch.parallel import gpu_sums
from petabatch.variable import Array


class Gpu:
    """One GPU: a stream on which the steps of this rank run in order, and side streams."""

    def __init__(self, number: int, tf32: bool = False) -> None:
        import cupy

        self.xp: Any = cupy
        about = cupy.cuda.runtime.getDeviceProperties(number)
        self.name, self.uuid = device_name(about), device_uuid(about)
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
        self.multiply = Products(cupy, tf32).multiply
        self._kept = cupy.cuda.MemoryPool()
        self._modules: dict[str, Callable[[str], Any]] = {}

    def enter(self) -> None:
        """Make this GPU and its stream current on this thread, and set the precision of matrix products."""
        from cupy._core import _routines_linalg as products

        self._device.use()
        self._stream.use()
        wanted = products.COMPUTE_TYPE_TF32 if self._tf32 else products.COMPUTE_TYPE_DEFAULT
        products.set_compute_type(np.float32, wanted)

    def free(self) -> int:
        """Return the bytes of memory that are free."""
        return int(self.xp.cuda.runtime.memGetInfo()[0]) + int(self.xp.get_default_memory_pool().free_bytes())

    def stream(self) -> Any:
        """Return a new stream, which runs concurrently with the others."""
        with self._device:
            return self.xp.cuda.Stream(non_blocking=True)

    def mark(self) -> Any:
        """Record an event on the current stream."""
        event = self.xp.cuda.Event(disable_timing=True)
        event.record(self.xp.cuda.get_current_stream())
        return event

    def follow(self, event: Any) -> None:
        """Let the current stream wait for an event; the host does not wait."""
        self.xp.cuda.get_current_stream().wait_event(event)

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        """Make the side stream current, after the work queued on the current one."""
        self._side.wait_event(self.mark())
        with self.on_side_stream():
            yield

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        """Make the side stream current without waiting for another stream, which may be capturing."""
        with self._device, self.on(self._side):
            yield

    @contextmanager
    def on(self, stream: Any) -> Iterator[None]:
        """Make a stream current in the block, then the one that was."""
        # CuPy's own `with` of a stream goes back to that of the enclosing block, not to that of `use`.
        before = self.xp.cuda.get_current_stream()
        stream.use()
        try:
            yield
        finally:
            before.use()

    def nccl(self) -> Any:
        """Return the NCCL library; raises ImportError with the command that installs it."""
        return gpu_sums.nccl()

    def compile(self, code: str) -> Callable[[str], Any]:
        """Compile a source text; CuPy keeps the result on disk."""
        if code not in self._modules:
            self._modules[code] = self.xp.RawModule(code=code, options=("--std=c++17",)).get_function
        return self._modules[code]

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Capture the launches of `work` as a CUDA graph and return its launch, or `work` if that fails."""
        if not self._graphs:
            return work
        # What comes to another stream than that which is captured would be done now, and never again.
        with self.on(self._stream):
            self._stream.begin_capture()
            try:
                # A graph keeps the addresses of temporaries: their memory must not be reused.
                with self.xp.cuda.using_allocator(self._kept.malloc):
                    work()
                graph = self._stream.end_capture()
            except RuntimeError as error:  # of CUDA, or of a library that cannot be captured
                self._graphs = False
                log.warning("CUDA graph capture failed, kernels are launched one by one (%s)", error)
                with suppress(RuntimeError):  # end the capture, during which nothing runs
                    self._stream.end_capture()
                return work
        launch: Callable[[], None] = graph.launch  # on the current stream, as other work
        return launch

    def staging(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return pinned host memory, from which copies overlap with kernels."""
        import cupyx

        if 0 in shape:
            return np.empty(shape, dtype)
        pinned: np.ndarray = cupyx.empty_pinned(shape, dtype)
        return pinned

    def upload(self, into: Array, pinned: np.ndarray) -> Callable[[], None]:
        """Start a copy; return a function that waits until `pinned` may be written again."""
        if into.flags.c_contiguous:
            # Without a stream, `set` copies on the default one, which does not wait for kernels of others.
            into.set(pinned, stream=self.xp.cuda.get_current_stream())
        else:
            into[...] = self.xp.asarray(pinned)
        wait: Callable[[], None] = self.mark().synchronize
        return wait
