"""What points record together while their wave is computed."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
import pytest

from petabatch.engine.recorder import Record
from petabatch.storage.point_rows import Layout
from petabatch.variable import Stream
from petabatch.waves import compute
from petabatch.waves.compute import Recorded
from petabatch.waves.finished import Points

UNIT = Stream("spikes/e/unit", (), (), "int32", False, events=True)
SLICE = Stream("spikes/e/slice", (), (), "int32", False, events=True)
SHARED = Stream("connections/d/weights", (3,), ("py",), "float32", False)
FLUSHES = 200


def test_a_flush_does_not_copy_what_was_put_before(monkeypatch: pytest.MonkeyPatch) -> None:
    copied, real = 0, np.concatenate

    def counted(parts: Any, *arguments: Any, **keys: Any) -> Any:
        nonlocal copied
        found = real(parts, *arguments, **keys)
        copied += found.nbytes
        return found

    streams = tuple(asdict(one) for one in (UNIT, SLICE, SHARED))
    layout = Layout("", ("x",), 2, streams, {SHARED.path: list(range(FLUSHES))})
    recorded = Recorded(Points(np.arange(1), ("x",), np.zeros((1, 1))), layout)
    monkeypatch.setattr(compute.np, "concatenate", counted)
    for step in range(FLUSHES):
        steps = np.array([step, step])
        parts = [Record(one, steps, np.array([0, 1], one.dtype)) for one in (UNIT, SLICE)]
        parts.append(Record(SHARED, steps[:1], np.full((1, 3), step, "float32")))
        recorded.put(parts, step, step)
    recorded.end({})
    whole, common = recorded.rows.events["spikes/e"], recorded.rows.common[SHARED.path]
    assert whole["step"].tolist() == np.repeat(np.arange(FLUSHES), 2).tolist()
    assert common[:, 0].tolist() == list(range(FLUSHES))
    assert copied <= 2 * (whole.nbytes + common.nbytes)
