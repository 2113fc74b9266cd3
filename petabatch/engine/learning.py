"""Learning inside a lane: the products of its slices, and the updates in which nothing crosses slices.

What crosses slices is in `updates.py`; what one update is made of in `weight_update.py`.
"""

from __future__ import annotations

from collections.abc import Sequence

from petabatch.engine.finite import assert_finite, changed_by_updates
from petabatch.engine.products import Products
from petabatch.engine.state import refresh
from petabatch.engine.steppers import Stepper
from petabatch.engine.weight_update import change, normalise
from petabatch.network.graph import ACTIVE
from petabatch.network.plan import Plan
from petabatch.spec.parts import StepContext


class LaneLearning:
    """The plastic connections of a lane."""

    def __init__(
        self, plan: Plan, products: Products, stepper: Stepper, ctx: StepContext, slices: Sequence[int]
    ) -> None:
        """Learn in the lane's `slices`, numbered over all points of a sweep."""
        self._slices = slices
        self._plan, self._products, self._stepper, self._ctx = plan, products, stepper, ctx
        self._watched = {
            name: changed_by_updates(name, products.deliveries.arrays, plan.variables)
            for name in plan.graph.patched
        }

    def learn(self, step: int) -> None:
        """Compute what the updates due at the end of `step` need of each slice.

        Apply the updates of weights that belong to one slice.
        Raises NonFiniteError when these are then not finite.
        """
        graph, products, changed = self._plan.graph, self._products, set()
        lane = products.deliveries
        whole = self._plan.whole_graph
        due = [update for update in self._plan.weight_updates if update.due(step)]
        for update in due:
            if update.name in graph.learning_synapses:
                continue  # events have made their changes
            known, number = self._stepper.products, update.update(step)
            products.product(update.name, step, number, self._slices, known)
        if due:
            self._stepper.before_weight_change()
        for update in due:
            if not update.reduced:
                mine, slices = products.arrays[update.name], self._ctx.slices
                for kind in graph.summed[update.name]:
                    if update.shared or kind == ACTIVE:
                        lane.features.add_tiles(mine[kind], lane.tag)
                number, xp = update.update(step), self._ctx.xp
                change(whole, lane.features, update.name, mine, {}, number, 1, slices, xp, lane.tag)
                changed.add(update.name)
        if changed:
            for name in normalise(graph, lane.features, lane.arrays, self._ctx.xp, changed, lane.tag):
                self._check(name, step)
                refresh(graph, lane.arrays, lane.kernels, name)
            self._stepper.load_weights()

    def _check(self, name: str, step: int) -> None:
        """Raise NonFiniteError unless the weights of a connection are finite, and what their rule keeps."""
        plan = self._plan
        assert_finite(self._watched[name], plan.variables, plan.graph, self._slices, step)
