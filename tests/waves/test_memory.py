"""Memory of waves: that of one of them, however many there are."""

from __future__ import annotations

import weakref
from pathlib import Path
from typing import Any

import pytest

import petabatch
from petabatch import simulation
from petabatch.engine.engine import Engine
from support.commands import write_small


def test_engines_of_waves_that_are_done_are_collected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write_small(tmp_path)
    given = ["connections.dictionary.learn.every='never'", "run.displays=1"]
    loaded = simulation.read(file, given)
    points = {"layers.V1.threshold": [0.2 + 0.01 * number for number in range(12)]}
    made, init = list[weakref.ref[Engine]](), Engine.__init__

    def noted(self: Engine, *arguments: Any) -> None:
        made.append(weakref.ref(self))
        init(self, *arguments)

    monkeypatch.setattr(Engine, "__init__", noted)
    most = 0
    for _ in petabatch.sweep(loaded, points, wave=1, threads=1):
        most = max(most, sum(one() is not None for one in made))
    assert len(made) == 12
    assert most <= 2
