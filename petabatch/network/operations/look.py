"""The operation that ends a display early: an evaluation of the duality gap inside the steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from petabatch.geometry import Patches
from petabatch.network.operations.base import Operation, Source
from petabatch.spec.compiled import Lasso


@dataclass(frozen=True)
class Look(Operation):
    """The duality gap of a code (`out`), in steps `every` and at the end of a display."""

    lasso: Lasso
    weights: str
    """Those of the drive."""
    patches: Patches
    target: float
    """The gap at which the slice stops."""
    every: int
    display: int

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        names = (self.lasso.image, self.lasso.reconstruction, self.lasso.code)
        return tuple(Source(f"layers/{name}/A") for name in names)

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"gap of {self.lasso.code}"

    @property
    def _text(self) -> str:
        return f"duality gap of {self.lasso.code}, every {self.every} steps of a display"
