"""Base of layers with a transfer function: its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.kernels.transfer import TRANSFERS, Curve, Penalty, Polyline, Transfer, minimised
from petabatch.spec.model import Finite, Flag, NonNegative
from petabatch.spec.parts import Layer


class Thresholded(Layer):
    """A layer whose activity is a function of its potential: a threshold function or a polyline."""

    threshold: Finite = 0.5
    """Units with a potential below it are inactive."""
    transfer: Transfer = Field("soft", description=f"Transfer function above the threshold. {TRANSFERS}")
    width: NonNegative = 0.0
    """Width of the linear section of the firm threshold."""
    shift: Finite | None = None
    """Amount subtracted from potentials above the threshold (AShift); by default `threshold` for `soft`, 0
    for `hard` and `firm`."""
    signed: Flag = False
    """Allow negative activities, with an odd transfer function T(-V) = -T(V)."""
    minimum: Finite = 0.0
    """Activity below the threshold (AMin)."""
    maximum: float = math.inf
    """Upper bound of the activity (AMax)."""
    vertices: tuple[tuple[Finite, Finite], ...] | None = None
    """Vertices (V, A) of a piecewise linear transfer function, in place of the keys above. V must not
    decrease; of two vertices at the same V, the later one holds there."""
    slopes: tuple[Finite, Finite] = (0.0, 1.0)
    """Slopes of the polyline before the first vertex and after the last."""

    @model_validator(mode="after")
    def _vertices_rise(self) -> Thresholded:
        corners = [v for v, _ in self.vertices or ()]
        if self.vertices is not None and (not corners or corners != sorted(corners)):
            raise PydanticCustomError(
                "vertices",
                "the vertices of the transfer function are not in order",
                {"got": str(list(corners)), "expected": "at least one vertex, in order of increasing V"},
            )
        if self.vertices is not None and self.signed:
            raise PydanticCustomError(
                "vertices_signed",
                "a polyline cannot be mirrored",
                {"expected": "vertices for negative potentials, and signed = false"},
            )
        return self

    @property
    def sparse(self) -> bool:
        """Whether most activities are zero: yes, as the threshold makes them."""
        return True

    @property
    def unused(self) -> Mapping[str, str]:
        """`width` and `slopes` are those of one form of the transfer function each."""
        found = {}
        if self.width and (self.transfer != "firm" or self.vertices is not None):
            found["width"] = (
                f'with transfer = "{self.transfer}"' if self.vertices is None else "with vertices"
            )
        if self.slopes != type(self).model_fields["slopes"].default and self.vertices is None:
            found["slopes"] = "without vertices"
        return found

    def activity_at(self, potential: float) -> float:
        """Return the activity at a potential."""
        activity = np.empty(1)
        self.curve.on(np.full(1, potential), activity, np)
        return float(activity[0])

    def quiet_at(self, potential: float) -> bool:
        """Return whether the activity at a potential is 0."""
        return self.activity_at(potential) == 0

    @property
    def minimised(self) -> Penalty | None:
        """The penalty that an LCA with this transfer function minimises, None where none is known."""
        plain = (
            self.vertices is None and self.shift is None and self.minimum == 0 and self.maximum == math.inf
        )
        return minimised(self.transfer, self.threshold) if plain else None

    @property
    def curve(self) -> Curve | Polyline:
        """The transfer function."""
        if self.vertices is not None:
            return Polyline.of(self.vertices, self.slopes)
        width = self.width if self.transfer == "firm" else 0.0
        return Curve.of(
            self.transfer, self.threshold, self.shift, width, self.minimum, self.maximum, self.signed
        )
