"""The kernels of all operations; importing them makes them known to `records.py`.

An operation is declared in `kernels/operations/`; its kernel is in one of the modules below, which name its
fields.
"""

from petabatch.kernels.cpu.program import (
    abreast,
    draws,
    events,
    look,
    messages,
    poisson,
    positions,
    random,
    row,
    spiking,
    synapses,
    together,
    transport,
    units,
    whole,
)
from petabatch.kernels.cpu.program.lazy import step
from petabatch.kernels.cpu.program.records import OPERATIONS, address_of_operation, name_of

__all__ = [
    "OPERATIONS",
    "abreast",
    "address_of_operation",
    "draws",
    "events",
    "look",
    "messages",
    "name_of",
    "poisson",
    "positions",
    "random",
    "row",
    "spiking",
    "step",
    "synapses",
    "together",
    "transport",
    "units",
    "whole",
]
