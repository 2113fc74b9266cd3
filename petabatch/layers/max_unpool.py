"""Un-pooling to the places of maxima."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.spec.capabilities import Capabilities
from petabatch.spec.compiled import CompiledRule
from petabatch.spec.model import Count
from petabatch.spec.parts import Layer, StepContext
from petabatch.variable import Array


class MaxUnpool(Layer):
    """A = input where the channel `place` is the largest of its window, for each feature, else 0.

    A connection of type `pool` from the smaller layer spreads its values over their windows, one of type
    `identity` from the layer that was pooled says where its maxima are. Of equal units of a window, the last
    one by rows is the maximum, as in PetaVision's TransposePoolingConn (`TransposePoolingDelivery.cpp`).
    """

    channels: ClassVar[Mapping[str, tuple[int, float]]] = {
        "exc": (0, 1.0),
        "inh": (0, -1.0),
        "place": (1, 1.0),
    }
    capabilities = Capabilities(graph_safe=True)
    type: Literal["max_unpool"] = "max_unpool"
    window: tuple[Count, Count]
    """Rows and columns of a window; windows lie side by side."""

    @model_validator(mode="after")
    def _whole_windows(self) -> MaxUnpool:
        if any(size % window for size, window in zip(self.shape[:2], self.window, strict=True)):
            more = {
                "got": f"{list(self.window)} in {list(self.shape[:2])}",
                "expected": "rows and columns that divide those of the layer",
            }
            raise PydanticCustomError("max_unpool", "windows do not cover the layer", more)
        return self

    @property
    def silent(self) -> bool:
        """Always true."""
        return True

    def compiled_rule(self) -> CompiledRule:
        """Return the same on the units of a window."""
        rows, columns = self.window
        return CompiledRule("max_unpool", {"rows": rows, "columns": columns})

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Keep the input at the maxima."""
        xp, (rows, columns), (ny, nx, nf) = ctx.xp, self.window, self.shape
        blocks = (-1, ny // rows, rows, nx // columns, columns, nf)
        values, places = (
            one.reshape(blocks).transpose(0, 1, 3, 5, 2, 4).reshape(-1, rows * columns) for one in drive
        )
        last = rows * columns - 1 - xp.argmax(places[:, ::-1], axis=1)
        kept = xp.where(xp.arange(rows * columns) == last[:, None], values, 0)
        order = (-1, ny // rows, nx // columns, nf, rows, columns)
        activity[...] = kept.reshape(order).transpose(0, 1, 4, 2, 5, 3).reshape(activity.shape)
