"""The looks at the duality gap that a compiled loop takes inside its steps, for `run.until`."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.kernels.cpu.certificate import NO_LOOKS, Looks
from petabatch.network.plan import Plan
from petabatch.network.until import NAME, certificate, next_look
from petabatch.spec.compiled import NotSuitable
from petabatch.spec.network import Until
from petabatch.variable import Array


class LoopLooks:
    """The looks of one slice, or none."""

    def __init__(self, until: Until | None, display: int, looks: Looks) -> None:
        self._until, self._display, self._looks = until, display, looks

    @classmethod
    def none(cls, plan: Plan) -> LoopLooks:
        """Return those of a slice that does not look inside its steps."""
        return cls(None, plan.graph.network.run.display, NO_LOOKS)

    @classmethod
    def of(cls, plan: Plan, arrays: Mapping[str, Array]) -> LoopLooks:
        """Return the looks of a slice where the gap that `until` asks for is that of the plan's loop."""
        run, network = plan.graph.network.run, plan.graph.network
        name, loop = certificate(network), plan.method.loop
        if run.until is None or name is None:
            return cls.none(plan)
        try:
            lasso = network.probes[name].lasso()
        except NotSuitable:
            return cls.none(plan)
        mine = (loop.image, loop.recon, loop.code, plan.graph.edges[loop.code][0].name)
        if (lasso.image, lasso.reconstruction, lasso.code, lasso.drive) != mine or loop.image_factor != 1:
            return cls.none(plan)
        looks = NO_LOOKS._replace(
            target=run.until.gap,
            coefficient=lasso.coefficient,
            signed=lasso.signed,
            gap=arrays[f"{NAME}/gap"],
            block=np.zeros(1, np.int64),
        )
        return cls(run.until, run.display, looks)

    def __bool__(self) -> bool:
        """Return whether there are any."""
        return self._until is not None

    def within(self, first: int, last: int) -> Looks:
        """Return the looks in steps first+1 .. last."""
        if self._until is None:
            return NO_LOOKS
        due = [next_look(self._until, self._display, step) == step + 1 for step in range(first, last)]
        return self._looks._replace(due=np.array(due, bool), whole=last % self._display == 0)
