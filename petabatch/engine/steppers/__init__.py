"""Steppers: what advances the slices of a lane from one event to the next.

`network/method.py` chooses which; `base.py` is their interface. `layers.py` is the reference.
"""

from __future__ import annotations

from collections.abc import Callable

from petabatch.engine.steppers.base import Binding, Rows, Stepper
from petabatch.engine.steppers.cuda import CudaStepper
from petabatch.engine.steppers.dense import DenseStepper
from petabatch.engine.steppers.layers import LayerStepper
from petabatch.engine.steppers.lazy import LazyStepper
from petabatch.network.method import StepperName

__all__ = ["Binding", "Rows", "Stepper", "make_stepper"]

_STEPPERS: dict[StepperName, Callable[[Binding], Stepper]] = {
    "layers": LayerStepper,
    "dense": DenseStepper,
    "lazy": LazyStepper,
    "cuda": CudaStepper,
}


def make_stepper(bound: Binding) -> Stepper:
    """Return the stepper that the plan's method names, bound to the slices of a lane."""
    return _STEPPERS[bound.plan.method.stepper](bound)
