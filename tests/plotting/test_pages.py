"""Every kind on the pages of a journal: labels within the page, styles, sizes and texts."""

from __future__ import annotations

import csv
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import petabatch
from petabatch import plotting
from petabatch.errors import InputError
from petabatch.plotting.command import plot
from petabatch.plotting.kinds import KINDS, draw_function, suggested
from support.figures import assert_texts_can_be_read

mpl.use("agg")

CODING = """
title = "{features} features"
[run]
batch = {batch}
display = 4
displays = 3
kernel = "array"

[layers]
image = {{ type = "input", shape = [8, 8, 3], source = {{ type = "photographs", normalize = "standard" }} }}
error = {{ type = "linear", shape = [8, 8, 3] }}
recon = {{ type = "linear", shape = [8, 8, 3] }}

[layers.V1]
type = "lca"
shape = [1, 1, {features}]
tau = {{ slices = {taus} }}
threshold = {{ slices = {thresholds} }}


[connections]
image_to_error = {{ type = "identity", pre = "image", post = "error" }}
recon_to_error = {{ type = "identity", pre = "recon", post = "error", channel = "inh", feedback = true }}
error_to_V1 = {{ type = "transpose", of = "dictionary", pre = "error", post = "V1" }}

[connections.dictionary]
type = "conv"
pre = "V1"
post = "recon"
patch = [8, 8]
init = {{ type = "patches", source = {{ type = "photographs" }} }}
normalize = {{ type = "l2" }}
learn = {{ type = "hebbian", error = "error", rate = 0.1 }}

[probes]
a_long_name_of_the_energy = {{ type = "energy", error = "error", code = "V1", coefficient = 0.1, every = 1 }}
active = {{ type = "l0", layer = "V1" }}
quality = {{ type = "psnr", image = "image", reconstruction = "recon" }}

[output]
layers = {{ image = {{}}, V1 = {{ every = 2, variables = ["A", "V"] }}, recon = {{}} }}
connections = {{ dictionary = {{}} }}
"""

SPIKING = """
[run]
batch = {batch}
steps = {steps}
dt = 0.5
[layers]
drive = {{ type = "constant", shape = [1, 1, {features}], value = 1.0 }}
cells = {{ type = "conductance_lif", shape = [1, 1, {features}] }}
[connections]
current = {{ type = "identity", pre = "drive", post = "cells", strength = 5.0 }}
[output.layers]
cells = {{ every = 1, variables = ["A", "V", "Vth"] }}
"""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str, int, int], Path]:
    """Return what makes a run of `coding` or `spiking` with these features and slices, once."""
    from petabatch import simulation

    root = tmp_path_factory.mktemp("pages")

    def make(network: str, features: int, batch: int) -> Path:
        folder = root / f"{network}_{features}_{batch}"
        if not folder.exists():
            folder.mkdir()
            values = {
                "steps": 200 if features < 10 else 40,
                "taus": [(20.0 if features < 10 else 500.0) + n // 8 for n in range(batch)],
                "thresholds": [0.1 * (1 + n % 8) for n in range(batch)],
            }
            text = {"coding": CODING, "spiking": SPIKING}[network]
            (folder / "net.toml").write_text(text.format(features=features, batch=batch, **values))
            params = simulation.read(folder / "net.toml")
            simulation.run(params, folder / "out", threads=2, mpi=False, quiet=True)
        return folder / "out"

    return make


SPIKES = ("raster", "traces", "phase", "correlation")
QUICK = ((4, 1, 1), (4, 64, 2), (1000, 1, 2), (1000, 64, 1))
"""Features, slices and columns: any two of them together in one of these cases; the others are long tests."""
CASES = [
    pytest.param(*case, marks=[] if case in QUICK else pytest.mark.long)
    for case in itertools.product((4, 1000), (1, 64), (1, 2))
]


@pytest.mark.sampled(14)
@pytest.mark.parametrize(("features", "batch", "columns"), CASES)
@pytest.mark.parametrize("kind", [*KINDS, *(f"spikes: {kind}" for kind in SPIKES)])
def test_texts_of_every_kind_are_within_the_page_and_apart(
    made: Callable[..., Path],
    kind: str,
    features: int,
    batch: int,
    columns: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if kind in ("compare", "sweep"):
        batch = max(2, batch)  # there is nothing to compare in a single slice
    monkeypatch.setattr("petabatch.plotting.gabor._STEPS", 5)  # what they find is not looked at here
    network, _, name = kind.rpartition(": ")
    with petabatch.open(made("spiking" if network else "coding", features, batch)) as run:
        figure = draw_function(name)(run, figure=plotting.Page(columns=columns)).figure  # also that of a film
    assert figure.get_figwidth() == {1: 3.5, 2: 7.2}[columns]
    assert_texts_can_be_read(figure)


def test_several_runs_are_compared_within_the_page(made: Callable[..., Path]) -> None:
    with petabatch.open(made("coding", 4, 64)) as one, petabatch.open(made("coding", 1000, 1)) as other:
        for columns in (1, 2):
            assert_texts_can_be_read(plotting.compare(one, other, one, figure=plotting.Page(columns=columns)))


def test_a_figure_is_drawn_from_what_suits_a_run_and_says_what_it_is(
    made: Callable[..., Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for network, batch, kind, said in (
        ("spiking", 1, "raster", "Spikes of layer cells, all 4 units, slice 0"),
        ("coding", 64, "sweep", "Sweep of tau"),
    ):
        folder = made(network, 4, batch)
        with petabatch.open(folder) as run:
            assert suggested(run) == kind
        plot([str(folder), "-o", str(tmp_path / "x.svg"), "--columns", "1"])
        assert capsys.readouterr().err.startswith(f"{kind}: {said}")


def test_texts_of_svg_and_pdf_are_texts_and_tell_what_the_figure_shows(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    plot(["energy", str(made("coding", 4, 64)), "-o", str(tmp_path / "x.svg")])
    text = (tmp_path / "x.svg").read_text()
    assert re.search(r"<text [^>]*>Energy</text>", text)
    assert "<dc:title>Energy over the run</dc:title>" in text
    plot(["energy", str(made("coding", 4, 64)), "-o", str(tmp_path / "x.pdf")])
    assert (
        b"/Type /Type42" in (tmp_path / "x.pdf").read_bytes()
        or b"/CIDFontType2" in (tmp_path / "x.pdf").read_bytes()
    )


def test_a_page_has_the_size_the_pixels_and_the_style_that_are_asked_for(
    made: Callable[..., Path], tmp_path: Path
) -> None:
    from PIL import Image

    sheet = tmp_path / "mine.mplstyle"
    sheet.write_text("axes.prop_cycle: cycler('color', ['ff0000', '00ff00', '0000ff'])\nfont.size: 11\n")
    page = plotting.Page(size=(5, 3), dpi=60, style=sheet)
    with petabatch.open(made("coding", 4, 64)) as run:
        figure = plotting.energy(run, figure=page)
        assert [line.get_color() for line in figure.axes[0].lines] == ["#ff0000", "#00ff00", "#0000ff"]
        plotting.finish(figure, tmp_path / "x.png", page)
        with pytest.raises(InputError, match="there is no such style sheet"):
            plotting.energy(run, figure=plotting.Page(style="https://example.org/x.mplstyle"))
        sheet.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(InputError, match="the style sheet cannot be read: it is no text"):
            plotting.energy(run, figure=page)
    with Image.open(tmp_path / "x.png") as picture:
        assert picture.size == (300, 180)


def test_fractions_are_in_percent_as_their_labels_say(made: Callable[..., Path]) -> None:
    with petabatch.open(made("coding", 4, 64)) as run:
        last = run["probes/active/fraction"][-1]
        figures = plotting.energy(run, probe="active"), plotting.compare(run), plotting.sweep(run)
        label = "Active units of V1 (%)"
        line, several, swept = (
            next(axes for axes in figure.axes if " ".join(axes.get_ylabel().split()) == label).lines
            for figure in figures
        )
    np.testing.assert_allclose(line[0].get_ydata()[-1], 100 * last.mean())
    np.testing.assert_allclose([line.get_ydata()[-1] for line in several], 100 * last)
    assert max(max(line.get_ydata()) for line in swept) == pytest.approx(100 * last.max())


def test_csv_has_the_numbers_that_are_drawn(made: Callable[..., Path], tmp_path: Path) -> None:
    folder = made("coding", 4, 64)
    plot(["energy", str(folder), "--quantities", "total", "-o", str(tmp_path / "x.csv")])
    with (tmp_path / "x.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["series"] == "total"]
    with petabatch.open(folder) as run:
        total = run.probe("a_long_name_of_the_energy")["total"]
        np.testing.assert_allclose([float(row["x"]) for row in rows], total.displays, rtol=1e-6)
        np.testing.assert_allclose([float(row["y"]) for row in rows], total[...].mean(axis=1), rtol=1e-6)
    plot(["reconstructions", str(folder), "--slices", "0", "-o", str(tmp_path / "x.csv")])
    with (tmp_path / "x.csv").open() as file:
        rows = list(csv.DictReader(file))
    with petabatch.open(folder) as run:
        image = run.layer("image")[-1, 0]
    scaled = (image - image.min()) / np.ptp(image)
    assert {row["series"] for row in rows} == {"red", "green", "blue"}  # and no frames
    red = [float(row["value"]) for row in rows if (row["panel"], row["series"]) == ("Input", "red")]
    np.testing.assert_allclose(red, scaled[..., 0].ravel(), atol=1e-5)
    plot(["correlation", str(made("spiking", 4, 64)), "-o", str(tmp_path / "x.csv")])
    with (tmp_path / "x.csv").open() as file:
        cells = [row for row in csv.DictReader(file) if row["series"] == "map"]
    assert len(cells) == 16
    assert float(cells[0]["value"]) == 1


def test_time_is_in_the_unit_of_dt_or_in_displays_with_steps_above_where_asked(
    made: Callable[..., Path],
) -> None:
    with petabatch.open(made("coding", 4, 64)) as run:
        axes = plotting.energy(run).axes[0]
        assert (axes.get_xlabel(), axes.lines[0].get_xdata()[-1]) == ("Display", 3)
        figure = plotting.energy(run, steps=True)
        figure.draw_without_rendering()
        (above,) = figure.axes[0].child_axes
        assert above.get_xlabel() == "Step"
        assert above.get_xlim() == pytest.approx(4 * np.array(figure.axes[0].get_xlim()))
    with petabatch.open(made("spiking", 4, 64)) as run:
        rates, dots = plotting.raster(run, unit="ms").axes
        assert (rates.get_ylabel(), dots.get_xlabel()) == ("Rate (Hz)", "Time (ms)")
        spikes = run.layer("cells")[:, 0].reshape(200, 4)
        steps, _ = np.nonzero(spikes)
        assert spikes.any()
        np.testing.assert_allclose(np.sort(dots.lines[0].get_xdata()), 0.5 * (steps + 1))
        rate = 1000 * spikes.mean() / 0.5  # spikes per second; a step is half a millisecond
        assert np.mean(rates.lines[0].get_ydata()) == pytest.approx(rate)


def test_slices_have_the_same_colours_in_all_panels(made: Callable[..., Path]) -> None:
    with petabatch.open(made("coding", 4, 64)) as run:
        figure = plotting.compare(run)
        coloured = [
            {number: line.get_color() for number, line in enumerate(axes.lines) if line.get_linewidth() > 1}
            for axes in figure.axes
        ]
    assert len(coloured) == 3
    assert len(coloured[0]) == 2
    assert coloured[0] == coloured[1] == coloured[2]


def test_traces_and_portraits_show_the_values_of_units(made: Callable[..., Path]) -> None:
    with petabatch.open(made("spiking", 4, 64)) as run:
        V = run.layer("cells", "V")[:, 3].reshape(200, 4)
        axes = plotting.traces(run, units=[2, 0], slice=3).axes[0]
        for line, unit in zip(axes.lines, (2, 0), strict=True):
            np.testing.assert_array_equal(line.get_ydata(), V[:, unit])
        axes = plotting.phase(run, variables=["cells/V", "cells"], number=1, slices=[3]).axes[0]
        np.testing.assert_array_equal(axes.lines[0].get_xdata(), V[:, 1])
        np.testing.assert_array_equal(
            axes.lines[0].get_ydata(), run.layer("cells")[:, 3].reshape(200, 4)[:, 1]
        )
        with pytest.raises(InputError, match="there is no unit 4"):
            plotting.phase(run, number=4)


def test_variables_recorded_without_an_activity_are_drawn_by_default(tmp_path: Path) -> None:
    equations = "dv/dt = v - v ** 3 / 3 - w + 0.5\ndw/dt = (v + 0.7 - 0.8 * w) / 12.5"
    with petabatch.run(
        petabatch.Network(
            run={"batch": 1, "steps": 20, "dt": 0.1},
            layers={"osc": {"type": "neurons", "shape": (1, 1, 2), "equations": equations}},
            output={"layers": {"osc": {"variables": ["v", "w"], "every": 1}}},
        ),
        tmp_path / "run",
        quiet=True,
    ) as run:
        v, w = (run.layer("osc", name)[:, 0].reshape(20, 2) for name in "vw")
        panels = plotting.traces(run, units=[0]).axes
        np.testing.assert_array_equal(panels[0].lines[0].get_ydata(), v[:, 0])
        np.testing.assert_array_equal(panels[1].lines[0].get_ydata(), w[:, 0])
        portrait = plotting.phase(run, number=1).axes[0]
        np.testing.assert_array_equal(portrait.lines[0].get_xdata(), v[:, 1])
        assert [panel.get_ylabel() for panel in panels[:2]] == ["v of osc", "w of osc"]
        assert (portrait.get_xlabel(), portrait.get_ylabel()) == ("v of osc", "w of osc")
        with pytest.raises(InputError, match=r'such as osc = { variables = \["A"\], every = 1 }'):
            plotting.raster(run)


def test_a_matrix_of_weights_has_pre_features_as_rows(made: Callable[..., Path]) -> None:
    with petabatch.open(made("coding", 4, 64)) as run:
        image = plotting.weights(run).axes[0].images[0].get_array()
        np.testing.assert_allclose(image, run.weights("dictionary")[-1].reshape(4, -1))


def test_colour_features_are_fitted_in_their_colours_and_blobs_counted_apart() -> None:
    from petabatch.plotting.gabor import fit_gabors, mixed
    from petabatch.plotting.receptive_fields import classified

    y, x = np.mgrid[:12, :12] - 5.5
    bump = np.exp(-(x**2 + y**2) / 18)
    wave = bump * np.cos(2 * np.pi * 0.15 * x)
    grey, opponent = np.ones(3) / 3**0.5, np.array([1, -1, 0]) / 2**0.5
    noise = np.random.default_rng(0).normal(size=(12, 12))
    patches = [wave[..., None] * grey, wave[..., None] * opponent, bump[..., None] * opponent]
    patches += [-bump[..., None] * grey, noise[..., None] * grey]
    along = mixed(np.stack(patches))
    np.testing.assert_allclose(np.abs(along.mixes[[1, 2]] @ opponent), 1)
    np.testing.assert_allclose(along.mixes[[0, 3, 4]], np.tile(grey, (3, 1)))
    found = classified(fit_gabors(along.grey), along)
    assert {name: members.tolist() for name, members in found.items()} == {
        "Gabor-like": [0, 1],
        "blobs of a colour": [2],
        "blobs of luminance": [3],
        "others": [4],
    }


def test_plots_of_xarray_are_labelled_in_words(made: Callable[..., Path]) -> None:
    with petabatch.open(made("spiking", 4, 64)) as run:
        activity = run.to_xarray()["layers/cells"]["A"]
        assert activity.attrs["long_name"] == "activity"
        assert "units" not in activity.attrs
