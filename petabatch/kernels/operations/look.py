"""The operation that ends a display early: an evaluation of the duality gap inside the steps."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.geometry import Patches
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.fields import Doubles, Floats, Geometry, Longs, Source
from petabatch.kernels.operations.weights import Weights


@dataclass(frozen=True)
class Look(Operation):
    """The duality gap of a code (`out`), in steps `every` and at the end of a display."""

    out: Doubles
    image: Source
    reconstruction: Source
    code: Source
    coefficient: float
    """Of the LASSO."""
    signed: bool
    weights: str
    """Those of the drive."""
    patches: Patches
    target: float
    """The gap at which the slice stops."""
    every: int
    display: int

    @property
    def geometry(self) -> Geometry:
        """How its patches lie."""
        return self.patches

    @property
    def shared(self) -> Weights | None:
        """The weights in reading order; None where each unit has its own."""
        return Weights(self.weights, self.patches) if self.patches.shared else None

    @property
    def panels(self) -> Floats:
        """Weights that units share."""
        return self.shared.names[0] if self.shared else ""

    @property
    def own(self) -> Floats:
        """The patches of each unit, where it has its own."""
        return "" if self.patches.shared else self.weights

    @property
    def padded(self) -> Floats:
        """Scratch for the residual."""
        return "scratch/residual of the gap"

    @property
    def state(self) -> Longs:
        """Where the next look begins, and the step that met the target."""
        return "own/look"

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"gap of {self.code}"

    @property
    def _text(self) -> str:
        return f"duality {self.label}, every {self.every} steps of a display"
