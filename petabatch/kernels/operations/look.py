"""The operation that ends a display early: an evaluation of the duality gap inside the steps."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.geometry import Patches
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.fields import Doubles, Floats, Geometry, Key, Longs, Source
from petabatch.kernels.operations.weights import ReadsWeights


@dataclass(frozen=True)
class Look(ReadsWeights, Operation):
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
    padded = Key(Floats, "scratch/residual of the gap")
    """Scratch for the residual."""
    state = Key(Longs, "own/look")
    """Where the next look begins, and the step that met the target."""

    @property
    def geometry(self) -> Geometry:
        """How its patches lie."""
        return self.patches

    @property
    def panels(self) -> Floats:
        """Weights that units share."""
        return self.shared.names[0] if self.shared else ""

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"gap of {self.code}"

    @property
    def _text(self) -> str:
        return f"duality {self.label}, every {self.every} steps of a display"
