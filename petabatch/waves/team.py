"""The ranks that compute points together: one, or several that share each slice."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from petabatch.engine.assembly import Assembly
from petabatch.engine.failure import OF_A_SLICE
from petabatch.kernels.cuda.device import Device
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Comm, Counted, Counter
from petabatch.parallel.cores import fewest, lane_threads
from petabatch.parallel.grid import grid
from petabatch.parallel.watchdog import Watch
from petabatch.spec.duration import seconds
from petabatch.spec.network import Network
from petabatch.waves.finished import Points

_PATIENCE = 10
"""Seconds for which a rank with an error waits for the others of its team to come with theirs."""


@dataclass(frozen=True)
class Team:
    """Ranks of which the first takes points, decides when to stop, and writes; the others follow it."""

    comm: Comm
    """All ranks."""
    leaders: Comm
    """The ranks of all teams that have the place of this one: those that are first, on these."""
    group: Comm
    """The ranks of this team."""
    threads: int | None
    """Those of each rank; alike in a team of several, which make the same calls."""
    base: Assembly
    """That of a point, by whose place among ranks the others have theirs."""
    watch: Watch
    """Hang detection of all ranks, entered while points are computed."""

    @classmethod
    def of(cls, comm: Comm, base: Plan, threads: int | None, teams: int | None = None) -> Team:
        """Return the team of this rank, for points with a plan like `base`; collective.

        Raises ResourceError if the ranks do not make whole teams, or another number of `teams`.
        """
        network = base.graph.network
        parallel = network.parallel
        place = grid(comm, teams, parallel.parts, parallel.names)
        if place.group.size > 1:
            threads = fewest(lane_threads(network.run, threads), place.group)
        watch = Watch(comm, seconds(network.run.stuck_after))
        return cls(comm, place.batch, place.group, threads, Assembly(base, place.group, threads), watch)

    @property
    def leads(self) -> bool:
        """Whether this rank is the first."""
        return self.group.rank == 0

    def assembly(self, network: Network, device: Device | None) -> Assembly:
        """Return the assembly of points; collective, also in what it raises: see `Assembly.of`."""
        return replace(Assembly.of(network, self.group, self.threads, device), first=self.base)

    def part(self, plan: Plan) -> Plan:
        """Return the plan of what a rank has of slices; collective when it is first asked for."""
        return self.base.features.of(plan).plan

    def counter(self) -> Counter:
        """Return a counter of the first ranks; the others do not take from theirs."""
        return self.leaders.counter() if self.leads else Counted()

    def following(self, waiting: Iterable[Points]) -> Iterator[Points]:
        """Yield on all ranks what the first takes."""
        taken = iter(waiting)
        while (points := self.group.broadcast(next(taken, None) if self.leads else None)) is not None:
            yield points

    @contextmanager
    def meeting(self) -> Iterator[None]:
        """Find out whether all ranks of the team have the same error of a slice in the block; collective.

        Where one has another one, or none, it may have left others in the middle of a message.
        """
        try:
            yield
        except OF_A_SLICE as error:
            number = zlib.crc32(f"{type(error).__name__} {error}".encode())
            error.in_group = self.group.agree(number + 1, _PATIENCE)
            raise
        self.group.agree(0, math.inf)

    def any(self, flag: bool) -> bool:
        """Return whether any rank of the team says so; collective."""
        return bool(self.group.any(flag))
