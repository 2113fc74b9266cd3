"""Types of layers as plug-ins have them: an interpreted one."""

from __future__ import annotations

from typing import Any, Literal

from petabatch.spec.parts import StepContext
from petabatch.variable import Array
from support.row_functions import Adaptive


class Tilted(Adaptive):
    """The neurons of `Adaptive`, with an update for arrays alone."""

    type: Literal["tilted"] = "tilted"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        super().update(ctx, state, drive, previous, activity)
