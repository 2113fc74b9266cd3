"""The failure of a slice of a sweep: why it has stopped, and in which step."""

from __future__ import annotations

from dataclasses import dataclass

from petabatch.errors import InputError, NonFiniteError, ParamsError, PartError, PetabatchError

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
