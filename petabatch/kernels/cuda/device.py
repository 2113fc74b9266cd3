"""The protocol of a GPU as kernels and engine see it, so that tests can emulate one."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from petabatch.variable import Array


@dataclass(frozen=True)
class Limits:
    """What the blocks on a multiprocessor share, and how many multiprocessors there are."""

    multiprocessors: int
    shared: int
    """Bytes of shared memory of a multiprocessor."""
    shared_block: int
    """Bytes of it that one block can have."""
    registers: int = 65536
    threads: int = 2048
    reserved: int = 1024
    """Bytes of shared memory that the system takes for each block."""


class Kernel(Protocol):
    """A compiled kernel, as `cupy.RawKernel`."""

    max_dynamic_shared_size_bytes: int

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        """Start it on the current stream."""


class Device(Protocol):
    """One GPU, with the stream on which the steps of this rank run in order, and side streams."""

    xp: Any
    """The array module of its arrays: cupy."""
    limits: Limits
    """What bounds the size of blocks."""
    name: str
    uuid: str

    def enter(self) -> None:
        """Make this GPU and its stream those of the calling thread."""

    def multiply(self, a: Array, b: Array) -> Array:
        """Return the product of matrices, leading axes broadcast, by launches that can be captured."""

    def free(self) -> int:
        """Return the bytes of memory that are free."""

    def staging(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Return pinned memory of the host, from which copies are fast."""

    def upload(self, into: Array, pinned: np.ndarray) -> Callable[[], None]:
        """Start a copy; return what waits until `pinned` may be written again."""

    def stream(self) -> Any:
        """Return a further stream, as `cupy.cuda.Stream`."""

    def mark(self) -> Any:
        """Return an event, as `cupy.cuda.Event`: all work given to the current stream so far."""

    def follow(self, event: Any) -> None:
        """Let further work of the current stream wait for an event; the host does not wait."""

    def side_stream(self) -> AbstractContextManager[None]:
        """Work on a side stream, after what the current one was given so far."""

    def on_side_stream(self) -> AbstractContextManager[None]:
        """Work on the side stream without waiting for another."""

    def on(self, stream: Any) -> AbstractContextManager[None]:
        """Work on a stream, then on the one that was current, to which its own `with` may not go back."""

    def nccl(self) -> Any:
        """Return the library NCCL, as `cupy.cuda.nccl`; raises ImportError with a reason."""

    def compile(self, code: str) -> Callable[[str], Kernel]:
        """Compile a source text; return a function from the name of a kernel to the kernel."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Capture the launches of `work` as a CUDA graph, where that is possible; return its launch."""


def load(made: Callable[[str], Kernel], name: str, shared: int) -> Kernel:
    """Return a kernel loaded on the device, with its limit of shared memory raised to `shared` bytes."""
    kernel = made(name)
    # Setting it also loads the kernel, which must not happen while a graph is captured.
    kernel.max_dynamic_shared_size_bytes = max(shared, 8 * 1024)
    return kernel
