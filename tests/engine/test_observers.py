"""Slices that are recorded in one call: the bits of each are those it has alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pytest

from petabatch.connections import Identity
from petabatch.engine import observers
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.observer import Observer
from petabatch.layers import LeakyIntegrator, Poisson
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.slices import sliced
from petabatch.parallel.comm import Serial
from petabatch.probes import L0, L1, L2, PSNR, Cost, Energy, Quotient, SpikeStatistics, Statistics, Sum
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import Probe, Reading
from support.swept_units import swept

PROBES: Mapping[str, Probe] = {
    "statistics": Statistics(layer="a", above=0.3),
    "l0": L0(layer="a", above=0.3),
    "l1": L1(layer="a", mask="b"),
    "l2": L2(layer="a", mask="b"),
    "energy": Energy(error="a", code="b", coefficient=0.7, cost="firm", corner=0.4),
    "psnr": PSNR(image="a", reconstruction="b"),
    "sum": Sum(terms={"one": Cost(layer="a", norm="l1"), "other": Cost(layer="b", mask="a")}),
    "quotient": Quotient(numerator=Cost(layer="a"), denominator=Cost(layer="b", norm="l0", above=0.2)),
}


class Seen:
    """Random activities of slices, as a probe reads them: a view on a history."""

    step, dt = 1, 1.0

    def __init__(self, activities: Mapping[str, np.ndarray]) -> None:
        self.activities = activities

    def __call__(self, layer: str, variable: str) -> np.ndarray:
        return self.activities[layer]

    def own(self, variable: str) -> np.ndarray:
        raise NotImplementedError

    def through(self, connection: str, activity: np.ndarray) -> np.ndarray:
        raise NotImplementedError


@pytest.mark.parametrize("units", [1, 5, 76, 5000, 9001])
@pytest.mark.parametrize("name", PROBES)
def test_a_slice_is_measured_with_the_same_bits_whatever_others_are(name: str, units: int) -> None:
    probe = PROBES[name]
    assert probe.slicewise
    history = np.random.default_rng(units).normal(size=(2, 17, 3, 1, 1, units)).astype(np.float32)
    a, b = history[:, :, 1]
    together = probe.measure(Seen({"a": a, "b": b}), np)
    for number in range(len(a)):
        one = slice(number, number + 1)
        for quantity, values in probe.measure(Seen({"a": a[one], "b": b[one]}), np).items():
            assert values.tobytes() == together[quantity][one].tobytes(), (quantity, number)


class Largest(Probe):
    """A probe that does not say how it treats slices."""

    type: Literal["largest of all"] = "largest of all"

    def layers(self) -> Sequence[str]:
        return ("units",)

    def quantities(self) -> Mapping[str, str]:
        return {"largest": "of all slices that it is called with"}

    def measure(self, read: Reading, xp: Any) -> Mapping[str, Any]:
        values = read("units", "A")
        return {"largest": np.full(len(values), float(values.max()))}


def observed(network: Network, monkeypatch: pytest.MonkeyPatch) -> tuple[list[np.ndarray], list[int]]:
    """Return what a run records, and how many slices were recorded in each call."""
    calls: list[int] = []
    record = Observer.record

    def noted(self: Observer, step: int) -> None:
        calls.append(self.lanes.stop - self.lanes.start)
        record(self, step)

    monkeypatch.setattr(Observer, "record", noted)
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    for _ in drive(engine):
        pass
    return [one.values.copy() for one in engine.recorder.take(engine.step)], calls


def with_probes(network: Network, **probes: Probe) -> Network:
    output = Output(layers={"units": LayerOutput(variables=("A", "x"), every=10)})
    return network.model_copy(update={"probes": probes, "output": output})


def test_slices_of_a_group_are_recorded_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    network = with_probes(swept(), seen=Statistics(layer="units", every=10))
    found, calls = observed(network, monkeypatch)
    assert set(calls) == {network.batch}
    for number in range(network.batch):
        alone, _ = observed(sliced(network, number), monkeypatch)
        for mine, own in zip(found, alone, strict=True):
            assert mine[:, number].tobytes() == own[:, 0].tobytes(), number


def test_slices_whose_spikes_are_counted_are_recorded_in_one_call(monkeypatch: pytest.MonkeyPatch) -> None:
    units = LeakyIntegrator(shape=(1, 1, 20))
    network = Network(
        run=Run(batch=3, steps=120, display=60, dt=1.0),
        layers={"cells": Poisson(shape=(1, 1, 20), rate=50.0), "late": units},
        connections={"see": Identity(pre="cells", post="late")},
        probes={"firing": SpikeStatistics(layer="cells", every=30)},
    )
    found, calls = observed(network, monkeypatch)
    assert calls == [1, 1, 1, 3, 3, 3, 3]  # in step 0 one by one
    assert len(np.unique(found[0])) > 2
    monkeypatch.setattr(observers, "_UNITS", 1)
    alone, calls = observed(network, monkeypatch)
    assert set(calls) == {1}
    assert all(a.tobytes() == b.tobytes() for a, b in zip(found, alone, strict=True))


def test_calls_are_as_large_as_fits_the_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    network = with_probes(swept(), seen=Statistics(layer="units", every=10))
    whole, _ = observed(network, monkeypatch)
    monkeypatch.setattr(observers, "_UNITS", 3 * 6)
    found, calls = observed(network, monkeypatch)
    assert set(calls) == {3, 1}
    assert all(a.tobytes() == b.tobytes() for a, b in zip(whole, found, strict=True))


def test_slices_are_recorded_alone_where_probes_differ_or_do_not_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    network = with_probes(swept(), seen=Largest(every=10))
    found, calls = observed(network, monkeypatch)
    assert set(calls) == {1}
    largest = found[-1]
    assert len(np.unique(largest)) > 1
    above = {"probes.seen.above": tuple(0.1 * np.arange(7.0))}
    network = with_probes(swept(above), seen=Statistics(layer="units", every=10))
    found, calls = observed(network, monkeypatch)
    assert set(calls) == {1}
    for number in range(network.batch):
        alone, _ = observed(sliced(network, number), monkeypatch)
        for mine, own in zip(found, alone, strict=True):
            assert mine[:, number].tobytes() == own[:, 0].tobytes(), number
