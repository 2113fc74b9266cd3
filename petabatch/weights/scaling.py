"""What most normalisers share: each unit is divided by a measure of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.model import Positive
from petabatch.spec.weights import Normalize
from petabatch.variable import Array

_AXES = {"pre": (-3, -2, -1), "post": (-6, -5, -4, -3, -2)}


class Unitwise(Normalize):
    """The base of normalisers that treat units apart, in each slice apart."""

    by: Literal["pre", "post"] = "pre"
    """A unit is the patch of one pre feature (an atom), or all that reaches one post feature."""

    @property
    def featurewise(self) -> bool:
        """Patches of pre features are treated apart."""
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
    """W = strength W / size(W) for each unit; units of size zero are left alone."""

    strength: Positive = 1.0
    """Size of each unit afterwards."""

    @abstractmethod
    def size(self, weights: Array, xp: Any) -> Array:
        """Return the size of each unit in float64, the axes of a unit having length 1."""

    def apply(self, weights: Array, xp: Any) -> None:
        """Normalise in place."""
        size = self.size(weights, xp)
        weights *= (self.strength / xp.where(size != 0, size, self.strength)).astype(weights.dtype)
