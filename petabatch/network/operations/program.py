"""The operations of a step, and the arrays that they need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.look import Look
from petabatch.kernels.operations.synapses import List
from petabatch.kernels.operations.transport import Exchange, Join
from petabatch.network.operations.updates import Call, LazyUpdate, Update


@dataclass(frozen=True)
class Program:
    """The operations of a step, in order."""

    operations: tuple[Operation, ...]
    scratch: Mapping[str, int]
    """Floats of each scratch array, which holds nothing between steps but zeros around an `Extend`."""
    margins: Mapping[str, tuple[int, int, int]]
    """The shape of each image with its margin, of layers whose border is their image: `margins/<layer>`, as
    many steps of it as the layer keeps."""
    constants: Mapping[str, tuple[tuple[float, ...], int]]
    """Scratch that never changes: a pattern, and how often it is repeated."""
    look: Look | None = None
    """What ends a display early, after all operations of a step."""
    codes: Mapping[str, str] = field(default_factory=dict)
    """The codes, and why all units of one are computed in each step; nothing for one lazily evaluated."""

    @property
    def interpreted(self) -> dict[str, str]:
        """The layers that are updated in the interpreter, step by step, and why."""
        return {one.layer: one.reason for one in self.operations if isinstance(one, Call)}

    @cached_property
    def joined(self) -> tuple[Join | Exchange, ...]:
        """What is exchanged between ranks; each step waits at it for the other ranks."""
        within = ((one.sums,) if isinstance(one, Update) and one.sums else (one,) for one in self.operations)
        return tuple(one for (one,) in within if isinstance(one, Join | Exchange))

    @cached_property
    def readers(self) -> set[str]:
        """The layers that are made at the end of a run of steps alone."""
        return {one.layer for one in self.operations if isinstance(one, Update) and one.when.window}

    @cached_property
    def listed(self) -> set[str]:
        """The layers whose active units are listed."""
        return {one.layer for one in self.operations if isinstance(one, List)}

    @cached_property
    def lazy(self) -> tuple[LazyUpdate, ...]:
        """The codes that are lazily evaluated."""
        return tuple(one for one in self.operations if isinstance(one, LazyUpdate))

    def __str__(self) -> str:
        return "\n".join(map(str, self.operations))
