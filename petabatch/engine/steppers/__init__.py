"""Steppers: what advances the slices of a lane from one event to the next.

`network/method.py` chooses which; `base.py` is their interface. `layers.py` is the reference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from petabatch.engine.steppers.base import Binding, Rows, Stepper
from petabatch.engine.steppers.cuda import CudaStepper
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.engine.steppers.layers import LayerStepper
from petabatch.engine.steppers.lazy import LazyStepper
from petabatch.engine.steppers.program import ProgramStepper, make_tables
from petabatch.network.method import StepperName
from petabatch.network.plan import Plan

__all__ = ["Binding", "Rows", "Stepper", "stepper_maker"]

_STEPPERS: dict[StepperName, Callable[[Binding], Stepper]] = {
    "layers": LayerStepper,
    "dense": DenseStepper,
    "lazy": LazyStepper,
    "cuda": CudaStepper,
}


def stepper_maker(plan: Plan) -> Callable[[Binding], Stepper]:
    """Return what makes the stepper that a plan's method names, from the slices of a lane."""
    if plan.method.stepper == "program":
        tables, probes = make_tables(plan)
        return partial(ProgramStepper, tables=tables, probes=probes)
    return _STEPPERS[plan.method.stepper]
