"""The history of a layer: its activity in the last steps."""

from __future__ import annotations

from petabatch.variable import Array


class History:
    """A ring buffer of activities: that of step t is in place t modulo the length."""

    def __init__(self, activity: Array) -> None:
        self.length = activity.shape[1]
        self._places = [activity[:, place] for place in range(self.length)]

    def at(self, step: int) -> Array:
        """Return the activity of `step`, `[lanes, ny, nx, nf]`."""
        return self._places[step % self.length]

    def stand(self, step: int) -> None:
        """Let the activity of `step` be that of the step before."""
        if self.length > 1:
            self.at(step)[...] = self.at(step - 1)
