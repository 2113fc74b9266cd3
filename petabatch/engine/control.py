"""Control of adaptive time scales, for steppers that do not adapt them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.engine.observer import Observer
from petabatch.engine.state import owned
from petabatch.network.plan import Plan
from petabatch.variable import Array


class TimeScaleControl:
    """Adapts the time scales of a lane's layers to their energies, step by step."""

    def __init__(
        self, plan: Plan, observer: Observer, arrays: Mapping[str, Array], follows: frozenset[str]
    ) -> None:
        """Leave out the layers of `follows`."""
        self._observer = observer
        self._controlled = [
            (layer.controller, owned(arrays, f"layers/{name}"))
            for name, layer in plan.graph.network.layers.items()
            if layer.controller is not None and name not in follows
        ]

    @property
    def needed(self) -> bool:
        """Whether steps must be made one by one."""
        return bool(self._controlled)

    def control(self, step: int, new_image: bool) -> None:
        """Set the time scales of `step`, from the energy of the step before, or -1 when an image is new."""
        for controller, state in self._controlled:
            if new_image:
                energy = np.full(len(state["time_scale"]), -1.0)
            else:
                energy = self._observer.energy(controller.energy, step - 1)
            controller.control(state, energy)
