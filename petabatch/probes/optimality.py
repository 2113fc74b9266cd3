"""How far a code is from the optimum: the certificate that needs no other solver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from petabatch.probes.energy import sums
from petabatch.spec.model import Flag, Positive
from petabatch.spec.parts import Probe, Reading
from petabatch.variable import Array


class Optimality(Probe):
    """Bounds on the distance from the minimum of E = 0.5 |image - reconstruction|^2 + coefficient |A|_1.

    With r = image - reconstruction, both of the same activity A, and g = dictionary^T r:

    - `kkt` is the largest violation of the optimality conditions: |g - coefficient sign A| where a unit is
      active, what |g| has beyond the coefficient where it is silent (g alone for codes that are not signed);
    - `gap` is E minus the value of the dual problem at theta = r min(1, coefficient / max |g|), which is
      theta . image - 0.5 |theta|^2. E is never further than this above its minimum (to rounding).

    Both are infinite for a negative activity where codes are not signed, and mean nothing for thresholds
    that are not soft. `reconstruction` must be the dictionary's alone, and `drive` its transpose.
    """

    type: Literal["optimality"] = "optimality"
    image: str
    """Layer that is coded."""
    reconstruction: str
    """Layer that holds dictionary A of the same step."""
    code: str
    """Layer whose activity is the code."""
    drive: str
    """Connection that carries a residual to the code: the transpose of the dictionary."""
    coefficient: Positive
    """Lambda: the threshold of the code."""
    signed: Flag = False
    """The code may be negative."""

    def layers(self) -> Sequence[str]:
        """Name the three layers."""
        return (self.image, self.reconstruction, self.code)

    def connections(self) -> Sequence[str]:
        """Name the connection."""
        return (self.drive,)

    def quantities(self) -> Mapping[str, str]:
        """Name the energy and its certificates."""
        return {
            "energy": "half the squared residual plus coefficient times the absolute activity, of one step",
            "kkt": "largest violation of the optimality conditions, in the unit of the coefficient",
            "gap": "duality gap: the energy is at most this much above its minimum",
            "relative_gap": "duality gap over the energy",
        }

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return the energy and its certificates, each `[lanes]`."""
        code, image = read(self.code, "A"), read(self.image, "A")
        residual = image - read(self.reconstruction, "A")
        slope = read.through(self.drive, residual).astype(float)
        steep = xp.abs(slope) if self.signed else slope
        active = xp.abs(slope - self.coefficient * xp.sign(code))
        kkt = _largest(xp.where(code != 0, active, xp.maximum(steep - self.coefficient, 0)))

        shrink = self.coefficient / xp.maximum(_largest(steep), self.coefficient)
        squares = sums(xp.square(residual, dtype=float))
        energy = 0.5 * squares + self.coefficient * sums(xp.abs(code))
        dual = shrink * sums(xp.multiply(residual, image, dtype=float)) - 0.5 * shrink**2 * squares
        possible = xp.full(len(code), True) if self.signed else ~(code < 0).reshape(len(code), -1).any(axis=1)
        gap = xp.where(possible, energy - dual, xp.inf)
        relative = gap / xp.maximum(energy, xp.finfo(float).tiny)
        return {
            "energy": energy,
            "kkt": xp.where(possible, kkt, xp.inf),
            "gap": gap,
            "relative_gap": relative,
        }


def _largest(values: Array) -> Array:
    """Return the largest value of each lane, `[lanes]`."""
    return values.reshape(len(values), -1).max(axis=1)
