"""The protocol of a GPU as kernels see it, so that tests can emulate one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol


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
    """What the kernels need of a GPU."""

    xp: Any
    """The array module of its arrays: cupy."""
    limits: Limits
    """What bounds the size of blocks."""

    def compile(self, code: str) -> Callable[[str], Kernel]:
        """Compile a source text; return the function that gives a kernel by its name."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what repeats the launches `work` makes, as one CUDA graph where that is possible."""


def load(made: Callable[[str], Kernel], name: str, shared: int) -> Kernel:
    """Return a kernel that may have so many bytes of shared memory, on the device already."""
    kernel = made(name)
    # Setting it also loads the kernel, which must not happen while a graph is captured.
    kernel.max_dynamic_shared_size_bytes = max(shared, 8 * 1024)
    return kernel
