"""The operations of a program: what a step does to the arrays of one slice.

`network/program.py` derives them from a network; `kernels/cpu/program` runs them.
"""

from petabatch.network.operations.base import ALWAYS, Operation, Source, When
from petabatch.network.operations.look import Look
from petabatch.network.operations.program import Program
from petabatch.network.operations.transport import (
    Carry,
    Compare,
    Copy,
    Crop,
    Exchange,
    Extend,
    Fill,
    Join,
    List,
    Scatter,
)
from petabatch.network.operations.updates import Call, Control, Drive, LazyUpdate, Update

__all__ = [
    "ALWAYS",
    "Call",
    "Carry",
    "Compare",
    "Control",
    "Copy",
    "Crop",
    "Drive",
    "Exchange",
    "Extend",
    "Fill",
    "Join",
    "LazyUpdate",
    "List",
    "Look",
    "Operation",
    "Program",
    "Scatter",
    "Source",
    "Update",
    "When",
]
