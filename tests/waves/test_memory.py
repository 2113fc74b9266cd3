"""Memory of waves: that of one of them, however many there are."""

from __future__ import annotations

import gc
from pathlib import Path

import petabatch
from petabatch import simulation
from petabatch.engine.engine import Engine
from support.commands import write_small


def engines() -> list[Engine]:
    """Return all engines there are, collected or not yet."""
    return [one for one in gc.get_objects() if isinstance(one, Engine)]


def test_engines_of_waves_that_are_done_are_collected(tmp_path: Path) -> None:
    file = write_small(tmp_path)
    given = ["connections.dictionary.learn.every='never'", "run.displays=1"]
    loaded = simulation.read(file, given)
    points = {"layers.V1.threshold": [0.2 + 0.01 * number for number in range(12)]}
    before = {id(one): one for one in engines()}  # of other tests; held, so that no other gets its number
    most = 0
    for _ in petabatch.sweep(loaded, points, wave=1, threads=1):
        most = max(most, sum(id(one) not in before for one in engines()))
    assert 0 < most <= 2
