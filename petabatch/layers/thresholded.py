"""What layers with a transfer function have in common: its parameters."""

from __future__ import annotations

import math
from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.layers.transfer import Polyline, Transfer
from petabatch.spec.model import Finite, Flag, NonNegative
from petabatch.spec.parts import Layer


class Thresholded(Layer):
    """A layer whose activity is a function of its potential: of the threshold family, or any polyline."""

    threshold: Finite = 0.5
    """Potentials below it are silent."""
    transfer: Literal["soft", "hard", "firm"] = "soft"
    """soft: A = V - threshold; hard: A = V; firm: a line from 0 at threshold to V at threshold + width."""
    width: NonNegative = 0.0
    """Width of the line of the firm threshold."""
    shift: Finite | None = None
    """Taken off potentials above threshold (AShift); by default `threshold` for soft, 0 for hard and firm."""
    signed: Flag = False
    """Allow negative activity: the transfer function is mirrored."""
    minimum: Finite = 0.0
    """Activity below threshold."""
    maximum: float = math.inf
    """Activity is cut here."""
    vertices: tuple[tuple[Finite, Finite], ...] | None = None
    """Instead of all above: corners (V, A) of a polyline, V not falling; of two at one V the later counts."""
    slopes: tuple[Finite, Finite] = (0.0, 1.0)
    """Slopes of the polyline before its first corner and after its last."""

    @model_validator(mode="after")
    def _vertices_rise(self) -> Thresholded:
        corners = [v for v, _ in self.vertices or ()]
        if self.vertices is not None and (not corners or corners != sorted(corners)):
            raise PydanticCustomError(
                "vertices",
                "the corners of the transfer function are not in order",
                {"got": str(list(corners)), "expected": "at least one corner, V from low to high"},
            )
        if self.vertices is not None and self.signed:
            raise PydanticCustomError(
                "vertices_signed",
                "a polyline cannot be mirrored",
                {"expected": "corners for negative potentials, and signed = false"},
            )
        return self

    @property
    def curve(self) -> Transfer | Polyline:
        """The transfer function."""
        if self.vertices is not None:
            return Polyline(self.vertices, *self.slopes)
        shift = self.shift
        if shift is None:
            shift = self.threshold if self.transfer == "soft" else 0.0
        width = self.width if self.transfer == "firm" else 0.0
        return Transfer(self.threshold, shift, width, self.minimum, self.maximum, self.signed)
