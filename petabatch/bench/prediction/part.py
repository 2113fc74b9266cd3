"""One of several ranks that share the features of all slices, without the others."""

from __future__ import annotations

from petabatch.engine.split import Split
from petabatch.network.plan import Plan
from petabatch.parallel.comm import Serial


class _First(Serial):
    """The first rank of a group whose others are silent."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size


def first_part(whole: Plan) -> Split:
    """Return the part of the features that the first rank has."""
    return Split(whole, _First(whole.graph.network.parallel.features))
