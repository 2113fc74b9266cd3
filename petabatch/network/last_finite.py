"""The last finite state of slices that may stop: for each array of a slice one that it is copied to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from petabatch.network import lazy_codes
from petabatch.variable import Variable

NAME = "last_finite"
"""The first part of the keys of the copies."""
STEP = f"{NAME}/step"
"""The key of the step whose state they are."""
_PENDING = "pending"
"""What is on its way over synapses."""


def variables(state: Mapping[str, Variable]) -> dict[str, Variable]:
    """Declare the copies of the arrays of a slice that checkpoints hold, by key."""
    found = {
        f"{NAME}/{key}": replace(one, checkpoint=False)
        for key, one in state.items()
        if one.per == "slice" and one.checkpoint and not is_cleared(key)
    }
    text = "step of the last finite state"
    return {**found, STEP: Variable("step", (), (), text, dtype="int64", checkpoint=False)}


def copies(keys: Iterable[str]) -> set[str]:
    """Return the keys among these of the copies and of their step."""
    return {key for key in keys if key.startswith(f"{NAME}/")}


def is_cleared(key: str) -> bool:
    """Return whether an array is cleared where a slice stops, which makes no step that would need it.

    What is on its way is as large as all else of a small network with delays. Without what lazily evaluated
    codes keep beside V, the state is the same under all kernels: a run may be resumed with another one.
    """
    return key.endswith(f"/{_PENDING}") or key.startswith(f"{lazy_codes.NAME}/")
