"""The operations of a step, declared: what each does, reads and writes, under the names that kernels use.

To add one: its dataclass here and in `COMPILED`, and its kernel in `kernels/cpu/program/`, which names the
fields. The layout of the record, how it is written and read, and what profiles and `check` print follow.

    fields      what a field of a type is in a record
    base        when an operation is made, what it reads and writes
    transport   copies, padding, what ranks exchange        patches, weights   what patches deliver
    synapses    what single synapses deliver                updates            pieces of updates of layers
    look        the duality gap
"""

from petabatch.kernels.operations.base import ALWAYS, Operation, When
from petabatch.kernels.operations.fields import Source, encoded, fields_of
from petabatch.kernels.operations.look import Look
from petabatch.kernels.operations.patches import Carry, Pool, Project, Spread, Synthesize
from petabatch.kernels.operations.synapses import List, Scatter
from petabatch.kernels.operations.transport import (
    Compare,
    Copy,
    Crop,
    Exchange,
    Extend,
    Fill,
    FillDouble,
    Join,
)
from petabatch.kernels.operations.updates import (
    Accelerate,
    Bins,
    CountEvents,
    Draw,
    Drop,
    Events,
    FollowEnergy,
    LazyDrive,
    Measure,
    Noise,
    Polyline,
    Rescale,
    RunRow,
    Shots,
    Spike,
    Unpool,
    UpdateLazily,
    UpdateUnits,
)

__all__ = [
    "ALWAYS",
    "Accelerate",
    "Bins",
    "Carry",
    "Compare",
    "Copy",
    "CountEvents",
    "Crop",
    "Draw",
    "Drop",
    "Events",
    "Exchange",
    "Extend",
    "Fill",
    "FillDouble",
    "FollowEnergy",
    "Join",
    "LazyDrive",
    "List",
    "Look",
    "Measure",
    "Noise",
    "Operation",
    "Polyline",
    "Pool",
    "Project",
    "Rescale",
    "RunRow",
    "Scatter",
    "Shots",
    "Source",
    "Spike",
    "Spread",
    "Synthesize",
    "Unpool",
    "UpdateLazily",
    "UpdateUnits",
    "When",
    "encoded",
    "fields_of",
]
