"""The step size and momentum of FISTA: plain Python, which the CPU kernels compile.

`layers/fista.py` explains the method and has the same formulas over slices; `cuda/accelerated.cu` has them
with these constants.
"""

from __future__ import annotations

import math

GROWTH = 1.05
"""Factor on the step size after each step that was not too large."""
BREAK = 4.0
"""A step this many times too large is a break: the image or the weights are new, or all is far off."""


def step_size(step: float, age: float, moved: float, turned: float) -> tuple[float, float, float]:
    """Return (step size, momentum, age of the momentum) of the coming step.

    `step` and `age` are those of the step before, `moved` is the squared length by which the code moved in
    it, `turned` that by which the drive changed.
    """
    change = step**2 * turned
    following = step * (0.5 if change > moved else GROWTH)
    if change > BREAK**2 * moved:
        age = 1.0
    older = (1 + math.sqrt(1 + 4 * step / following * age**2)) / 2
    return following, (age - 1) / older, older
