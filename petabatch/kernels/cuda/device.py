"""What kernels need of a GPU, so that tests can put another machine in its place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol


class Kernel(Protocol):
    """A compiled kernel, as `cupy.RawKernel`."""

    max_dynamic_shared_size_bytes: int

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        """Start it on the current stream."""


class Device(Protocol):
    """What the kernels need of a GPU."""

    xp: Any
    """The array module of its arrays: cupy."""
    shared_limit: int
    """Bytes of shared memory one block can have."""

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
