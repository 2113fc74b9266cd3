"""Readers: layers without memory that nothing feeds back from, computed only where something reads them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.connections import Identity, Pool
from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program import ProgramStepper
from petabatch.kernels.cpu.program.loop import due
from petabatch.layers import Dropout, GaussianNoise, Linear, Rectified
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.probes import L2, Statistics
from petabatch.spec.network import LayerOutput, Network
from petabatch.spec.parts import DISPLAY, Connection, Layer, Probe
from petabatch.spec.schedule import Every
from support.networks import images, lca_network, simulate

STEPS = 20
"""Of a display."""


def with_readers(probes: dict[str, Probe] | None = None, record: Every | None = DISPLAY) -> Network:
    """Return a loop that learns, and what reads it: layer after layer, with a delay and a schedule."""
    base = lca_network(images(2), display=STEPS, displays=2)
    readers: dict[str, Layer] = {
        "pooled": Rectified(shape=(3, 4, 12), threshold=0.1),
        "noisy": GaussianNoise(shape=(3, 4, 12), std=0.1),
        "dropped": Dropout(shape=(3, 4, 12)),
        "rare": Linear(shape=(12, 16, 3), every=Every(3)),
        "late": Linear(shape=(12, 16, 3)),
    }
    joined: dict[str, Connection] = {
        "pool": Pool(pre="V1", post="pooled"),
        "to_noisy": Identity(pre="pooled", post="noisy"),
        "to_dropped": Identity(pre="noisy", post="dropped", delay_steps=2),
        "to_rare": Identity(pre="recon", post="rare"),
        "to_late": Identity(pre="rare", post="late", delay_steps=1),
    }
    output = base.output
    if record is not None:
        outputs = {name: LayerOutput(every=record) for name in readers}
        output = output.model_copy(update={"layers": {**output.layers, **outputs}})
    return base.model_copy(
        update={
            "layers": {**base.layers, **readers},
            "connections": {**base.connections, **joined},
            "probes": {"energy": base.probes["energy"], **(probes or {})},
            "output": output,
        }
    )


def made(network: Network, first: int, last: int) -> dict[str, int]:
    """Return in how many of the steps first+1 .. last each layer is updated."""
    engine = Engine(schedule(build(network)), Serial(), 1)
    stepper: Any = engine.lanes[0].stepper
    assert isinstance(stepper, ProgramStepper)
    updates = ("update ", "lazy update ")
    labels = enumerate(stepper.tables.labels)
    rows = {label.split()[-1]: row for row, label in labels if label.startswith(updates)}
    found = dict.fromkeys(rows, 0)
    step = first
    while step < last:
        stop = engine.plan.next_event(step, last, stepper.passed)
        for name, row in rows.items():
            found[name] += sum(
                bool(due(stepper.compiled.rows[row], n, stop)) for n in range(step + 1, stop + 1)
            )
        step = stop
    return found


def test_readers_are_computed_only_where_something_reads_them() -> None:
    counts = made(with_readers(), 0, STEPS)
    assert counts["error"] == counts["V1"] == counts["recon"] == STEPS
    assert counts["dropped"] == counts["late"] == 1
    assert counts["pooled"] == counts["noisy"] == 3  # with those that `dropped` sees two steps later
    assert counts["rare"] == 1  # it is due once in the last steps


@pytest.mark.parametrize(
    ("probe", "steps"),
    [
        (L2(layer="pooled", every=Every(10)), 6),
        (L2(layer="pooled", every=Every(1)), STEPS),
        (Statistics(layer="pooled", every=Every(10)), 6),
    ],
    ids=["seldom", "often", "in the interpreter"],
)
def test_a_measured_reader_is_computed_for_its_measurements(probe: Probe, steps: int) -> None:
    assert made(with_readers({"measured": probe}), 0, STEPS)["pooled"] == steps


def test_readers_have_the_same_bits_however_often_something_reads_them() -> None:
    probes: dict[str, Probe] = {name: L2(layer=name, every=Every(10)) for name in ("noisy", "late")}
    often: dict[str, Probe] = {name: L2(layer=name) for name in ("noisy", "late")}
    _, seldom = simulate(with_readers(probes))
    _, always = simulate(with_readers(often, Every(1)))
    for path, values in seldom.items():
        period = len(always[path]) // len(values)
        begin = (len(always[path]) - 1) % period if path.startswith("layers/") else period - 1
        np.testing.assert_array_equal(always[path][begin::period], values, err_msg=path)
    _, without = simulate(with_readers(record=None))
    for path, values in without.items():
        np.testing.assert_array_equal(seldom[path], values, err_msg=path)
