"""The last finite state of slices that may stop: for each array of a slice one that it is copied to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from petabatch.variable import Variable

NAME = "last_finite"
"""The first part of the keys of the copies."""
PENDING = "pending"
"""What is on its way over synapses: as large as all else of a small network with delays, and nothing that a
slice which stops still needs. It is cleared."""
STEP = f"{NAME}/step"
"""The key of the step whose state they are."""


def variables(state: Mapping[str, Variable]) -> dict[str, Variable]:
    """Declare the copies of the arrays of a slice that checkpoints hold, by key."""
    found = {f"{NAME}/{key}": replace(one, checkpoint=False) for key, one in state.items() if is_kept(one)}
    text = "step of the last finite state"
    return {**found, STEP: Variable("step", (), (), text, dtype="int64", checkpoint=False)}


def copies(keys: Iterable[str]) -> set[str]:
    """Return the keys among these of the copies and of their step."""
    return {key for key in keys if key.startswith(f"{NAME}/")}


def is_kept(variable: Variable) -> bool:
    """Return whether a variable is part of the state of a slice, and not only on its way."""
    return variable.per == "slice" and variable.checkpoint and variable.name != PENDING
