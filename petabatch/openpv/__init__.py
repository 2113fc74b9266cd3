"""Translation of PetaVision's parameters to petabatch networks.

`network` takes the parameters of a PetaVision run by their own names (see `DEFAULTS`) and returns the
equivalent petabatch network; `simulate` runs it and returns its arrays under PetaVision's names. Differences
between the two programs are listed in `docs/coming-from-petavision.md`.
"""

from petabatch.openpv.networks import network
from petabatch.openpv.parameters import DEFAULTS
from petabatch.openpv.simulate import simulate

__all__ = ["DEFAULTS", "network", "simulate"]
