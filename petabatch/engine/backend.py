"""The backend of an engine: its arrays, the threads of its lanes, the transfer of images and records."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import numpy as np

from petabatch.engine.prefetch import FileReader, Prefetch
from petabatch.engine.state import State
from petabatch.engine.updates import Updates
from petabatch.frozen import changed
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cpu.operators import CpuKernels
from petabatch.kernels.cuda.device import Device
from petabatch.network.graph import Graph
from petabatch.spec.parts import StepContext
from petabatch.threads import ThreadPool
from petabatch.variable import Array

Operation = Callable[[StepContext], None]
"""One step of a layer."""
Steps = Callable[[StepContext, int], Iterator[int]]
"""From that of the context to another one; the numbers of those that are reached."""
Reader = Callable[[int, int], np.ndarray]
"""Image number `item` of a global slice, `[ny, nx, nf]`."""


class Arrays(Protocol):
    """The arrays of a rank, seen lane by lane."""

    def lane(self, lanes: slice) -> Mapping[str, Array]:
        """Return views on the given local slices; arrays of the whole network are seen whole."""


class Peers:
    """What the lanes of a window share: their bindings, and what steppers make for all of them."""

    def __init__(self, window: slice) -> None:
        self.window = window
        self.bound: dict[int, Any] = {}
        """The present `Binding` of each lane, by its first local slice."""
        self.made: dict[Hashable, Any] = {}


class Backend(Protocol):
    """What differs between a rank that computes on its CPU and one that computes on its GPU."""

    version: int
    """That of the weights on the host: another one whenever they may have changed."""

    @property
    def name(self) -> str:
        """Description of the device of this rank, for the run file."""

    @property
    def device(self) -> Device:
        """The GPU; raises ValueError where there is none."""

    @property
    def arrays(self) -> Arrays:
        """The arrays that lanes advance."""

    @property
    def windows(self) -> Sequence[slice]:
        """The local slices that are advanced together: one lane, or several where slices differ."""

    def slots(self, size: int) -> Sequence[range]:
        """Return the places of slices that a thread advances together, at most `size` where it is free."""

    def seated(self) -> None:
        """Take over the state of slices on the host, which have been given the places of others."""

    def peers(self, lanes: slice) -> Peers | None:
        """Return what the lanes of a window share, None where each makes its own steps."""

    @property
    def workers(self) -> int:
        """Threads that advance lanes."""

    def pool(self) -> ThreadPool:
        """Return these threads."""

    def kernels(self, compiled: bool) -> ArrayKernels:
        """Return the patch operators, those of plain array code unless `compiled`."""

    def steps(self, graph: Graph, levels: Sequence[Sequence[Operation]]) -> Steps:
        """Return what makes steps of the network, from the operations of its layers, level by level."""

    def allocate(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Return host memory for records."""

    def holding(self, lanes: slice) -> AbstractContextManager[None]:
        """Keep the arrays of these local slices on the device within the block."""

    def read_ahead(self, number: int) -> None:
        """Start reading the first images of a slice that is not advanced yet."""

    def first(self, name: str, again: bool, number: int, item: int) -> np.ndarray:
        """Return an image of a slice, which may then be shown `again` without being read again."""

    def show(self, name: str, slices: range, item: int, into: Array) -> None:
        """Put image `item` of each slice into `into` `[lanes, ny, nx, nf]`, the activity of layer `name`."""

    def record(self, number: int, values: Array, row: np.ndarray, pending: list[Callable[[], None]]) -> None:
        """Copy `values` of recording `number` to `row`; if asynchronously, append its wait to `pending`."""

    def sum_updates(self, updates: Updates) -> None:
        """Choose where weight changes are summed: on the host or on the device; collective."""

    def start(self) -> None:
        """Load the state of the host, at the beginning of a run."""

    def weights_changed(self) -> None:
        """Load what all slices share, such as weights."""

    def collect(self) -> None:
        """Copy to the host what a checkpoint holds."""

    @property
    def waited(self) -> float:
        """Seconds in which lanes waited for images, summed over lanes."""

    def close(self) -> None:
        """Stop reading images ahead."""


class Host:
    """The CPU: a lane for each slice, or one for all."""

    def __init__(
        self, state: State, readers: Mapping[str, FileReader], threads: int, together: bool = False
    ) -> None:
        """Use `threads` threads; with `together`, one lane has all slices."""
        self.arrays, self._threads, self.version = state, threads, 0
        slices = state.hi - state.lo
        self._prefetch = Prefetch(readers, slices)
        self.windows = [slice(0, slices)] if together else [slice(n, n + 1) for n in range(slices)]

    @property
    def name(self) -> str:
        """The CPU and its threads."""
        return f"cpu, {self._threads} thread{'s' * (self._threads != 1)}"

    @property
    def device(self) -> Device:
        """The CPU has no CUDA device: raises ValueError."""
        raise ValueError("the CPU has no CUDA device")

    @property
    def workers(self) -> int:
        """At most one for each lane."""
        return min(self._threads, len(self.windows))

    def slots(self, size: int) -> Sequence[range]:
        """Return places of `size` slices."""
        places = len(self.windows)
        return [range(n, min(n + size, places)) for n in range(0, places, size)]

    def seated(self) -> None:
        """The state is the one that lanes advance."""

    def peers(self, lanes: slice) -> Peers | None:
        """Return None: programs say themselves which of them are advanced in one call."""
        return None

    def pool(self) -> ThreadPool:
        """Return threads for lanes."""
        return ThreadPool(self.workers, "lane")

    def kernels(self, compiled: bool) -> ArrayKernels:
        """Return the operators on numpy's arrays."""
        return CpuKernels(np) if compiled else ArrayKernels(np)

    def steps(self, graph: Graph, levels: Sequence[Sequence[Operation]]) -> Steps:
        """Return what calls the operations in order."""
        operations = [operate for level in levels for operate in level]

        def make(ctx: StepContext, last: int) -> Iterator[int]:
            for step in range(ctx.step, last + 1):
                now = changed(ctx, step=step)
                for operate in operations:
                    operate(now)
                yield step

        return make

    def allocate(self, shape: tuple[int, ...], dtype: str) -> np.ndarray:
        """Return zeros."""
        return np.zeros(shape, dtype)

    def holding(self, lanes: slice) -> AbstractContextManager[None]:
        """All arrays are always at hand."""
        return nullcontext()

    def read_ahead(self, number: int) -> None:
        """Start reading the first images of a slice that is not advanced yet."""
        self._prefetch.begin(number)

    def first(self, name: str, again: bool, number: int, item: int) -> np.ndarray:
        """Return an image of a slice, and keep it if it is shown `again`."""
        return self._prefetch.read(name, number, item, again)

    def show(self, name: str, slices: range, item: int, into: Array) -> None:
        """Copy images that were read ahead, and begin to read the next."""
        for index, number in enumerate(slices):
            into[index] = self._prefetch.read(name, number, item)

    def record(self, number: int, values: Array, row: np.ndarray, pending: list[Callable[[], None]]) -> None:
        """Copy at once."""
        row[...] = values.reshape(row.shape)

    def sum_updates(self, updates: Updates) -> None:
        """They are summed in the state."""

    def start(self) -> None:
        """The state is the one that lanes advance; its weights may be others."""
        self.version += 1

    def weights_changed(self) -> None:
        """The state is the one that lanes advance."""
        self.version += 1

    def collect(self) -> None:
        """The state is the one that lanes advance."""

    @property
    def waited(self) -> float:
        """Seconds in which lanes waited for images, summed over lanes."""
        return self._prefetch.waited

    def close(self) -> None:
        """Stop reading images ahead."""
        self._prefetch.close()
