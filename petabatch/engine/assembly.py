"""The assembly of engines: a network with its plan, and the ranks, threads and device that run it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from petabatch.engine.engine import Engine
from petabatch.engine.feature_split import FeatureSplit
from petabatch.engine.features import AllFeatures, Features
from petabatch.engine.fitting import fitted, to_be_fitted
from petabatch.engine.gpu.choose import choose
from petabatch.engine.grid_split import GridSplit
from petabatch.engine.row_split import RowSplit
from petabatch.kernels.cuda.device import Device
from petabatch.lazy_property import lazy_property
from petabatch.network.build import build
from petabatch.network.capacity import check_capacity
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Comm, Serial, share
from petabatch.parallel.grid import Grid, grid
from petabatch.spec.network import Network


@dataclass(frozen=True)
class Assembly:
    """All that an engine is made of."""

    plan: Plan
    """That of whole slices."""
    comm: Comm
    """All ranks."""
    threads: int | None = None
    """Threads of each rank; by default `run.threads`, or the cores that the process may use."""
    device: Device | None = None
    """The GPU of this rank, None for the CPU."""
    first: Assembly | None = None
    """That of another network with as many parts, in whose place among the ranks this one is, if any."""

    @classmethod
    def of(
        cls,
        network: Network,
        comm: Comm | None = None,
        threads: int | None = None,
        device: Device | None = None,
    ) -> Assembly:
        """Return the assembly of a network on the device that it asks for; collective.

        `device` is the GPU of this rank where one has been chosen. Raises what `on_any_device` raises, and
        ResourceError without the device.
        """
        return cls.on_any_device(network, comm, threads).on_device(device)

    @classmethod
    def on_any_device(
        cls, network: Network, comm: Comm | None = None, threads: int | None = None
    ) -> Assembly:
        """Check a network, fit its transforms to its images, and derive its plan; collective.

        Transforms are fitted on rank 0, so that all ranks have the same bits. Raises ParamsError with every
        problem found, InputFileError if images cannot be used, ResourceError without the memory.
        """
        comm = comm or Serial()
        check_capacity(network, len(set(comm.hosts)))
        graph = build(network)
        if to_be_fitted(network):
            graph = build(fitted(network, comm))
        return cls(schedule(graph), comm, threads)

    def on_device(self, device: Device | None = None) -> Assembly:
        """Return the assembly on a GPU, by default that of this rank if the network asks for one; collective.

        Raises ResourceError if there is none, or it cannot have the kernel that is asked for.
        """
        device = device or choose(self.network, self.comm)
        if device is None:
            return self
        return replace(self, plan=schedule(self.plan.graph, device.limits), device=device)

    @property
    def network(self) -> Network:
        """The network, with what was fitted to its images."""
        return self.plan.graph.network

    def with_numbers(self, network: Network) -> Assembly:
        """Return the assembly of the network with other numbers; raises ParamsError when it is invalid."""
        limits = None if self.device is None else self.device.limits
        return replace(self, plan=schedule(build(network), limits), first=self.first or self)

    @lazy_property
    def place(self) -> Grid:
        """The place of this rank among those with other slices and other parts of them; collective."""
        if self.first is not None:
            return self.first.place
        parallel = self.network.parallel
        return grid(self.comm, parallel.batch, parallel.parts, parallel.names)

    @lazy_property
    def features(self) -> Features:
        """What this rank has of its slices; collective."""
        if self.first is not None:
            return self.first.features.of(self.plan)
        rows, split = self.network.parallel.rows > 1, self.network.parallel.features > 1
        if rows:
            return GridSplit.at(self.place, self.plan) if split else RowSplit(self.plan, self.place)
        return FeatureSplit(self.plan, self.place.group) if split else AllFeatures(self.plan)

    @property
    def slices(self) -> range:
        """The slices of this rank; collective."""
        return range(*share(self.network.batch, self.place.batch.rank, self.place.batch.size))

    def planned(self, **changes: Any) -> Assembly:
        """Return the assembly with other fields of the plan, such as `stops`."""
        return replace(self, plan=replace(self.plan, **changes))

    def engine(self, slices: range | None = None) -> Engine:
        """Return the engine of this rank, with its slices or others, its part of them; collective.

        Its state is not set: see `Engine.start` and `Engine.resume`.
        """
        return Engine(self.plan, self.place.batch, self.threads, self.device, self.features, slices)


def beside(engine: Engine, plan: Plan) -> Engine:
    """Return an engine of another network on the same ranks, threads and device, with as many parts."""
    return Engine(plan, engine.comm, engine.threads, engine.device, engine.features.of(plan))
