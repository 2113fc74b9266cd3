"""The last finite state of slices that may stop: for each array of a slice one that it is copied to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from petabatch.network import lazy_codes
from petabatch.variable import Variable

NAME = "last_finite"
"""The first part of the keys of the copies."""
STEP, TRACED = f"{NAME}/step", f"{NAME}/traced"
"""The keys of the step whose state they are, and of the step from which others can be made again; -1 if that
is not possible."""
_PENDING = "pending"
"""What is on its way over synapses."""


def variables(state: Mapping[str, Variable], stops: bool, traced: bool) -> dict[str, Variable]:
    """Declare copies of the arrays of a slice by key: where slices stop, and where steps are made again."""
    found = {
        f"{NAME}/{key}": replace(one, checkpoint=False)
        for key, one in state.items()
        if (stops and one.per == "slice" and one.checkpoint and not is_cleared(key))
        or (traced and is_changed(key, one))
    }
    if stops or traced:
        found[STEP] = _step("step of the last finite state", 0)
    if traced:
        found[TRACED] = _step("step of the state from which steps can be made again", -1)
    return found


def _step(text: str, initial: int) -> Variable:
    return Variable("step", (), (), text, dtype="int64", initial=initial, checkpoint=False)


def is_changed(key: str, variable: Variable) -> bool:
    """Return whether steps may change an array of a slice, where nothing learns."""
    mine = key.startswith("layers/") or key.endswith(f"/{_PENDING}")
    return variable.per == "slice" and variable.checkpoint and mine


def saved(keys: Iterable[str]) -> set[str]:
    """Return the keys among these of the copies that checkpoints hold, and of their step."""
    return {key for key in keys if key.startswith(f"{NAME}/") and key != TRACED}


def needed(copies: Iterable[str]) -> set[str]:
    """Return those of the `saved` copies with which a slice can stop; others serve to make steps again."""
    return {key for key in copies if not is_cleared(key)}


def is_cleared(key: str) -> bool:
    """Return whether an array is cleared where a slice stops, which makes no step that would need it.

    What is on its way is as large as all else of a small network with delays. Without what lazily evaluated
    codes keep beside V, the state is the same under all kernels: a run may be resumed with another one.
    """
    return key.endswith(f"/{_PENDING}") or key.startswith(f"{lazy_codes.NAME}/")
