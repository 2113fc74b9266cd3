"""Steppers: what advances the slices of a lane from one event to the next.

`network/method.py` chooses which; `base.py` is their interface. `layers.py` is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from petabatch.engine.features import Features
from petabatch.engine.pages import Pages
from petabatch.engine.steppers.base import Binding, Rows, Stepper
from petabatch.engine.steppers.cuda import CudaStepper
from petabatch.engine.steppers.failing import fails_alone
from petabatch.engine.steppers.layers import LayerStepper
from petabatch.engine.steppers.program import ProgramStepper, Tabulated
from petabatch.engine.steppers.program.tables import Tables
from petabatch.network.method import StepperName
from petabatch.network.plan import MOST_PLANS, Plan

__all__ = ["Binding", "Rows", "Stepper", "StepperMaker", "fails_alone"]

_STEPPERS: dict[StepperName, Callable[[Binding], Stepper]] = {
    "layers": LayerStepper,
    "cuda": CudaStepper,
}


class StepperMaker:
    """Makes the steppers of plans that differ in numbers alone; what they can share is made once."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Plan, Callable[[Binding], Stepper]]] = {}
        self._kinds: list[Tables] = []
        """Programs of which no two are alike."""
        self._programs: dict[int, tuple[Plan, Tabulated]] = {}
        """Plans on which others are modelled, and their programs."""
        self._pages = Pages()

    def __call__(self, plan: Plan, bound: Binding) -> Stepper:
        """Return the stepper that a plan's method names, for the slices of a lane; thread-safe."""
        known = self._known.get(id(plan))
        if known is None:
            if len(self._known) >= MOST_PLANS:
                self._known.clear()
                self._kinds.clear()
                self._programs.clear()
            known = self._known[id(plan)] = plan, self._maker(plan, bound)
        return known[1](bound)

    def _maker(self, plan: Plan, bound: Binding) -> Callable[[Binding], Stepper]:
        if plan.method.stepper != "program":
            return _STEPPERS[plan.method.stepper]
        features, model = bound.deliveries.features, plan.model or plan
        if id(model) not in self._programs:
            self._programs[id(model)] = model, self._tabulated(model, features)
        found = self._programs[id(model)][1]
        if plan is not model:
            found = found.renumbered(plan, features) or self._tabulated(plan, features)
        return partial(ProgramStepper, made=found, pages=self._pages)

    def _tabulated(self, plan: Plan, features: Features) -> Tabulated:
        found = Tabulated.of(plan, features)
        if not any(found.tables.share_workspace(kind) for kind in self._kinds):
            self._kinds.append(found.tables)
        return found
