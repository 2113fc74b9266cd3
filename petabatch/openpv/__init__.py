"""PetaVision's networks from PetaVision's numbers: what its parameters mean here, rule by rule.

`network` takes the parameters of a run of the original under its own names (see `DEFAULTS`) and returns the
same network in petabatch's terms; `simulate` runs it and returns its arrays under the original's names.
What differs between the two programs is in `docs/coming-from-petavision.md`.
"""

from petabatch.openpv.networks import network
from petabatch.openpv.parameters import DEFAULTS
from petabatch.openpv.simulate import simulate

__all__ = ["DEFAULTS", "network", "simulate"]
