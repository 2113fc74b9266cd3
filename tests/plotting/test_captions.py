"""What figures say: numbers at axes, captions, defaults and the colours of maps."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib.figure import Figure

import petabatch
from petabatch import in_memory, plotting
from petabatch.errors import InputError
from petabatch.layers import Constant
from petabatch.plotting.activity import Units, most_varied
from petabatch.plotting.curves import Curve, curve, draw_curves, meaning
from petabatch.plotting.figures import bars_by_rank, colour_bar, plain
from petabatch.plotting.receptive_fields import _examples
from petabatch.plotting.select import psnr, quality
from petabatch.plotting.texts import described, wrapped
from petabatch.plotting.tiles import mosaic
from petabatch.plotting.words import TimeAxis, in_figures
from petabatch.probes import Statistics
from petabatch.report.dead_features import dead_features
from petabatch.report.information import describe
from petabatch.report.page.lead import lead
from petabatch.results import Results
from petabatch.results.use import use_of
from petabatch.spec.network import Network, Run
from petabatch.spec.sweep import Sweep
from support.pictures import four_corners

mpl.use("agg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return four_corners(tmp_path_factory.mktemp("captions"))


@pytest.fixture
def run(folder: Path) -> Iterator[Results]:
    with petabatch.open(folder) as found:
        yield found


@pytest.fixture(scope="module")
def spikes() -> Iterator[Results]:
    """A run of 200 spiking units, of which the potential and the spikes were recorded."""
    network = petabatch.Network(
        run={"batch": 1, "steps": 300, "dt": 0.5, "kernel": "array"},
        layers={
            "drive": {"type": "constant", "shape": (1, 1, 200), "value": 5.0},
            "cells": {"type": "conductance_lif", "shape": (1, 1, 200)},
        },
        connections={"current": {"type": "identity", "pre": "drive", "post": "cells"}},
        output={"layers": {"cells": {"variables": ["A", "V"], "every": 1}}},
    )
    with in_memory.run(network) as found:
        yield found


def swept(**sweep: Any) -> Results:
    layers = {name: Constant(shape=(1, 1, 2)) for name in ("a", "b")}
    probes = {"of_b": Statistics(layer="b")}
    run = Run(batch=1, steps=1, kernel="array")
    return in_memory.run(Network(run=run, layers=layers, probes=probes, sweep=Sweep(**sweep)))


def title(figure: Any) -> str:
    return str(figure.get_suptitle()).replace("\n", " ")


@pytest.mark.parametrize("given", ["mV of neuron", "after learning"])
def test_a_title_that_is_given_stays_as_it_is(run: Results, given: str) -> None:
    for draw in (plotting.energy, plotting.dictionary, plotting.code):
        assert title(draw(run, title=given)) == given


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.25, "0.25"), (-3, "−3"), (1e-6, "10⁻⁶"), (-2.5e-10, "−2.5 × 10⁻¹⁰"), (1.2e8, "1.2 × 10⁸")],
)
def test_numbers_are_written_as_in_print(value: float, text: str) -> None:
    assert plain(value) == text


def test_no_text_ends_with_a_line_of_a_single_word_if_its_lines_can_be_alike() -> None:
    text = "Spikes of layers exc and inh, the 1,000 most active of 4,000 units, slice 0, the last of all"
    letters = 72 / (0.55 * 9)  # in an inch of this font
    first, last = wrapped(text, (len(text) - 1) / letters, 9).split("\n")
    assert f"{first} {last}" == text
    assert abs(len(first) - len(last)) < 12
    assert wrapped(text, len(text) / letters, 9) == text
    assert wrapped("reconstruction of", 15 / letters, 9) == "reconstruction\nof"  # no word is broken
    assert wrapped("Mean rate (per step)", 15 / letters, 9) == "Mean rate\n(per step)"
    long = wrapped(text, 0.6 * len(text) / letters, 9)
    assert [len(line) for line in long.split("\n")] == [54, 37]  # the last line is long enough


def test_few_features_have_their_numbers_below_the_bars_and_many_their_ranks(run: Results) -> None:
    figure = plotting.dictionary(run)
    bars = figure.axes[1]
    above = [text.get_text() for text in figure.axes[0].texts]
    assert [label.get_text() for label in bars.get_xticklabels()] == above
    assert bars.get_xlabel() == "Feature"
    axes = Figure().subplots()
    bars_by_rank(axes, np.arange(40.0), [str(each) for each in range(40)])
    assert axes.get_xlabel() == "Rank of the feature by use"
    assert [round(bar.get_x() + bar.get_width() / 2) for bar in axes.patches][:2] == [1, 2]


def test_a_flat_image_is_neither_exact_nor_thousands_of_decibels() -> None:
    flat, other = np.ones((2, 2)), np.zeros((2, 2))
    assert (quality(psnr(flat, other)), quality(psnr(flat, flat))) == ("flat input, no PSNR", "exact")
    assert quality(20.0) == "PSNR 20.0 dB"
    found = in_figures("probes/quality/psnr", np.array([30.0, -3067.0, 3067.0]))
    np.testing.assert_array_equal(found, [30, -np.inf, np.inf])


def test_a_colour_bar_is_as_high_as_its_map() -> None:
    figure = Figure(figsize=(3.5, 5), layout="constrained")
    axes = figure.subplots()
    colour_bar(axes, axes.imshow(np.arange(6.0).reshape(2, 3)), "value")
    figure.draw_without_rendering()
    (bar,) = axes.child_axes
    drawn, beside = axes.get_window_extent(), bar.get_window_extent()
    assert (beside.y0, beside.y1) == pytest.approx((drawn.y0, drawn.y1))
    assert beside.x0 - drawn.x1 == pytest.approx(0.1 * figure.dpi)
    assert bar.get_tightbbox().x1 <= figure.bbox.x1


def test_rows_of_a_matrix_of_weights_do_not_run_into_one_another_and_few_large_weights_pale_none() -> None:
    matrix = np.full((4, 300), 0.01)
    matrix[0, 0] = 1.0
    axes = Figure().subplots()
    sys.modules["petabatch.plotting.weights"]._draw(axes, matrix, {}, (1, 1, 300))
    (image,) = axes.images
    assert image.get_interpolation() == "nearest"
    assert image.get_clim()[1] == pytest.approx(0.01)
    assert axes.child_axes[0]._colorbar.extend == "both"


def test_a_histogram_of_correlations_has_no_values_that_no_correlation_has(spikes: Results) -> None:
    histogram = plotting.correlation(spikes).axes[1]
    assert histogram.get_xlim() == pytest.approx((0.9, 1.0))  # all units do the same
    assert max(bar.get_height() for bar in histogram.patches) == 100 * 99 / 2


def test_zipped_values_are_drawn_against_the_first_of_the_sweep() -> None:
    values = {"layers.b.value": [1.0, 2.0, 3.0], "layers.a.value": [5.0, 6.0, 7.0]}
    with swept(combine="zip", **values) as run:
        assert list(run.differing) == ["b_value", "a_value"]
        figure = plotting.sweep(run, quantities=["of_b/mean"])
    (axes,) = figure.axes
    assert axes.get_xlabel() == "B value"
    assert axes.lines[0].get_xdata().tolist() == [1, 2, 3]
    assert title(figure) == "Sweep of b value; a value follows b value"
    with swept(**values) as run:
        assert title(plotting.sweep(run, quantities=["of_b/mean"])) == "Sweep of b value and a value"


def test_spikes_are_no_coordinate_of_a_phase_portrait_by_default(spikes: Results) -> None:
    with pytest.raises(InputError, match="there are no two variables"):
        plotting.phase(spikes)
    assert plotting.phase(spikes, variables=["cells/V", "cells/A"]).axes


def test_units_are_chosen_of_which_all_variables_change() -> None:
    series, steps = SimpleNamespace(), np.arange(4)
    lively = np.array([[0, 9, 1], [0, -9, 2], [0, 9, 1], [0, -9, 2]], float)
    active = np.array([[0, 0, 1], [0, 0, 2], [0, 0, 3], [0, 0, 4]], float)
    both = [Units(series, steps, each, np.arange(3), 3) for each in (lively, active)]  # type: ignore[arg-type]
    assert most_varied(both, 1).tolist() == [2]
    assert most_varied(both[:1], 1).tolist() == [1]
    assert most_varied(both, 2).tolist() == [1, 2]


def test_rates_say_which_units_and_bins_they_are(spikes: Results) -> None:
    figure = plotting.raster(spikes, count=50, unit="ms")
    said = [text.get_text().replace("\n", " ") for text in figure.axes[1].texts]
    assert said == ["Rates: means over all 200 units in bins of 1 ms"]
    assert len(figure.axes[0].lines[0].get_xdata()) == 150
    assert not plotting.raster(spikes, times=100, unit="ms").axes[1].texts
    both = plotting.raster(spikes, layers=["cells", "cells"], count=50, unit="ms").axes[1]
    assert [text.get_text() for text in both.texts] == [
        "Rates: means over all units of a layer in bins of 1 ms"
    ]


def test_ticks_are_at_whole_displays() -> None:
    for label in ("Display", "Step"):
        axes = Figure().subplots()
        axes.plot([1, 3], [0, 1])
        TimeAxis(1.0, label, "", 1.0).label_axis(axes)
        assert all(float(tick).is_integer() for tick in axes.get_xticks())
    TimeAxis(1.0, "Time (ms)", "", 1.0).label_axis(axes := Figure().subplots())
    axes.plot([1, 3], [0, 1])
    assert not all(float(tick).is_integer() for tick in axes.get_xticks())


def test_numbers_above_tiles_do_not_touch() -> None:
    laid = mosaic(np.zeros((1000, 8, 8, 1)), 40, 7.0, 3)
    step = 7.0 * 72 / 40
    assert 0 < 3 * 0.62 * laid.font < 0.8 * step


def test_captions_say_how_many_are_shown_and_what_is_pale(
    run: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert title(plotting.reconstructions(run)).startswith("Reconstructions, display 2; below errors")
    assert "pale" not in title(plotting.features(run))  # no patch reaches beyond the image
    beyond = np.full((4, 4, 3), np.nan)
    beyond[0] = 1
    monkeypatch.setattr(sys.modules["petabatch.plotting.features"], "cut", lambda *_: beyond)
    assert title(plotting.features(run)).endswith("; pale: beyond the image")
    assert "features as they form" in title(plotting.weights_over_time(run))
    assert title(plotting.weights_over_time(run, count=2)).startswith("Dictionary: 2 of 3 features as they")


def test_examples_of_gabor_fits_fill_the_width_where_there_is_little_height() -> None:
    from petabatch.plotting.gabor import fit_gabors, mixed

    patches = np.random.default_rng(0).normal(size=(60, 6, 6, 1))
    along = mixed(patches)
    laid = _examples(patches, along, fit_gabors(along.grey), {"others": np.arange(60)}, 7.2, 0.9)
    assert 6.3 < laid["others"].inches <= 7.0
    assert laid["others"].tall <= 0.9


def test_the_report_compares_the_ends_of_the_first_and_the_last_display(run: Results) -> None:
    energy = run.probe("energy")["total"][...].mean(axis=1)
    (said,) = (line for line in lead(run) if line.startswith("Energy"))
    assert said == f"Energy: {energy[-1]:.4g} at the end, {energy[9]:.4g} at that of the first display."


def test_alternative_texts_name_colour_bars_and_do_without_a_second_axis(run: Results) -> None:
    assert described(plotting.code(run)).endswith(". Activity of V1")
    figure = plotting.energy(run, steps=True)
    assert figure.axes[0].child_axes
    assert "Energy against Display" in described(figure)


@pytest.fixture(scope="module")
def with_a_failure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Results, Results]]:
    """Three slices coded in a pool, one of which diverges; and the other two alone."""
    folder = tmp_path_factory.mktemp("failure")
    four_corners(folder)
    runs = []
    for name, strengths in (("failed", [1, -80, 1]), ("sound", [1, 1])):
        strength = f"connections.recon_to_error.strength={{slices={strengths}}}"
        settings = [
            "run.pool=true",
            f"run.batch={len(strengths)}",
            "run.display=400",
            "run.displays=1",
            strength,
        ]
        loaded = petabatch.load(folder / "net.toml", [*settings, "output.layers.V1.every=100"])
        runs.append(petabatch.run(loaded, folder / name, quiet=True))
    yield runs[0], runs[1]
    for each in runs:
        each.close()


def test_slices_that_failed_are_left_out_and_told(
    with_a_failure: tuple[Results, Results], monkeypatch: pytest.MonkeyPatch
) -> None:
    failed, whole = with_a_failure
    assert failed.failed == 1
    for name in ("total", "residual"):
        found, expected = (each.probe("energy")[name] for each in (failed, whole))
        np.testing.assert_array_equal(curve(failed, found).mean, curve(whole, expected).mean)
    (axes,) = plotting.energy(failed).axes
    assert "without 1 of 3 slices, which failed" in axes.texts[0].get_text().replace("\n", " ")
    np.testing.assert_array_equal(use_of(failed.layer("V1")), use_of(whole.layer("V1")))
    for kind in (plotting.sparsity, plotting.convergence):
        (line, *_), (expected, *_) = (kind(each).axes[0].lines for each in (failed, whole))
        np.testing.assert_array_equal(line.get_ydata(), expected.get_ydata())
    monkeypatch.setattr(sys.modules["petabatch.plotting.compare"], "_FEW", 1)
    said = [text.get_text() for text in plotting.compare(failed).legends[0].get_texts()]
    assert not any("-80" in text.replace("−", "-") for text in said)  # the slice that failed is no extreme
    assert not any("nan" in line for line in lead(failed))
    assert "total nan" not in describe(failed.path.parent)
    assert list(dead_features(failed)) == list(dead_features(whole))


def test_info_report_and_figures_count_the_same_dead_features(small: Path) -> None:
    settings = [
        "run.kernel=array",
        "run.display=2",
        "run.displays=13",  # features are active in the first three only
        'layers.V1.threshold={ at = [1, 7], values = [0.01, 4.0], by = "step" }',
        "output.layers.V1.every=display",
        'output.connections.dictionary={ variables = ["weights", "usage"] }',
    ]
    with petabatch.run(petabatch.load(small, settings), small.parent / "run", quiet=True) as run:
        assert run.use("V1", None).all()
        assert not run.use("V1").any()
        figures = plotting.dictionary(run), plotting.sparsity(run)
        titles = [figure.axes[1].get_title(loc="left") for figure in figures]
        assert [re.findall(r"\S+ of \S+ dead|none dead", title) for title in titles] == [["8 of 8 dead"]] * 2
        assert any("8 features of 4 × 4, 8 of them dead" in line for line in lead(run))
        (found,) = dead_features(run)
    assert found == "V1: 8 of 8 features: inactive in the last 30 recorded codes"


def test_the_spread_of_a_single_record_is_a_bar_that_can_be_seen() -> None:
    clock, band = TimeAxis(1.0, "Step", "per step", 1.0), np.array([[1.0, 3.0]])
    for steps, width in ((np.array([5]), 3.0), (np.array([5, 6]), 0.0)):
        axes = Figure().subplots()
        curves = {"total": Curve(steps, np.full(len(steps), 2.0), band.repeat(len(steps), axis=0))}
        draw_curves(axes, curves, clock, "Energy")
        assert axes.collections[0].get_linewidth() == width
    assert meaning([4], False, 1, True) == ["dot: mean of 4 slices", "bar: percentiles 10–90"]
    assert meaning([4], False, 3, False) == ["lines: mean of 4 slices", "bands: percentiles 10–90"]
