"""Base of layers with a transfer function: its parameters."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.layers.transfer import Polyline, Transfer
from petabatch.spec.model import Finite, Flag, NonNegative
from petabatch.spec.parts import Layer, Penalty


class Thresholded(Layer):
    """A layer whose activity is a function of its potential: a threshold function or a polyline."""

    threshold: Finite = 0.5
    """Units with a potential below it are inactive."""
    transfer: Literal["soft", "hard", "firm"] = "soft"
    """Transfer function above the threshold. `soft`: A = V - threshold. `hard`: A = V. `firm`: linear from 0
    at threshold to V at threshold + width, then A = V."""
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

    def quiet_at(self, potential: float) -> bool:
        """Return whether the activity at a potential is 0."""
        activity = np.ones(1)
        self.curve(np.full(1, potential), activity, np)
        return bool(activity[0] == 0)

    @property
    def minimised(self) -> Penalty | None:
        """The penalty that an LCA with this transfer function minimises (Rozell et al. 2008)."""
        plain = (
            self.vertices is None and self.shift is None and self.minimum == 0 and self.maximum == math.inf
        )
        if not plain:
            return None
        if self.transfer == "hard":
            return Penalty("l0", self.threshold**2 / 2)
        return Penalty("l1" if self.transfer == "soft" else "firm", self.threshold)

    @property
    def curve(self) -> Transfer | Polyline:
        """The transfer function."""
        if self.vertices is not None:
            return Polyline(self.vertices, self.slopes)
        shift = self.shift
        if shift is None:
            shift = self.threshold if self.transfer == "soft" else 0.0
        width = self.width if self.transfer == "firm" else 0.0
        return Transfer(self.threshold, shift, width, self.minimum, self.maximum, self.signed)
