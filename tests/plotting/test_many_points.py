"""Sweeps of very many points: heat maps of grids, clouds of drawn points; failed points are left out."""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from petabatch import in_memory, plotting
from petabatch.errors import InputError
from petabatch.layers import Constant, Poisson
from petabatch.plotting import many_points
from petabatch.plotting.many_points import cloud, gridded, heat_map, is_log, many, unordered
from petabatch.plotting.table import as_csv
from petabatch.probes import SpikeStatistics, Statistics
from petabatch.spec.network import Network, Run
from petabatch.spec.sweep import Sweep


def drawn(**sweep: Any) -> Figure:
    """Return the figure of a sweep of a layer that holds its value, which a probe measures."""
    run = Run(batch=1, steps=1, kernel="array")
    layers = {name: Constant(shape=(1, 1, 2)) for name in ("a", "b")}
    probes = {"of_a": Statistics(layer="a")}
    network = Network(run=run, layers=layers, probes=probes, sweep=Sweep(**sweep))
    with in_memory.run(network) as found:
        figure: Figure = plotting.sweep(found, quantities=["of_a/mean"])
    return figure


def test_what_no_slice_has_is_said_in_place_of_a_figure() -> None:
    network = Network(
        run=Run(batch=1, steps=2),
        layers={"silent": Poisson(shape=(1, 1, 2), rate=0.0)},
        probes={"firing": SpikeStatistics(layer="silent", every=2)},
        sweep=Sweep(**{"run.seed": [1, 2, 3]}),
    )
    with in_memory.run(network) as found:
        assert plotting.sweep(found, quantities=["firing/rate"]).axes
        with pytest.raises(InputError, match="firing/isi is NaN in all slices"):
            plotting.sweep(found, quantities=["firing/isi"])


def test_a_large_grid_of_two_values_is_a_heat_map(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(many_points, "_CURVES", 8)
    figure = drawn(
        **{"layers.a.value": {"start": 1, "stop": 9, "count": 9}, "layers.b.value": np.arange(12.0)}
    )
    (axes,) = figure.axes
    (colours,) = axes.child_axes
    (mesh,) = axes.collections
    found = np.asarray(mesh.get_array()).reshape(9, 12)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("B value", "A value")
    assert np.array_equal(found, np.repeat(np.arange(1.0, 10.0)[:, None], 12, axis=1))
    assert colours.get_ylabel()
    assert mesh.get_cmap().name == "viridis"  # white is no value, but a failed point
    rows = [row.split(",") for row in as_csv(figure).splitlines() if ",map," in row]
    assert {(float(x), float(y)) for *_, x, y, _ in rows} == set(itertools.product(range(12), range(1, 10)))
    assert all(float(y) == float(value) for *_, y, value in rows)  # the probe measures the value of layer a


def test_many_drawn_points_are_a_cloud_with_medians() -> None:
    interval = {"low": 1.0, "high": 2.0}
    figure = drawn(draws=80, **{"layers.a.value": interval, "layers.b.value": interval})
    (axes,) = figure.axes
    dots, medians = axes.lines
    assert len(dots.get_xdata()) == 80
    assert np.allclose(medians.get_ydata(), medians.get_xdata())  # the probe measures the value on the axis
    assert not axes.get_title()


@pytest.mark.parametrize("draw", ["random", "latin_hypercube", "sobol"])
def test_few_drawn_points_are_dots_that_nothing_joins(draw: str) -> None:
    interval = {"low": 1.0, "high": 2.0}
    figure = drawn(draw=draw, draws=16, **{"layers.a.value": interval, "layers.b.value": interval})
    (dots,) = figure.axes[0].lines
    assert len(dots.get_xdata()) == 16
    assert dots.get_linestyle() == "None"
    assert not figure.axes[0].collections


def test_values_that_rise_or_fall_together_are_a_curve() -> None:
    figure = drawn(combine="zip", **{"layers.a.value": [1, 2, 4], "layers.b.value": [9, 7, 6]})
    assert [line.get_linestyle() for line in figure.axes[0].lines] == ["-"]
    assert not unordered(np.array([1.0, 2, 1, 2]), {"x": np.array([1.0, 1, 2, 2])})  # a grid


def test_few_points_are_curves() -> None:
    figure = drawn(**{"layers.a.value": [1, 2, 3], "layers.b.value": [1, 2]})
    assert len(figure.axes[0].lines) == 2


def test_a_hundred_thousand_points_take_a_second() -> None:
    x, values = np.random.default_rng(0).random((2, 100_000))
    columns = {"x": x, "y": values}
    began = time.process_time()
    assert many(x, columns)
    assert gridded(columns) is None
    axes = Figure().subplots()
    cloud(axes, x, values, "C0", is_log=False)
    assert time.process_time() - began < 5
    (dots, medians) = axes.lines
    assert len(dots.get_xdata()) == 100_000
    assert np.abs(np.asarray(medians.get_ydata()) - 0.5).max() < 0.05


def test_failed_points_are_left_out() -> None:
    axes, (x, y) = Figure().subplots(), np.meshgrid(np.arange(3.0), np.arange(2.0))
    heat_map(axes, x.ravel(), y.ravel(), np.array([1, 2, np.nan, 4, 5, 6.0]), "value")
    found = np.ma.asarray(axes.collections[0].get_array()).reshape(2, 3)
    assert found.mask.tolist() == [[False, False, True], [False] * 3]
    assert [text.get_text() for text in axes.texts] == ["White: failed points"]
    axes = Figure().subplots()
    cloud(axes, np.arange(4.0), np.array([1, np.nan, 3, 4]), "C0", is_log=False)
    assert axes.lines[0].get_xdata().tolist() == [0, 2, 3]


@pytest.mark.parametrize("low", [0.1, 1.0, -1.0])
def test_axes_of_drawn_values_are_logarithmic_where_they_were_drawn_so(low: float) -> None:
    places = np.random.default_rng(0).random(1000)
    assert not is_log(low + (100 - low) * places)
    assert low < 0 or is_log(low * (100 / low) ** places)


def test_rates_are_in_hertz_where_the_unit_of_time_is_known() -> None:
    def axes(unit: str | None) -> list[Any]:
        network = Network(
            run=Run(steps=4000, dt=0.5, unit=unit),
            layers={"fires": Poisson(shape=(1, 1, 200), rate=0.02)},
            probes={"firing": SpikeStatistics(layer="fires", every=4000)},
            sweep=Sweep(**{"layers.fires.rate": [0.02, 0.04]}),
        )
        with in_memory.run(network) as found:
            figure = plotting.sweep(found)
            return [(one.get_ylabel().replace("\n", " "), one.lines[0].get_ydata()) for one in figure.axes]

    (rate, hertz), (cv, _) = axes("ms")
    assert (rate, cv) == ("Rate of fires (Hz)", "CV of intervals of fires")
    np.testing.assert_allclose(hertz, [20, 40], rtol=0.1)
    (plain, rates), _ = axes(None)
    assert plain == "Rate of fires (per unit of dt)"
    np.testing.assert_allclose(rates, hertz / 1000)
