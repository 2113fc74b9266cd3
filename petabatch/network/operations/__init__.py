"""The operations of a program: what a step does to the arrays of one slice.

Most are compiled as they are declared in `kernels/operations/`; those here are made of several.
`network/program.py` derives them from a network; `kernels/cpu/program` runs them.
"""

from petabatch.kernels.operations import (
    ALWAYS,
    Carry,
    Compare,
    Copy,
    Crop,
    Exchange,
    Extend,
    Fill,
    FillDouble,
    Join,
    List,
    Look,
    Operation,
    Pool,
    Project,
    Scatter,
    Source,
    Spread,
    Synthesize,
    When,
)
from petabatch.network.operations.program import Program
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
    "FillDouble",
    "Join",
    "LazyUpdate",
    "List",
    "Look",
    "Operation",
    "Pool",
    "Program",
    "Project",
    "Scatter",
    "Source",
    "Spread",
    "Synthesize",
    "Update",
    "When",
]
