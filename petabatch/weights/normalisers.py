"""Normalisers: L2 norm, L2 ball, maximum, sum, zero mean and contrast, or none."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.rounding import is_flat, relative
from petabatch.spec.model import Count, Flag, NonNegative, Positive
from petabatch.spec.weights import Normalize
from petabatch.variable import Array

_AXES = {"pre": (-3, -2, -1), "post": (-6, -5, -4, -3, -2)}
_ALL = (-6, -5, -4, -3, -2, -1)


class Unchanged(Normalize):
    """No normalisation."""

    type: Literal["none"] = "none"

    def apply(self, weights: Array, xp: Any) -> None:
        """Do nothing."""


class Unitwise(Normalize):
    """The base of normalisers that treat each unit, in each slice, independently."""

    by: Literal["pre", "post"] = "pre"
    """What is normalised as one unit: `pre`, the patch of one pre feature (a dictionary atom), or `post`, all
    weights onto one post feature."""

    @property
    def featurewise(self) -> bool:
        """Whether each pre feature is normalised independently."""
        return self.by == "pre"

    @model_validator(mode="after")
    def _together_by_patch(self) -> Unitwise:
        if self.together and self.by == "post":
            raise PydanticCustomError(
                "together",
                "connections are normalised together patch by patch",
                {"got": 'by = "post"', "expected": 'by = "pre" with `together`'},
            )
        return self

    @property
    def axes(self) -> tuple[int, ...]:
        """The axes of one unit."""
        return _AXES[self.by]


class Scaling(Unitwise):
    """W = strength W / size(W) for each unit; units of size zero are left unchanged."""

    strength: Positive = 1.0
    """Size of each unit after normalisation."""

    @abstractmethod
    def size(self, weights: Array, xp: Any) -> Array:
        """Return the size of each unit in float64; the axes of a unit have length 1."""

    def apply(self, weights: Array, xp: Any) -> None:
        """Normalise in place."""
        size = self.size(weights, xp)
        weights *= (self.strength / xp.where(size != 0, size, self.strength)).astype(weights.dtype)


class Trimmed(Scaling):
    """A scaling before which weights can be set to 0: in the middle of patches, below 0, or small ones.

    They are set in this order. Source: PetaVision's `NormalizeMultiply.cpp:130-198`.
    """

    hole: tuple[Count, Count] | None = None
    """Rows and columns in the middle of each patch that are set to 0 (rMinX, rMinY)."""
    nonnegative: Flag = False
    """Negative weights are set to 0 (nonnegativeConstraintFlag)."""
    cutoff: NonNegative = 0.0
    """Weights whose size is below this fraction of the largest of the connection are set to 0
    (normalize_cutoff)."""

    @property
    def featurewise(self) -> bool:
        """Whether each pre feature is normalised independently."""
        return super().featurewise and self.cutoff == 0

    @model_validator(mode="after")
    def _a_hole_of_one_connection(self) -> Trimmed:
        if self.together and self.hole is not None:
            more = {"got": f"hole = {list(self.hole)}", "expected": "`together` or `hole`"}
            raise PydanticCustomError("hole", "connections normalised together have no common patch", more)
        return self

    def apply(self, weights: Array, xp: Any) -> None:
        """Set weights to 0, and normalise in place."""
        if self.hole is not None:
            (y, ny), (x, nx) = (
                (max(0, n - size) // 2, min(n, size))
                for n, size in zip(weights.shape[-3:-1], self.hole, strict=True)
            )
            weights[..., y : y + ny, x : x + nx, :] = 0
        if self.nonnegative:
            xp.maximum(weights, 0, out=weights)
        if self.cutoff > 0:
            sizes = abs(weights)
            weights[sizes < self.cutoff * sizes.max(axis=_ALL, keepdims=True)] = 0
        super().apply(weights, xp)


class L2(Trimmed):
    """Unit L2 norm, as usual for a dictionary: W = strength W / sqrt(sum W^2).

    Units of norm zero are left unchanged. Source: PetaVision's `NormalizeL2.cpp:100-134`.
    """

    type: Literal["l2"] = "l2"

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the L2 norm of each unit."""
        return _l2_norm(weights, self.axes, xp)


class L2Ball(Scaling):
    """L2 norm of at most `strength`: longer units are scaled down to it, others are left unchanged.

    The constraint of Mairal et al. 2010, "Online learning for matrix factorization and sparse coding".
    """

    type: Literal["l2_ball"] = "l2_ball"
    strength: Positive = 1.0
    """Largest L2 norm of a unit."""

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the L2 norm of each unit, at least `strength`."""
        return xp.maximum(_l2_norm(weights, self.axes, xp), self.strength)


class Max(Trimmed):
    """Maximum of `strength`: W = strength W / max W.

    Units without a positive weight are left unchanged. Source: PetaVision's `NormalizeMax.cpp:99-131`.
    """

    type: Literal["max"] = "max"
    strength: Positive = 1.0
    """Largest weight of each unit after normalisation."""

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the largest weight of each unit, or 0 if none is positive."""
        return xp.maximum(weights.max(axis=self.axes, keepdims=True), 0).astype(float)


class Sum(Scaling):
    """Sum of `strength`: W = strength W / sum W.

    Units that sum to zero, up to rounding, are left unchanged. Source: PetaVision's `NormalizeSum.cpp:69`.
    """

    type: Literal["sum"] = "sum"
    strength: Positive = 1.0
    """Sum of each unit after normalisation."""

    def size(self, weights: Array, xp: Any) -> Array:
        """Return the sum of each unit, 0 where it is no larger than rounding of its weights."""
        total = weights.sum(axis=self.axes, keepdims=True, dtype=float)
        sizes = abs(weights).sum(axis=self.axes, keepdims=True, dtype=float)
        return xp.where(abs(total) <= relative(weights.dtype) * sizes, 0.0, total)


class ContrastZeroMean(Unitwise):
    """Zero mean and fixed contrast: W = strength (W - mean) / std for each unit.

    Units that are constant up to rounding are left unchanged. PetaVision
    (`NormalizeContrastZeroMean.cpp:104-178`) instead skips units whose sum is zero, and thereby those that
    are already normalised.
    """

    type: Literal["contrast_zero_mean"] = "contrast_zero_mean"
    strength: Positive = 1.0
    """Population standard deviation of each unit after normalisation."""

    def apply(self, weights: Array, xp: Any) -> None:
        """Normalise in place."""
        least, most = (one(axis=self.axes, keepdims=True) for one in (weights.min, weights.max))
        flat = is_flat(least, most, xp)
        centred = weights - weights.mean(axis=self.axes, keepdims=True, dtype=float)
        std = xp.sqrt(xp.square(centred).mean(axis=self.axes, keepdims=True))
        scale = self.strength / xp.where(flat, 1.0, std)
        weights[...] = xp.where(flat, weights, scale * centred)


def _l2_norm(weights: Array, axes: tuple[int, ...], xp: Any) -> Array:
    return xp.sqrt(xp.square(weights, dtype=float).sum(axis=axes, keepdims=True))
