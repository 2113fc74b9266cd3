"""The failure of a slice of a sweep: why it has stopped, and in which step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from petabatch.errors import InputError, NonFiniteError, ParamsError, PartError, PetabatchError

_NAMED = 5
"""Points that are named."""
OF_A_SLICE = (ParamsError, InputError, PartError, NonFiniteError)
"""Errors that the values or the images of a slice may cause."""


@dataclass(frozen=True)
class Failure:
    """Why a slice has stopped."""

    why: str
    step: int

    @classmethod
    def of(cls, error: PetabatchError, step: int) -> Failure:
        """Return the failure that an error causes, in `step` unless it has its own."""
        if isinstance(error, NonFiniteError) and error.variable:
            said = "is no longer finite" if error.step else "is not finite"
            since = f" since step {error.step}" if 0 < error.step < step else ""
            return cls(f"{error.variable} {said}{since}", max(step, error.step))
        return cls(" ".join(str(error).split()), error.step or step)


def note_of(points: Sequence[int]) -> str:
    """Return the line that names the points that may have caused an error."""
    if not points:
        return ""
    more = f" and {len(points) - _NAMED} more" if len(points) > _NAMED else ""
    several = "one of the points" if len(points) > 1 else "point"
    return f"\n    note:     this is {several} {', '.join(map(str, points[:_NAMED]))}{more}"
