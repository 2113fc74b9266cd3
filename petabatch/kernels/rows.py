"""The form of a row function: what the update of some units of one slice is called with."""

from __future__ import annotations

from typing import Literal, NamedTuple

Draw = Literal["uniform", "normal"]
"""A distribution of random numbers: uniform in [0, 1), or normal with mean 0 and deviation 1."""

NUMBERS, BUFFERS = 32, 14
"""The most parameters, dt among them, and buffers."""
BEFORE = "A"
"""Among the variables, the activity of the step before; without it, the activity holds that at first."""


class Form(NamedTuple):
    """The arguments of a row function, by name; their values are not part of it."""

    parameters: tuple[tuple[str, str, int], ...]
    """Name, kind and length, which is 0 for a number and not for a tuple. Kinds: `float`, in the precision of
    the run, `double`, in float64, `int` and `bool`."""
    variables: tuple[str, ...]
    buffers: int
    draws: tuple[str, ...]
    timed: bool = False
    """Whether there is a parameter `t`, float64: the time at the start of the step, 0 at that of step 1."""

    @property
    def numbers(self) -> int:
        """How many numbers the parameters are."""
        return sum(max(1, length) for _, _, length in self.parameters)

    @property
    def arrays(self) -> int:
        """How many arrays there are: inputs, variables, random numbers, activity, in this order."""
        return self.buffers + len(self.variables) + len(self.draws) + 1
