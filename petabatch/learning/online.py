"""Online learning of dictionaries: atoms that fit the statistics of all codes so far, without a rate."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from petabatch.learning.statistics import FORGETTING, Statistics
from petabatch.spec.model import Flag, NonNegative
from petabatch.spec.weights import Learning
from petabatch.variable import Array, Variable, host
from petabatch.weight_mode import over_positions

if TYPE_CHECKING:
    from petabatch.geometry import Link
    from petabatch.spec.parts import PatchOwner

_CANDIDATES = 16
"""Slices whose worst described patches may replace unused atoms in an update. Each is a row of the sums over
ranks, as an atom is."""


class Online(Learning):
    """Online dictionary learning: each atom moves to its minimum, given the statistics of all codes so far.

    The statistics are A = sum of a a^T and B = sum of a x^T, over codes a of the pre layer and patches x of
    `input`, positions, slices and updates. An update minimises 0.5 tr(D^T A D) - tr(D^T B) over one atom
    after the other, in the unit ball (Mairal, Bach, Ponce and Sapiro 2010, algorithm 2). There is no
    learning rate. Atoms that no code has used are replaced by patches that are described worst. Patches must
    not overlap: those of a layer `[1, 1, features]`, or of a `conv` whose patches are not larger than its
    stride. Codes should be near their minimum at the updates.
    """

    against_key: ClassVar[str] = "input"
    type: Literal["online"] = "online"
    input: str
    """Layer that the atoms describe, usually the image; it must have the shape of the post layer."""
    forgetting: NonNegative = FORGETTING
    """Power f of n / (n + 1), the factor on the statistics of n updates when those of another are added: the
    older, the less they count. With 0 all count alike."""
    negative: Flag = True
    """Weights may be negative."""

    @property
    def against(self) -> str | None:
        """The input layer."""
        return self.input

    @property
    def counted(self) -> bool:
        """Always false: it counts products of activities instead."""
        return False

    def check(self, owner: PatchOwner, link: Link, report: Callable[..., None]) -> None:
        """Refuse patches that overlap, and weights of each position."""
        if not over_positions(owner.mode):
            report(
                "mode",
                "the rule online learns one dictionary for all positions",
                found=f'"{owner.mode}"',
                expected='"extra_shared" or "shared"',
            )
        y, x = link.patches.y, link.patches.x
        if not link.scatter:
            report("learn", "the rule online needs a pre layer that is not finer than the post layer")
        elif y.size > y.stride or x.size > x.stride:
            report(
                "learn",
                "the rule online needs patches that do not overlap: codes of neighbours share pixels",
                found=f"patches of {y.size} x {x.size} at strides of {y.stride} x {x.stride}",
                expected="patches that are not larger than the stride",
                hint='learn = { type = "hebbian", error = ... } learns with patches that overlap',
            )
        elif y.margin or x.margin:
            report(
                "learn",
                "the rule online needs a pre layer with the border zero",
                found="a mirror or constant border",
                expected='border = "zero"',
            )
        if owner.revive is not None:
            report(
                "revive",
                "the rule online replaces atoms without use itself",
                expected="no `revive`",
            )

    def sums(self, weights: Variable) -> Sequence[Variable]:
        """Declare the products of activities, patches that are described badly, and how badly."""
        rows = _CANDIDATES if weights.per == "network" else 1
        return (
            _square(weights, "moments", "float", "products of activities"),
            replace(weights, name="worst", shape=(1, 1, rows, *weights.shape[3:]), description="patches"),
            replace(weights, name="residuals", shape=(1, 1, rows, 1, 1, 1), description="squared residuals"),
        )

    def measure(
        self,
        units: Array,
        patches: Array,
        weights: Array,
        into: Mapping[str, Array],
        update: int,
        slices: Sequence[int],
        batch: int,
        multiply: Callable[[Array, Array], Array],
    ) -> None:
        """Write them. Candidates are taken from other slices at each update, in turn."""
        moments, worst, residuals = (into[name] for name in ("moments", "worst", "residuals"))
        moments[...] = multiply(units.swapaxes(-1, -2), units).reshape(moments.shape)
        worst[...] = 0
        residuals[...] = 0
        rows = worst.shape[3]
        for lane, number in enumerate(slices):
            row = (number - update * rows) % batch if rows > 1 else 0
            if row < rows:
                own = weights[lane % len(weights)]
                squares = ((patches[lane] - multiply(units[lane], own)) ** 2).sum(axis=-1)
                place = int(squares.argmax())
                worst[lane, 0, 0, row] = patches[lane, place].reshape(worst.shape[4:])
                residuals[lane, 0, 0, row] = squares[place]

    def variables(self, weights: Variable) -> Sequence[Variable]:
        """Declare the statistics, in float64, and of how many updates they are."""
        return (
            _square(weights, "codes", "float64", "products of activities so far (A)"),
            replace(
                weights, name="images", dtype="float64", description="products of activities and input (B)"
            ),
            replace(weights, name="updates", shape=(1,) * 6, dtype="float64", description="updates so far"),
        )

    def change(
        self,
        weights: Array,
        product: Array,
        counts: Array | None,
        state: Mapping[str, Array],
        update: int,
        slices: int,
        xp: Any,
    ) -> None:
        """Apply one update in place."""
        for lane in range(len(weights)):
            one = {name: host(values[lane]) for name, values in state.items()}
            atoms = host(weights[lane])
            features, n = atoms.shape[2], float(one["updates"].reshape(()))
            moments, images = (
                values.astype(float).reshape(features, -1) for values in (one["moments"], host(product[lane]))
            )
            kept = (n / (n + 1)) ** self.forgetting
            statistics = Statistics(
                kept * one["codes"].reshape(features, -1) + moments,
                kept * one["images"].reshape(features, -1) + images,
            )
            flat = statistics.fitted(atoms.reshape(features, -1), negative=self.negative)
            if len(statistics.unused):
                flat, statistics = statistics.refreshed(
                    flat,
                    one["worst"].reshape(one["worst"].shape[2], -1),
                    one["residuals"].ravel(),
                    negative=self.negative,
                )
            weights[lane] = xp.asarray(flat.reshape(atoms.shape).astype(atoms.dtype))
            state["codes"][lane] = xp.asarray(statistics.products.reshape(one["codes"].shape))
            state["images"][lane] = xp.asarray(statistics.images.reshape(one["images"].shape))
            state["updates"][lane] = n + 1


def _square(weights: Variable, name: str, dtype: Literal["float", "float64"], what: str) -> Variable:
    """Declare an array of all pairs of features."""
    features = weights.shape[2]
    dims = (*weights.dims[:5], "other_feature")
    return replace(
        weights, name=name, shape=(1, 1, features, 1, 1, features), dims=dims, dtype=dtype, description=what
    )
