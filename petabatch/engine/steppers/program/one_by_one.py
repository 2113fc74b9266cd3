"""The update of slices one by one: made where that of several at once has raised an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from petabatch.engine.backend import Operation
from petabatch.engine.steppers.base import Stepper
from petabatch.engine.steppers.failing import Fails
from petabatch.errors import PetabatchError
from petabatch.spec.parts import StepContext
from petabatch.variable import Array


class OneByOne:
    """Slices that fail alone, with what they were before an update."""

    def __init__(
        self,
        steppers: Sequence[Stepper],
        arrays: Mapping[str, Array],
        update: Callable[[int, Fails], Operation],
    ) -> None:
        """Take the arrays that an update changes, by key, and what makes that of the slice in a place."""
        # Of an activity of several steps an update writes that of its own step alone.
        changed = [a for key, a in arrays.items() if not (key.endswith("/A") and a.shape[1] > 1)]
        self._before = [(array, array.copy()) for array in changed]
        self._steppers, self._update = steppers, update
        self._updates: Sequence[Operation] = ()
        self._failed = False

    def keep(self) -> None:
        """Keep what the arrays hold before an update."""
        for array, before in self._before:
            before[...] = array

    def make(self, ctx: StepContext, error: PetabatchError) -> None:
        """Make the updates from what was kept; raises the `error` of all if no slice has one alone."""
        for array, before in self._before:
            array[...] = before
        self._updates = self._updates or [
            self._update(place, self._fails(one)) for place, one in enumerate(self._steppers)
        ]
        self._failed = False
        for number, update in zip(ctx.slices, self._updates, strict=True):
            update(replace(ctx, slices=(number,)))
        if not self._failed:
            raise error

    def _fails(self, stepper: Stepper) -> Fails:
        def fails(error: PetabatchError, step: int) -> None:
            self._failed = True
            stepper.fail(error, step)

        return fails
