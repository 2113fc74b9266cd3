"""Records on their way from a GPU: they arrive late, beside the steps, and none is lost or overwritten."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.gpu.download import Download
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import network, simulate
from support.networks import flush
from support.strict_arrays import far

emulated = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


def engine(**run: Any) -> Engine:
    found = Engine(schedule(build(network(device="gpu", **run))), Serial(), 1, EmulatedGpu())
    found.start()
    return found


def test_a_copy_is_on_its_way_until_it_is_waited_for_and_its_source_may_change_at_once() -> None:
    device = EmulatedGpu()
    device.enter()
    download, rows = Download(device), device.staging((5, 3), "f4")
    values, waits = far.asarray(np.zeros(3, "f4")), []
    for step in range(5):
        values[...] = float(step)
        waits.append(download.send(0, values, rows[step]))
        values[...] = -1.0
        # of two rooms each is filled again only when its copy has arrived
        assert np.isnan(rows[:, 0]).tolist() == [row > step - 2 for row in range(5)]
    for wait in waits:
        wait()
    assert rows.tolist() == [[step] * 3 for step in range(5)]


@emulated
@pytest.mark.parametrize("kernel", ["display", "array"])
def test_records_arrive_when_they_are_taken(kernel: str) -> None:
    here = engine(kernel=kernel)
    expected = simulate(network(device="gpu", kernel=kernel), EmulatedGpu())[1]
    found: dict[str, list[np.ndarray]] = {}
    late = 0
    for step in drive(here):
        late += len(here.recorder.pending) > 0
        for path, values in flush(here, step):
            found.setdefault(path, []).append(values)
    assert late, "no record was on its way when lanes met"
    for path, values in expected.items():
        assert np.concatenate(found[path]).tobytes() == values.tobytes(), path


@emulated
def test_records_on_their_way_arrive_when_a_run_is_left() -> None:
    here = engine()
    steps = drive(here)
    next(steps)
    assert here.recorder.pending
    steps.close()
    assert not here.recorder.pending
    row = here.recorder.row(0, here.step)
    here.collect()
    assert here.plan.recordings[0].key == "layers/V1/A"
    assert row.tobytes() == here.state.arrays["layers/V1/A"][:, 0].tobytes()


@emulated
def test_records_on_their_way_arrive_when_a_step_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    here = engine()
    monkeypatch.setattr(here.updates, "make", lambda step: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        list(drive(here))
    assert not here.recorder.pending
    assert np.isfinite(here.recorder.row(0, 6)).all()
