"""What a rank that computes on a GPU has beside its host arrays: copies, images on their way, kernels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import numpy as np

from petabatch.engine.gpu.arrays import Memory, Resident
from petabatch.engine.gpu.download import Copies, Outlet
from petabatch.engine.gpu.graphs import Branches
from petabatch.engine.gpu.prefetch import Feed, Staging
from petabatch.engine.state import State
from petabatch.engine.steppers.cuda import CudaStepper, fuse_on
from petabatch.engine.updates import Updates
from petabatch.kernels.cuda.device import Device
from petabatch.network.plan import Plan
from petabatch.parallel.gpu_sums import SideStreamSum, Streams, between
from petabatch.variable import Array


class GpuDevice(Device, Memory, Staging, Streams, Copies, Branches, Protocol):
    """A GPU as the engine sees it."""

    name: str

    def enter(self) -> None:
        """Make this GPU that of the calling thread."""


class OnGpu:
    """The GPU side of an engine."""

    def __init__(
        self,
        device: GpuDevice,
        state: State,
        readers: Mapping[str, Callable[[int, int], np.ndarray]],
        threads: int,
    ) -> None:
        device.enter()
        self.device = device
        self.resident = Resident(state, device)
        self.feed = Feed(device, readers, threads)
        self.outlet = Outlet(device)

    def fuse(self, plan: Plan, arrays: Mapping[str, Array]) -> CudaStepper | None:
        """Return the kernels that make the steps of a lane, or None where its layers run one by one."""
        return fuse_on(self.device, plan, arrays)

    def carry(self, updates: Updates) -> None:
        """Have changes of weights summed where they lie: on the device if slices stay there; collective."""
        updates.products = self.resident.products()
        if updates.groups:
            updates.sums = between(self.device, updates.comm, self.resident.stays)
            if self.resident.stays:
                updates.late_sum = partial(SideStreamSum, self.device)

    @contextmanager
    def holding(self, lanes: slice) -> Iterator[None]:
        """Have the arrays of these local slices on the device."""
        self.resident.enter(lanes)
        yield
        self.resident.leave()
