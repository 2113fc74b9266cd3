"""Types that stand for those of plug-ins: an interpreted layer, and films in memory."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from petabatch.sources.gallery import Gallery
from petabatch.sources.view import View
from petabatch.spec.parts import StepContext
from petabatch.variable import Array
from support.row_functions import Adaptive


class Tilted(Adaptive):
    """The neurons of `Adaptive`, with an update for arrays alone."""

    type: Literal["tilted"] = "tilted"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        super().update(ctx, state, drive, previous, activity)


class Reels(View):
    """Films handed over in Python: a tuple of arrays `[frames, ny, nx, nf]`."""

    type: Literal["reels"] = "reels"
    data: Any

    def gallery(self) -> Gallery:
        frames = np.concatenate(self.data)
        return Gallery(
            [frames.shape[1:]] * len(frames),
            lambda number, rows, columns: frames[number, rows, columns],
            lambda number: f"frame {number}",
            [len(film) for film in self.data],
        )
