"""FISTA with restart on the network of the LCA: the optimum in the fewest steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from petabatch.kernels.fista import BREAK, GROWTH
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Flag, NonNegative, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array, Variable


class FISTA(Layer):
    """Minimises 0.5 |image - dictionary A|^2 + threshold |A|_1; the drive is minus the first term's gradient.

    Beck & Teboulle 2009, with the momentum restarted where it points uphill (O'Donoghue & Candes 2015, the
    gradient scheme), each slice by itself. With x the code of the step before and x_ the one before that:

        y = x + m (x - x_),   A = soft(y + k drive(y), k threshold)

    The drive is affine in the code, so drive(y) = drive(x) + m (drive(x) - drive(x_)): the network sees only
    A, a sparse code at every step, and stays that of the LCA.

    The step k begins at `step` and grows slowly. Where |drive(x) - drive(x_)| > |x - x_| / k, the step is too
    large for the units at work, or there is a new image or new weights: k is halved; where the drive changed
    four times as fast, the momentum restarts (under a changing step it follows Scheinberg, Goldfarb & Bai
    2014). So it needs no bound on the dictionary's eigenvalues, and the few active units of a sparse code may
    take larger steps than all could. `kernels/fista.py` has this rule for one slice.
    """

    graph_safe: ClassVar[bool] = True
    type: Literal["fista"] = "fista"
    step: Positive = 0.01
    """The first step k of the run; at k above 1 / L, L the largest eigenvalue of dictionary^T dictionary, the
    energy may rise at first."""
    threshold: NonNegative = 0.5
    """Lambda, the price of activity."""
    signed: Flag = False
    """Allow negative activity."""

    def compiled_rule(self) -> CompiledRule:
        """Return the accelerated proximal step."""
        return CompiledRule(
            "accelerated",
            lambda dt, precision: (0.0, 0.0),
            self.threshold,
            self.threshold,
            signed=self.signed,
            potential="A_before",
            previous="drive_before",
            adaptive=("step", "age"),
        )

    def variables(self) -> Sequence[Variable]:
        """Declare the code and drive of the step before; for each slice the step and the momentum's age."""
        dims = ("y", "x", "feature")
        return (
            Variable("A_before", self.shape, dims, "activity of the step before the last"),
            Variable("drive_before", self.shape, dims, "drive of the step before"),
            Variable("step", (), (), "size of the step k", dtype="float64", initial=self.step),
            Variable("age", (), (), "t of the momentum (t - 1) / t+", dtype="float64", initial=1.0),
        )

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make one accelerated proximal step."""
        xp, before = ctx.xp, state["step"]
        moved, turned = previous - state["A_before"], drive[0] - state["drive_before"]
        change, limit = before**2 * _dot(turned, turned), _dot(moved, moved)
        step = before * xp.where(change > limit, 0.5, GROWTH)
        age = xp.where(change > BREAK**2 * limit, 1.0, state["age"])
        older = (1 + xp.sqrt(1 + 4 * before / step * age**2)) / 2

        momentum, k = _each((age - 1) / older, previous), _each(step, previous)
        start = previous + momentum * moved
        code = start + k * (drive[0] + momentum * turned)
        size = xp.abs(code) if self.signed else code
        shrunk = xp.maximum(size - k * previous.dtype.type(self.threshold), 0)
        code = xp.copysign(shrunk, code) * (shrunk != 0) if self.signed else shrunk

        uphill = _dot(start - code, code - previous) > 0
        state["age"][...] = xp.where(uphill, 1.0, older)
        state["step"][...] = step
        state["A_before"][...] = previous
        state["drive_before"][...] = drive[0]
        activity[...] = code


def _each(values: Array, like: Array) -> Array:
    """Return one number for each lane, ready to multiply `[lanes, ny, nx, nf]`."""
    return values.astype(like.dtype).reshape(-1, 1, 1, 1)


def _dot(a: Array, b: Array) -> Array:
    """Return the scalar product of each lane, float64 `[lanes]`."""
    return (a * b).reshape(len(a), -1).sum(axis=1, dtype=float)
