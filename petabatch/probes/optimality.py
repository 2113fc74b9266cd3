"""Optimality certificates of sparse codes: KKT violation and duality gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from petabatch.probes.energy import sums
from petabatch.spec.compiled import Lasso
from petabatch.spec.model import Flag, Positive
from petabatch.spec.parts import Penalty, Probe, Reading
from petabatch.variable import Array


class Optimality(Probe):
    """KKT violation and duality gap of the LASSO E = 0.5 |image - reconstruction|^2 + coefficient |A|_1.

    With r = image - reconstruction, for the activity A of the same step, and g = dictionary^T r:

    - `kkt` is the largest violation of the optimality conditions: |g - coefficient sign(A)| for active units,
      max(|g| - coefficient, 0) for inactive ones (g instead of |g| if codes are not signed);
    - `gap` is E minus the dual objective theta . image - 0.5 |theta|^2 at the feasible point
      theta = r min(1, coefficient / max |g|). Up to rounding, it is an upper bound on the distance of E from
      its minimum.

    Both are infinite if codes are not signed and an activity is negative, and where g has a NaN or an
    infinity. They are valid only for the soft transfer function. `reconstruction` must have no other input
    than the dictionary, and `drive` must be its transpose.
    """

    type: Literal["optimality"] = "optimality"
    image: str
    """Name of the layer that holds the image."""
    reconstruction: str
    """Name of the layer that holds the reconstruction, dictionary A, of the same step."""
    code: str
    """Name of the layer that holds the code A."""
    drive: str
    """Name of the connection from the residual to the code: the transpose of the dictionary."""
    coefficient: Positive
    """Sparsity penalty lambda: the threshold of the code layer."""
    signed: Flag = False
    """Whether the code may be negative."""

    @property
    def penalty(self) -> tuple[str, Penalty] | None:
        """The LASSO's."""
        return self.code, Penalty("l1", self.coefficient)

    def lasso(self) -> Lasso:
        """Return its objective."""
        return Lasso(self.image, self.reconstruction, self.code, self.drive, self.coefficient, self.signed)

    def layers(self) -> Sequence[str]:
        """Return the names of the three layers."""
        return (self.image, self.reconstruction, self.code)

    def connections(self) -> Sequence[str]:
        """Return the name of the connection."""
        return (self.drive,)

    def quantities(self) -> Mapping[str, str]:
        """Return the names of the energy and its certificates."""
        return {
            "energy": "half the squared residual plus coefficient times the L1 norm of the activity",
            "kkt": "largest violation of the optimality conditions, in the unit of the coefficient",
            "gap": "duality gap, an upper bound on the distance of the energy from its minimum",
            "relative_gap": "duality gap divided by the energy",
        }

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return the energy and its certificates, each `[lanes]`."""
        code, image = read(self.code, "A"), read(self.image, "A")
        residual = image - read(self.reconstruction, "A")
        slope = read.through(self.drive, residual).astype(float)
        steep = xp.abs(slope) if self.signed else slope
        active = xp.abs(slope - self.coefficient * xp.sign(code))
        kkt = _largest(xp.where(code != 0, active, xp.maximum(steep - self.coefficient, 0)))

        steepest = _largest(steep)
        shrink = self.coefficient / xp.maximum(steepest, self.coefficient)
        squares = sums(xp.square(residual, dtype=float))
        energy = 0.5 * squares + self.coefficient * sums(xp.abs(code))
        dual = shrink * sums(xp.multiply(residual, image, dtype=float)) - 0.5 * shrink**2 * squares
        possible = xp.isfinite(steepest)
        if not self.signed:
            possible &= ~(code < 0).reshape(len(code), -1).any(axis=1)
        gap = energy - dual
        bounded = possible & xp.isfinite(gap)
        return {
            "energy": energy,
            "kkt": xp.where(possible, kkt, xp.inf),
            "gap": xp.where(bounded, gap, xp.inf),
            "relative_gap": xp.where(bounded, gap / xp.maximum(energy, xp.finfo(float).tiny), xp.inf),
        }


def _largest(values: Array) -> Array:
    """Return the largest value of each lane, `[lanes]`."""
    return values.reshape(len(values), -1).max(axis=1)
