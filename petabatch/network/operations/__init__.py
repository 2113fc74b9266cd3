"""Programs, and those of their operations that are compiled in pieces, as updates of layers are.

The others are declared in `kernels/operations/`. `network/program.py` derives them from a network.
"""

from petabatch.network.operations.program import Program
from petabatch.network.operations.synapses import SynapticEvents
from petabatch.network.operations.updates import Call, Control, Deliver, Drive, LazyUpdate, Update

__all__ = ["Call", "Control", "Deliver", "Drive", "LazyUpdate", "Program", "SynapticEvents", "Update"]
