"""The plan: periods that are derived where the params file names none."""

from __future__ import annotations

import pytest

from petabatch.network.build import build
from petabatch.network.plan import schedule
from support.networks import images, lca_network


@pytest.mark.parametrize(("display", "flush"), [(1, 1000), (10, 1000), (30, 1500)])
def test_very_short_displays_are_flushed_as_often_as_checkpoints_are_saved(display: int, flush: int) -> None:
    """Each flush writes a file, which has to be merged later."""
    plan = schedule(build(lca_network(images(1, 1, (8, 8, 1)), features=2, patch=(2, 2), display=display)))
    assert (plan.flush, plan.checkpoint) == (flush, flush)
