"""The step size and momentum of FISTA: plain Python, which the CPU kernels compile.

`layers/fista.py` explains the method and has the same formulas over slices; `cuda/accelerated.cu` has them
with these constants.
"""

from __future__ import annotations

import math

GROWTH = 1.05
"""Factor on the step size after each step that was not too large."""
BREAK = 4.0
"""A step this many times too large is a break: the image or the weights are new, or, at the second in a row,
the step is far too large."""


def step_size(step: float, age: float, moved: float, turned: float) -> tuple[float, float, float]:
    """Return (step size, momentum, age of the momentum) of the coming step.

    `step` and `age` are those of the step before, `moved` is the squared length by which the code moved in
    it, `turned` that by which the drive changed. The age is negative after a break.
    """
    change = step**2 * turned
    broken = change > BREAK**2 * moved
    if broken and age < 0 and moved > 0:  # not a new image again: go back, with the step that bound allows
        return step * math.sqrt(moved / change), -1.0, -1.0
    growth = GROWTH if moved > 0 else 1.0  # a code at rest tells nothing of its step
    following = step * (0.5 if change > moved else growth)
    age = 1.0 if broken else abs(age)
    older = (1 + math.sqrt(1 + 4 * step / following * age**2)) / 2
    return following, (age - 1) / older, -older if broken else older
