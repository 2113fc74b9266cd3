"""FISTA with restart on the network of the LCA: the optimum in the fewest steps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Literal

from petabatch.layers.transfer import Transfer
from petabatch.spec.model import NonNegative, Positive
from petabatch.spec.parts import Layer, Moment
from petabatch.variable import Array, Variable

CHANGE = 4 / 3
"""|k (drive - drive before)| over |A - A before| is at most k L; accelerated steps diverge beyond 4/3."""


class FISTA(Layer):
    """Minimises 0.5 |image - dictionary A|^2 + threshold |A|_1; the drive is minus the first term's gradient.

    Beck & Teboulle 2009, with the momentum restarted where it points uphill (O'Donoghue & Candes 2015, the
    gradient scheme), each slice by itself. With x the code of the step before and x_ the one before that:

        y = x + m (x - x_),   A = soft(y + k drive(y), k threshold),   k = 1 - exp(-dt / tau)

    The drive is affine in the code, so drive(y) = drive(x) + m (drive(x) - drive(x_)): the network sees only
    A, a sparse code at every step, and stays that of the LCA.

    The step k must be at most 1 / L, L the largest eigenvalue of dictionary^T dictionary. A drive that has
    changed faster than any such step explains shows a new image, new weights or too large a step: there the
    momentum starts anew, which leaves plain ISTA, stable up to k = 2 / L.
    """

    type: Literal["fista"] = "fista"
    tau: Positive = 100.0
    """Sets the step k = 1 - exp(-dt / tau), as in the LCA; in the unit of `run.dt`."""
    threshold: NonNegative = 0.5
    """Lambda, the price of activity."""
    signed: bool = False
    """Allow negative activity."""

    def variables(self) -> Sequence[Variable]:
        """Declare the code and drive of the step before, and the momentum's age for each slice."""
        dims = ("y", "x", "feature")
        return (
            Variable("A_before", self.shape, dims, "activity of the step before the last"),
            Variable("drive_before", self.shape, dims, "drive of the step before"),
            Variable("age", (), (), "t of the momentum (t - 1) / t+", dtype="float64", initial=1.0),
        )

    def gain(self, dt: float) -> float:
        """Return the step k."""
        return -math.expm1(-dt / self.tau)

    def update(
        self,
        now: Moment,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make one accelerated proximal step."""
        xp, k = now.xp, self.gain(now.dt)
        moved, turned = previous - state["A_before"], drive[0] - state["drive_before"]
        changed = k * k * _dot(turned, turned) > CHANGE**2 * _dot(moved, moved)
        age = xp.where(changed, 1.0, state["age"])
        older = (1 + xp.sqrt(1 + 4 * age * age)) / 2
        momentum = ((age - 1) / older).astype(previous.dtype).reshape(-1, 1, 1, 1)

        start = previous + momentum * moved
        code = start + k * (drive[0] + momentum * turned)
        Transfer(k * self.threshold, k * self.threshold, signed=self.signed)(code, code, xp)

        uphill = _dot(start - code, code - previous) > 0
        state["age"][...] = xp.where(uphill, 1.0, older)
        state["A_before"][...] = previous
        state["drive_before"][...] = drive[0]
        activity[...] = code


def _dot(a: Array, b: Array) -> Array:
    """Return the scalar product of each lane, float64 `[lanes]`."""
    return (a * b).reshape(len(a), -1).sum(axis=1, dtype=float)
