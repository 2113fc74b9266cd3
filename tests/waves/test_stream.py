"""`petabatch.sweep`: points in memory, as they come."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory, simulation
from petabatch.errors import ArgumentError, ParamsError
from petabatch.layers import Neurons
from petabatch.waves import plan, stream
from petabatch.waves.finished import Points

FROZEN = ("connections.dictionary.learn.every='never'", "run.displays=2")
KEY = "layers.V1.threshold"


def test_points_have_the_bits_of_their_own_runs(small: Path) -> None:
    thresholds = [0.2, 0.3, 0.4]
    loaded = simulation.read(small, FROZEN)
    coming = petabatch.sweep(
        loaded, {KEY: np.array(thresholds)}, lambda one: one["layers/V1/A"][-1].mean(), wave=2
    )
    found = list(coming)
    assert [(point.number, point.values[KEY]) for point in found] == list(enumerate(thresholds))
    for point, threshold in zip(found, thresholds, strict=True):
        own = in_memory.run(simulation.read(small, [*FROZEN, f"{KEY}={threshold}"])).recorded
        assert not point.failed
        assert point.observed == own["layers/V1/A"][-1].mean()
        for path, values in point.recorded.items():
            assert np.array_equal(values, own[path]), path
        assert "probes/energy/total" in point.recorded


def test_points_come_before_the_last_one_is_made(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, count = plan.waves, 0

    def counted(*arguments: object) -> object:
        nonlocal count
        count += 1
        return made(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(plan, "waves", counted)
    coming = petabatch.sweep(simulation.read(small, FROZEN), {KEY: [0.2, 0.3, 0.4]}, wave=1)
    assert [point.number for point in islice(coming, 2)] == [0, 1]
    assert count == 2


def test_a_point_that_is_not_finite_is_not_observed(small: Path) -> None:
    points = {"connections.recon_to_error.strength": [1.0, -80.0]}
    loaded = simulation.read(small, [*FROZEN, "run.display=400"])
    sound, failed = petabatch.sweep(loaded, points, len)
    assert (sound.failed, failed.observed) == ("", None)
    assert "is no longer finite" in failed.failed


def test_what_is_no_point_is_an_error_at_once(small: Path) -> None:
    loaded = simulation.read(small, FROZEN)
    with pytest.raises(ArgumentError, match="the network has no sweep"):
        petabatch.sweep(loaded)
    with pytest.raises(ArgumentError, match="the value has the wrong type"):
        petabatch.sweep(loaded, [0.2, 0.3])  # type: ignore[arg-type]
    for key in ("wave", "threads"):
        with pytest.raises(ArgumentError, match=f"{key}: .*\n.*\n    expected: a whole number of at least 1"):
            petabatch.sweep(loaded, {KEY: [0.2]}, **{key: 0})  # type: ignore[arg-type]
    with pytest.raises(ParamsError, match="there is no layer V2"):
        petabatch.sweep(loaded, {"layers.V2.threshold": [0.2]})
    with pytest.raises(ParamsError, match="different numbers of values"):
        petabatch.sweep(loaded, {KEY: [0.2, 0.3], "layers.V1.tau": [1.0]})


def test_points_come_soon_and_then_in_larger_waves(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    made = plan.waves

    def counted(loaded: Any, points: Points, *others: Any) -> Any:
        sizes.append(len(points.numbers))
        yield from made(loaded, points, *others)

    monkeypatch.setattr(plan, "waves", counted)
    monkeypatch.setattr(stream, "_SECONDS", 60.0)  # on a busy machine points may take long
    network = petabatch.Network(
        run={"steps": 50},
        layers={"n": Neurons(shape=(1, 1, 1), equations="dv/dt = (I - v) / 5", parameters={"I": 0.0})},
    )
    currents = {"layers.n.parameters.I": np.arange(300.0)}
    first = next(petabatch.sweep(network, currents, threads=2))
    assert (first.number, sizes) == (0, [2])
    found = list(petabatch.sweep(network, currents, threads=2))
    assert [point.number for point in found] == list(range(300))
    assert sizes[1:5] == [2, 16, 128, 154]
    whole = list(petabatch.sweep(network, currents, wave=300))
    assert sizes[5:] == [300]
    for one, other in zip(found, whole, strict=True):
        assert one.values == other.values


def test_long_sweeps_show_their_progress(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    network = petabatch.Network(
        run={"steps": 50},
        layers={"n": Neurons(shape=(1, 1, 1), equations="dv/dt = (I - v) / 5", parameters={"I": 0.0})},
    )
    currents = {"layers.n.parameters.I": [1.0, 2.0, 3.0]}
    caplog.set_level("INFO")
    list(petabatch.sweep(network, currents, wave=1))
    assert "point 3 of 3" not in caplog.text
    monkeypatch.setattr(stream, "PATIENCE", 0.0)
    list(petabatch.sweep(network, currents, wave=1))
    assert caplog.text.count("point 3 of 3") == 1
