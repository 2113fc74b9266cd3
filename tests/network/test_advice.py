"""Notes on networks: what the run is too short to record."""

from __future__ import annotations

import pytest

from petabatch.network.advice import advice
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.recordings import Recording
from petabatch.spec.parts import STEP
from petabatch.spec.schedule import Every
from support.networks import images, lca_network


def notes(every: Every, displays: int) -> list[str]:
    network = lca_network(images(1, 1, (8, 8, 1)), 2, (2, 2), display=10, displays=displays, record=every)
    return list(advice(schedule(build(network))))


@pytest.mark.parametrize(("displays", "missed"), [(3, ["layers/V1/A, layers/V1/V"]), (4, [])])
def test_what_is_recorded_first_after_the_end_of_the_run_is_named(displays: int, missed: list[str]) -> None:
    found = notes(Every(4, "displays"), displays)
    assert [any(names in note for note in found) for names in missed] == [True] * len(missed)
    assert len(found) == len(missed)


def test_the_steps_of_a_run_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, due = [], Recording.due
    monkeypatch.setattr(Recording, "due", lambda one, step: asked.append(step) or due(one, step))
    assert notes(STEP, 10_000) == []
    assert len(asked) < 100
