"""FISTA with adaptive restart, on the same network as the LCA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar, Literal

from petabatch.kernels.fista import BREAK, GROWTH
from petabatch.kernels.transfer import Curve, Penalty, minimised, shrink_of
from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Flag, NonNegative, Positive
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import LAYER_DIMS, Array, Variable


class FISTA(Layer):
    """Accelerated proximal gradient descent on the LASSO, 0.5 |image - dictionary A|^2 + threshold |A|_1.

    FISTA (Beck & Teboulle 2009) with gradient-based adaptive restart (O'Donoghue & Candes 2015), in each
    slice independently. The input of the layer must be minus the gradient of the first term, as in the LCA's
    network. With x the code of the previous step, x_ the one before, and m the momentum coefficient:

        y = x + m (x - x_),   A = soft(y + k drive(y), k threshold)

    The drive is affine in the code, so drive(y) = drive(x) + m (drive(x) - drive(x_)): only the sparse code A
    is passed on to the network, at every step.

    The step size k starts at `step` and adapts, so that no bound on the eigenvalues of the dictionary is
    needed and sparse codes take larger steps than dense ones could. It grows by 5 % in every step in which
    the code moves, but is halved if |drive(x) - drive(x_)| > |x - x_| / k: it was too large for the active
    units, or the image or the weights have changed. If that bound is exceeded fourfold, the momentum is
    restarted as well; if fourfold in two steps in a row, k was far too large: the step starts from x_ again,
    with k = |x - x_| / |drive(x) - drive(x_)|. The momentum coefficient for a varying step size follows
    Scheinberg, Goldfarb & Bai 2014. `kernels/fista.py` has the rule for one slice.

    Its memory is the code of the previous step. After a reset the next step starts from x = 0, which an `age`
    of 0 tells it: connections may still deliver the activity. The age is negative after a step in which the
    bound was exceeded fourfold.
    """

    capabilities = Capabilities(graph_safe=True, local=True)
    diverges: ClassVar[str] = (
        "the first steps are too large for atoms of such a norm: divide the dictionary by a number that "
        "makes its norms about 1, and the threshold as well"
    )
    type: Literal["fista"] = "fista"
    step: Positive = 0.01
    """Initial step size k. It is halved in the first step, as the drive has changed from 0. Above 1 / L,
    with L the largest eigenvalue of dictionary^T dictionary, the energy may rise in the first steps."""
    threshold: NonNegative = 0.5
    """Sparsity penalty lambda."""
    signed: Flag = False
    """Allow negative activities."""

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: yes, as the threshold makes them."""
        return True

    @property
    def penalty(self) -> Penalty | None:
        """The LASSO's."""
        return minimised("soft", self.threshold)

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    @property
    def curve(self) -> Curve:
        """The transfer function whose proximal step is made."""
        return Curve.of("soft", self.threshold, signed=self.signed)

    def compiled_rule(self) -> CompiledRule:
        """Return the accelerated proximal step."""
        return CompiledRule(
            "accelerated",
            memory=True,
            curve=self.curve,
            potential="A_before",
            previous="drive_before",
            adaptive=("step", "age"),
        )

    def variables(self) -> Sequence[Variable]:
        """Declare the previous code and drive, and per slice the step size and the age of the momentum."""
        return (
            Variable("A_before", self.shape, LAYER_DIMS, "activity of the step before the previous one"),
            Variable("drive_before", self.shape, LAYER_DIMS, "drive of the previous step"),
            Variable("step", (), (), "size of the step k", dtype="float64", initial=self.step),
            Variable(
                "age",
                (),
                (),
                "t of the momentum (t - 1) / t+, or -t; 0: the code starts from 0",
                dtype="float64",
            ),
        )

    def prepare(self, state: Mapping[str, Array], activity: Array, dt: float) -> None:
        """Start from the initial activity."""
        state["age"][...] = 1

    def settle(self, state: Mapping[str, Array], code: Array, drive: Array) -> None:
        """Set the code of the step before, without momentum, and the first step size again."""
        state["A_before"][...] = code
        state["drive_before"][...] = drive
        state["step"][...] = self.step
        state["age"][...] = 1

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make one accelerated proximal step."""
        xp, before, dot = ctx.xp, state["step"], partial(_dot, ctx)
        previous = xp.where((state["age"] != 0).reshape(-1, 1, 1, 1), previous, 0)
        moved, turned = previous - state["A_before"], drive[0] - state["drive_before"]
        change, limit = before**2 * dot(turned, turned), dot(moved, moved)
        broken = change > BREAK**2 * limit
        again = broken & (state["age"] < 0) & (limit > 0)
        smaller = xp.where(again, xp.sqrt(limit / xp.where(again, change, 1)), 0.5)
        step = before * xp.where(change > limit, smaller, xp.where(limit > 0, GROWTH, 1))
        age = xp.where(broken, 1.0, abs(state["age"]))
        older = xp.where(again, 1, (1 + xp.sqrt(1 + 4 * before / step * age**2)) / 2)

        momentum = _each(xp.where(again, -1, (age - 1) / older), previous)
        k = _each(step, previous)
        start = previous + momentum * moved
        ahead = start + k * (drive[0] + momentum * turned)
        price = k * previous.dtype.type(self.threshold)
        code = shrink_of(xp.where)(ahead, price, self.curve)

        uphill = dot(start - code, code - previous) > 0
        state["age"][...] = xp.where(broken, -1, 1) * xp.where(uphill, 1.0, older)
        state["step"][...] = step
        state["A_before"][...] = previous
        state["drive_before"][...] = drive[0]
        activity[...] = code


def _each(values: Array, like: Array) -> Array:
    """Return one value per lane in a shape that broadcasts to `[lanes, ny, nx, nf]`."""
    return values.astype(like.dtype).reshape(-1, 1, 1, 1)


def _dot(ctx: StepContext, a: Array, b: Array) -> Array:
    """Return the scalar product of each lane, float64 `[lanes]`."""
    return ctx.tile.total((a * b).reshape(len(a), -1).sum(axis=1, dtype=float))
