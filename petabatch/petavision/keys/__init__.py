"""PetaVision's classes: their parameters, the defaults, and what becomes of each in petabatch.

Readers of a group (`petavision.part`) take types and defaults from here, and the reference in the
documentation is printed from it.
"""

from petabatch.petavision.keys.column import COLUMNS
from petabatch.petavision.keys.connections import CONNECTIONS
from petabatch.petavision.keys.inputs import INPUTS
from petabatch.petavision.keys.key import REQUIRED, Class, Key
from petabatch.petavision.keys.layers import LAYERS
from petabatch.petavision.keys.probes import PROBES

__all__ = ["CLASSES", "REQUIRED", "Class", "Key"]

CLASSES: dict[str, Class] = {**COLUMNS, **LAYERS, **INPUTS, **CONNECTIONS, **PROBES}
"""Classes that can be translated, by their keywords."""
