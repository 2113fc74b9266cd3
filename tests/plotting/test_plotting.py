"""Plots, `petabatch plot` and the plotting scripts."""

from __future__ import annotations

import io
import itertools
import runpy
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import matplotlib as mpl
import numpy as np
import pytest

import petabatch
from petabatch import plotting
from petabatch.errors import ArgumentError, InputError, ResourceError
from petabatch.pixels import pictures
from petabatch.plotting.command import drawable, plot
from petabatch.plotting.curves import curve, thinned
from petabatch.plotting.figures import MARK, Page, logarithmic, panels
from petabatch.plotting.kinds import KINDS, draw_function
from petabatch.plotting.patches import find_weights
from petabatch.report.integrity import verify
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import use_of
from support.figures import assert_texts_can_be_read

mpl.use("agg")
OFTEN = ("phase", "correlation")
"""Kinds that need more records, or variables, than this run has; they are drawn in test_pages.py."""
ANALYSIS = Path(__file__).parents[2] / "analysis"
RNG = np.random.default_rng(0)

PARAMS = """
[run]
batch = 3
display = 4
displays = 2
kernel = "array"

[layers]
image = { type = "input", shape = [16, 16, 3], source = { type = "photographs", normalize = "standard" } }
error = { type = "linear", shape = [16, 16, 3] }
V1 = { type = "lca", shape = [8, 8, 6], tau = 5.0, threshold = 0.1 }
recon = { type = "linear", shape = [16, 16, 3] }

[connections]
image_to_error = { type = "identity", pre = "image", post = "error" }
recon_to_error = { type = "identity", pre = "recon", post = "error", channel = "inh", feedback = true }
error_to_V1 = { type = "transpose", of = "dictionary", pre = "error", post = "V1" }

[connections.dictionary]
type = "conv"
pre = "V1"
post = "recon"
patch = [4, 4]
init = { type = "patches", source = { type = "photographs" } }
normalize = { type = "l2" }
learn = { type = "hebbian", error = "error", rate = 1.0 }

[probes]
energy = { type = "energy", error = "error", code = "V1", coefficient = { slices = [0.1, 0.1, 0.2] } }
quality = { type = "psnr", image = "image", reconstruction = "recon" }

[output]
layers = { image = {}, V1 = {}, recon = {} }
connections = { dictionary = {} }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from petabatch import simulation

    folder = tmp_path_factory.mktemp("plots")
    (folder / "net.toml").write_text(PARAMS)
    simulation.run(simulation.read(folder / "net.toml"), folder / "out", threads=1, mpi=False, quiet=True)
    return folder / "out"


@pytest.fixture
def run(folder: Path) -> Iterator[Results]:
    with petabatch.open(folder) as run:
        yield run


def pixels(axes: Any) -> np.ndarray:
    return np.asarray(axes.images[0].get_array())


def texts(axes: Any) -> list[str]:
    return [text.get_text() for text in axes.texts]


def test_the_dictionary_is_numbered_sorted_by_use_and_scaled_by_each_feature_about_grey(run: Results) -> None:
    weights, use = run.weights("dictionary")[-1].astype(float), use_of(run.layer("V1"))
    np.testing.assert_allclose(use, (run.layer("V1")[...] != 0).mean(axis=(0, 1, 2, 3)))
    order = np.argsort(-use, kind="stable")
    top, below = plotting.dictionary(run, per_row=3).axes
    assert texts(top) == [str(number) for number in order]
    for number, text in zip(order, top.texts, strict=True):
        x, y = (round(float(each) + 0.5) for each in text.get_position())
        patch = pixels(top)[y : y + 4, x - 2 : x + 2]
        np.testing.assert_allclose(
            patch, 0.5 + 0.5 * weights[number] / np.abs(weights[number]).max(), atol=1e-6
        )
    np.testing.assert_allclose([bar.get_height() for bar in below.patches], 100 * use[order])
    assert texts(plotting.dictionary(run, order="index").axes[0]) == [str(number) for number in range(6)]


def test_dead_features_are_counted_and_framed(run: Results, monkeypatch: pytest.MonkeyPatch) -> None:
    from petabatch.plotting import dictionary

    use = np.array([0.1, 0.5, 0.0, 0.3, 0.0, 0.4])
    monkeypatch.setitem(dictionary.__wrapped__.__globals__, "use_of", lambda code, last: use)
    top, below = plotting.dictionary(run).axes
    assert texts(top)[:2] == ["1", "5"]
    assert [len(frames.get_paths()) for frames in top.collections] == [4, 2]
    assert top.collections[1].get_edgecolor()[0].tolist() == list(mpl.colors.to_rgba(MARK))
    assert below.get_title(loc="left") == "Use of the features; 2 of 6 dead (framed)"


def test_long_curves_keep_their_last_record(run: Results) -> None:
    total = run.probe("energy")["total"]
    assert len(total) == 8
    for most, expected in ((8, range(8)), (7, (1, 3, 5, 7)), (3, (1, 4, 7)), (1, (7,))):
        steps, values = thinned(total, most)
        np.testing.assert_array_equal(steps, total.steps[list(expected)])
        np.testing.assert_array_equal(values, total[...][list(expected)])


def test_channels_are_grey_or_colour_or_tiles_side_by_side() -> None:
    shapes = {1: (4, 5, 1), 3: (4, 5, 3), 2: (4, 11, 1), 6: (4, 11, 3), 5: (4, 29, 1), 9: (4, 17, 3)}
    for channels, shape in shapes.items():
        assert pictures(np.zeros((4, 5, channels))).shape == shape
    assert pictures(np.zeros((7, 4, 5, 3)), grey=True).shape == (7, 4, 17, 1)
    values = RNG.random((4, 5, 6))
    np.testing.assert_array_equal(pictures(values)[:, :5], values[..., :3])
    np.testing.assert_array_equal(pictures(values)[:, 6:], values[..., 3:])


def test_reconstructions_share_the_scale_of_their_input_and_the_error_is_grey_at_zero(run: Results) -> None:
    image, recon = (run.layer(name).at(step=8, slice=2).astype(float) for name in ("image", "recon"))
    low, span = image.min(), np.ptp(image)
    axes = plotting.reconstructions(run, slices=[2]).axes
    for place, expected in zip(axes, ((image - low), (recon - low), 0.5 * span + image - recon), strict=True):
        np.testing.assert_allclose(pixels(place), np.clip(expected / span, 0, 1), atol=1e-6)
    quality = run.probe("quality")["psnr"].at(step=8, slice=2)
    assert [texts(place) for place in axes] == [
        ["coefficient 0.2"],
        [f"PSNR {quality:.1f} dB"],
        [f"−{span / 2:.2g} to {span / 2:.2g}"],
    ]


def test_psnr_is_what_the_probe_measures() -> None:
    from petabatch.probes.psnr import PSNR

    layers = {"image": RNG.normal(size=(3, 4, 5, 2)), "recon": RNG.normal(size=(3, 4, 5, 2))}
    measured = PSNR(image="image", reconstruction="recon").measure(lambda name, _: layers[name], np)["psnr"]
    found = [plotting.psnr(*pair) for pair in zip(layers["image"], layers["recon"], strict=True)]
    np.testing.assert_allclose(found, measured)


def test_energy_draws_the_mean_and_the_spread_of_the_slices(run: Results) -> None:
    (axes,) = plotting.energy(run).axes
    measured = run.probe("energy")
    for line, quantity in zip(axes.lines, ("total", "residual", "sparsity"), strict=True):
        assert np.array_equal(line.get_xdata(), np.arange(1, 9) / 4)
        np.testing.assert_allclose(line.get_ydata(), measured[quantity][...].mean(axis=1))
    band = axes.collections[0].get_paths()[0].vertices[:, 1]
    assert band.max() == pytest.approx(np.percentile(measured["total"][...], 90, axis=1).max())


@pytest.fixture(scope="module")
def longer(folder: Path) -> Path:
    """A run of ten displays, with a record in each of their four steps, and a segment for each."""
    from petabatch import simulation

    params = simulation.read(folder.parent / "net.toml", ["run.displays=10", "output.flush=1 display"])
    simulation.run(params, folder.parent / "longer", threads=1, mpi=False, quiet=True)
    return folder.parent / "longer"


def totals(run: Results) -> np.ndarray:
    return run.probe("energy")["total"][...].reshape(10, 4, 3)  # [display, step, slice]


def assert_ends_with_the_spread_of_slices(line: Any, band: Any, total: np.ndarray) -> None:
    assert np.array_equal(line.get_xdata(), np.arange(1, 11))  # displays
    np.testing.assert_allclose(line.get_ydata(), total[:, -1].mean(axis=1))
    drawn = band.get_paths()[0].vertices[:, 1]
    spread = np.percentile(total[:, -1], (10, 90), axis=1)
    assert (drawn.min(), drawn.max()) == pytest.approx((spread[0].min(), spread[1].max()))


def test_energy_of_many_displays_is_that_at_their_ends_with_the_spread_of_slices(longer: Path) -> None:
    with petabatch.open(longer) as run:
        (axes,) = plotting.energy(run).axes
        assert_ends_with_the_spread_of_slices(axes.lines[0], axes.collections[0], totals(run))
    said = "Lines: mean of 3 slices at the end of each display; bands: percentiles 10–90"
    assert texts(axes)[0].replace("\n", " ") == said


def test_numbers_that_are_infinite_have_a_mean_and_no_band(
    longer: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = Series.__getitem__
    monkeypatch.setattr(Series, "__getitem__", lambda one, key: np.full_like(read(one, key), np.inf))
    with petabatch.open(longer) as run:
        for period, records in ((run.display, 10), (None, 40)):  # at ends of displays, and everywhere
            monkeypatch.setattr(run, "display", period)
            _, mean, band = curve(run, run.probe("energy")["total"])
            assert np.array_equal(mean, np.full(records, np.inf))
            assert np.isnan(band).all()


def remark(figure: Any) -> str:
    """Return what is said above a legend."""
    return str(figure.legends[0].get_title().get_text().replace("\n", " "))


def test_runs_of_many_displays_are_compared_at_their_ends(longer: Path, folder: Path) -> None:
    with petabatch.open(longer) as run, petabatch.open(folder) as short:
        figure = plotting.compare(run, short)
        axes = figure.axes[0]
        assert_ends_with_the_spread_of_slices(axes.lines[0], axes.collections[0], totals(run))
        assert np.array_equal(axes.lines[1].get_xdata(), np.arange(1, 9) / 4)  # all records of two displays
        said = "Lines: mean of 3 slices at the end of each display; bands: percentiles 10–90"
        assert remark(figure) == said
        assert "at the end" not in remark(plotting.compare(short, short))


def test_runs_whose_displays_have_other_lengths_are_compared_by_displays(
    folder: Path, tmp_path: Path
) -> None:
    from petabatch import simulation

    params = simulation.read(folder.parent / "net.toml", ["run.display=2", "run.displays=3"])
    simulation.run(params, tmp_path / "out", threads=1, mpi=False, quiet=True)
    with petabatch.open(folder) as run, petabatch.open(tmp_path / "out") as other:
        axes = plotting.compare(run, other, steps=True).axes[0]
        assert axes.get_xlabel() == "Display"
        assert not axes.child_axes  # an axis of steps would be that of one of them
        assert [line.get_xdata()[-1] for line in axes.lines] == [2, 3]


def test_quantities_of_other_units_have_panels_of_their_own(run: Results) -> None:
    axes = plotting.energy(run, probe="quality").axes
    measured = run.probe("quality")
    assert [each.get_ylabel().split("\n")[0] for each in axes] == [
        "PSNR (dB)",
        "Sum of squares of the residual",
    ]
    for each, series in zip(axes, measured.values(), strict=True):
        np.testing.assert_allclose(each.lines[0].get_ydata(), series[...].mean(axis=1))
    (together,) = plotting.energy(run, quantities=["residual", "sparsity"]).axes
    assert together.get_ylabel() == "Energy"


def test_slices_of_a_run_of_many_displays_are_compared_at_their_ends(longer: Path, tmp_path: Path) -> None:
    with petabatch.open(longer) as run:
        total = totals(run)[:, -1]
        figure = plotting.compare(run)
        axes = figure.axes[0]
        np.testing.assert_allclose(np.transpose([line.get_ydata() for line in axes.lines[:3]]), total)
        assert remark(figure) == "At the end of each display"
    shutil.copytree(longer, tmp_path / "lossy")
    (lost,) = (tmp_path / "lossy" / "parts").glob("steps_000000000017-*")
    lost.unlink()
    verify(tmp_path / "lossy", repairing=True)
    with petabatch.open(tmp_path / "lossy") as run:
        (line, *_) = plotting.compare(run).axes[0].lines
    assert np.array_equal(line.get_xdata(), np.arange(1, 11))
    assert np.array_equal(np.isnan(line.get_ydata()), np.arange(10) == 4)


def test_features_are_shown_with_the_image_patches_under_their_strongest_units(run: Results) -> None:
    left, right = plotting.features(run, number=[3], count=2).axes
    weights = run.weights("dictionary")[-1, 3].astype(float)
    np.testing.assert_allclose(pixels(left), 0.5 + 0.5 * weights / np.abs(weights).max(), atol=1e-6)
    code = run.layer("V1")[...][..., 3]
    per_image = np.sort(code.max(axis=(2, 3)).ravel())[::-1]
    assert texts(right)[:2] == [f"{activity:.2f}" for activity in per_image[:2]]
    time, slice_, row, column = np.unravel_index(code.argmax(), code.shape)
    # A patch of 4 x 4 with stride 2 begins one pixel before 2 * row, 2 * column.
    padded = np.pad(
        run.layer("image")[time, slice_].astype(float), ((1, 1), (1, 1), (0, 0)), constant_values=np.nan
    )
    patch = padded[2 * row : 2 * row + 4, 2 * column : 2 * column + 4]
    x, y = (round(float(each) + 0.5) for each in right.texts[0].get_position())
    drawn = pixels(right)[y : y + 4, x - 2 : x + 2]
    inside = ~np.isnan(patch)
    slope, offset = np.polyfit(patch[inside], drawn[inside], 1)
    assert slope > 0
    np.testing.assert_allclose(drawn[inside], slope * patch[inside] + offset, atol=1e-5)


class Recorded(dict[str, list[int]]):
    """A run by the records of its weights."""

    path = "run.h5"

    @property
    def params(self) -> dict[str, Any]:
        return {"connections": {name.split("/")[1]: {"patch": [4, 4]} for name in self}}

    def weights(self, name: str) -> list[int]:
        return self[f"connections/{name}/weights"]


def test_weights_that_are_recorded_only_at_the_end_are_chosen_last() -> None:
    once, often, none = "connections/a/weights", "connections/b/weights", "connections/c/weights"
    run: Any = Recorded({none: [], once: [1], often: [2, 2]})
    assert find_weights(run) == [1]
    assert find_weights(run, records=2) == [2, 2]


def test_features_over_time_are_as_wide_as_the_curve_below(run: Results) -> None:
    figure = plotting.weights_over_time(run, count=6, figure=plotting.Page(columns=1))
    figure.draw_without_rendering()
    mosaic, curve = (axes.get_window_extent() for axes in figure.axes)
    assert mosaic.x1 == pytest.approx(curve.x1, abs=0.08 * curve.width)


def test_convergence_needs_a_probe_within_displays(run: Results) -> None:
    axes = plotting.convergence(run).axes
    assert len(axes) == 1
    assert [list(line.get_xdata()) for line in axes[0].lines] == [[1, 2, 3, 4], [1, 2, 3, 4]]


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in ("movie", *OFTEN)])
def test_every_kind_draws_into_a_part_of_a_figure(run: Results, kind: str) -> None:
    import matplotlib.pyplot as plt

    whole = plt.figure(figsize=(8, 5))
    part = whole.subfigures(1, 2)[1]
    assert draw_function(kind)(run, figure=part) is part
    assert part.axes
    assert len(plt.get_fignums()) == 1
    whole.savefig(io.BytesIO())


@pytest.fixture(scope="module")
def narrow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a run of one slice, of a high and narrow image and a single feature."""
    from petabatch import simulation

    folder = tmp_path_factory.mktemp("narrow")
    params = PARAMS
    for old, new in {
        "[16, 16, 3]": "[48, 4, 1]",
        "[8, 8, 6]": "[3, 1, 1]",
        "[4, 4]": "[16, 4]",
        "batch = 3": "batch = 1",
        "{ slices = [0.1, 0.1, 0.2] }": "0.1",
        '"patches", source = { type = "photographs" }': '"gaussian"',
        '"photographs", normalize = "standard"': '"noise"',
    }.items():
        assert old in params
        params = params.replace(old, new)
    (folder / "net.toml").write_text(params)
    simulation.run(simulation.read(folder / "net.toml"), folder / "out", threads=1, mpi=False, quiet=True)
    return folder / "out"


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind not in ("movie", "sweep", "compare", *OFTEN)]
)
def test_figures_of_a_single_narrow_feature_are_no_larger_than_a_page_and_no_text_is_cut(
    narrow: Path, kind: str
) -> None:
    with petabatch.open(narrow) as run:
        figure = draw_function(kind)(run)
    assert figure.get_figwidth() <= 10
    assert_texts_can_be_read(figure)


def test_panels_of_a_figure_are_in_rows() -> None:
    assert panels(None, 3.0, 2, 3)[1].shape == (2, 3)


@pytest.mark.parametrize("what", ["reconstruction", "activity", "dictionary"])
def test_a_film_has_a_frame_for_each_recorded_time(run: Results, tmp_path: Path, what: str) -> None:
    import av
    from PIL import Image

    film = plotting.movie(run, what=what)
    times = 2 if what != "dictionary" else 3
    plotting.finish(film, tmp_path / "film.gif")
    with Image.open(tmp_path / "film.gif") as picture:
        assert picture.n_frames == film.frames == times
    plotting.finish(plotting.movie(run, what=what), tmp_path / "film.mp4")
    with av.open(str(tmp_path / "film.mp4")) as container:
        assert len(list(container.decode(video=0))) == times
    with pytest.raises(InputError, match=r"found: +png\n.*expected: gif, mp4"):
        plotting.finish(plotting.movie(run, what=what), tmp_path / "film.png")


def test_a_film_is_titled_by_its_slice_or_by_weights_that_all_slices_share(run: Results) -> None:
    for what, subject in (("activity", f"Code of V1, {run.label(1)}"), ("dictionary", "Dictionary")):
        film = plotting.movie(run, what=what, slice=1)
        film.update(0)
        assert film.figure.get_suptitle().startswith(f"{subject}, ")


def test_compared_features_are_counted_in_whole_numbers(run: Results) -> None:
    (axes,) = (each for each in plotting.compare(run, run).axes if "dictionaries" in each.get_ylabel())
    axes.set_xlim(0, 19)  # as of 20 features
    assert np.array_equal(axes.get_xticks(), np.round(axes.get_xticks()))


def test_the_list_says_what_can_be_drawn_and_why_the_rest_cannot(run: Results, tmp_path: Path) -> None:
    listed = [line.split()[:2] for line in drawable(run).splitlines() if line[0] != " "]
    assert listed == [[kind, "no:" if kind in OFTEN else "yes:"] for kind in KINDS]
    from petabatch import simulation

    bare = (
        PARAMS.split("[probes]")[0]
        + "[probes]\n[output]\nconnections = { dictionary = { every = 'never' } }\n"
    )
    (tmp_path / "net.toml").write_text(bare)
    simulation.run(simulation.read(tmp_path / "net.toml"), tmp_path / "out", threads=1, mpi=False, quiet=True)
    with petabatch.open(tmp_path / "out") as empty:
        text = " ".join(drawable(empty).split())
    assert "yes:" not in text
    assert "dictionary no: no dictionary was recorded; record them in [output.connections]" in text
    assert "energy no: no energy probe was recorded" in text


@pytest.mark.parametrize(("suffix", "start"), [("png", b"\x89PNG"), ("svg", b"<?xml"), ("pdf", b"%PDF")])
def test_the_suffix_chooses_the_format(run: Results, tmp_path: Path, suffix: str, start: bytes) -> None:
    import matplotlib.pyplot as plt

    before = dict(mpl.rcParams)
    plotting.finish(plotting.energy(run), tmp_path / "new" / f"x.{suffix}")
    assert (tmp_path / "new" / f"x.{suffix}").read_bytes().startswith(start)
    assert dict(mpl.rcParams) == before
    assert not plt.get_fignums()


def test_an_unknown_suffix_and_a_missing_screen_are_errors(run: Results, tmp_path: Path) -> None:
    figure = plotting.energy(run)
    with pytest.raises(InputError, match=r"(?s)found: +foo.*png"):
        plotting.finish(figure, tmp_path / "x.foo")
    with pytest.raises(ResourceError, match="-o"):
        plotting.finish(figure)


def test_importing_plotting_loads_neither_matplotlib_nor_the_simulator() -> None:
    code = "import sys, petabatch.plotting, petabatch.plotting.command; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "petabatch.plotting.movie" in loaded.split()
    assert not {"matplotlib", "scipy", "PIL", "numba", "petabatch.engine", "petabatch.spec"} & set(
        loaded.split()
    )


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("dictionary", ["--time", "0", "--per-row", "2", "--columns", "1", "--order", "index", "--grey"]),
        ("reconstructions", ["--step", "4", "--slices", "2", "0"]),
        ("energy", ["--probe", "quality", "--quantities", "psnr", "--log"]),
        ("features", ["--number", "1", "5"]),
    ],
)
def test_the_command_draws_with_options(folder: Path, tmp_path: Path, kind: str, options: list[str]) -> None:
    plot([kind, str(folder), "-o", str(tmp_path / "x.png"), *options])
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_a_time_is_given_as_a_display_or_as_a_step_or_index(run: Results) -> None:
    for draw in (plotting.code, plotting.reconstructions):
        by_display, by_step = (draw(run, **time).axes[0] for time in ({"display": 1}, {"step": 4}))
        np.testing.assert_array_equal(pixels(by_display), pixels(by_step))
        assert not np.array_equal(pixels(by_display), pixels(draw(run).axes[0]))
    by_display, by_time = (plotting.dictionary(run, **time).axes[0] for time in ({"display": 1}, {"time": 1}))
    np.testing.assert_array_equal(pixels(by_display), pixels(by_time))
    assert by_display.figure.get_suptitle().endswith(", display 1")
    for draw, time in ((plotting.code, {"step": 4}), (plotting.receptive_fields, {"time": 0})):
        with pytest.raises(ArgumentError, match="the time is given twice"):
            draw(run, display=1, **time)


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        (
            "dictionary",
            {"order": "size"},
            r"order: this is not one of the choices\n.*'size'\n.*'use', 'index'",
        ),
        ("dictionary", {"per_row": 0}, "per_row: the value is out of range"),
        ("reconstructions", {"slices": ["first"]}, "slices: the value has the wrong type"),
        ("movie", {"what": "features"}, "'reconstruction', 'activity', 'dictionary'"),
    ],
)
def test_options_in_python_are_those_of_the_command(
    run: Results, kind: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(ArgumentError, match=message):
        draw_function(kind)(run, **options)


def test_receptive_fields_say_what_their_panels_show_and_when_there_is_nothing_to_count(
    run: Results, monkeypatch: pytest.MonkeyPatch
) -> None:
    from petabatch.plotting.gabor import Gabors

    like = np.zeros(6, bool)
    monkeypatch.setattr(Gabors, "like", property(lambda _: like))
    figure = plotting.receptive_fields(run)
    said = [text for axes in figure.axes for text in texts(axes)]
    assert any("No feature is Gabor-like" in text for text in said)
    assert not [axes for axes in figure.axes if axes.axison]
    like[2] = True
    panels = [axes for axes in plotting.receptive_fields(run).axes if axes.axison]
    titles = [axes.get_title(loc="left").replace("\n", " ") for axes in panels]
    assert titles[2] == "Grey: range in macaque V1"
    (dashed,) = (line for line in panels[1].lines if line.get_linestyle() == "--")
    assert titles[1] == f"Dashed: median {dashed.get_xdata()[0]:.2f}"


def test_text_with_dollars_is_no_formula_and_numbers_on_a_logarithmic_axis_are_plain(
    run: Results, tmp_path: Path
) -> None:
    figure = plotting.energy(run, title=r"a $\bad{$", log=True)
    plotting.finish(figure, tmp_path / "x.png")
    labels = [label.get_text() for label in figure.axes[0].get_yticklabels(which="both")]
    assert any(labels)
    assert not any("$" in label for label in labels)


def test_a_logarithmic_axis_has_round_numbers_where_there_is_room_and_small_ticks_between() -> None:
    figure, ((axes,),) = panels(Page(size=(3.6, 3.4)), 0)
    for ends, labels in (
        ((0.1, 3.0), ["0.1", "0.2", "0.5", "1", "2"]),
        ((190, 640), ["200", "300", "400", "500", "600"]),
        ((1e-8, 1e3), ["10⁻⁸", "10⁻⁶", "0.0001", "0.01", "1", "100"]),
        ((210, 215), ["210", "211", "212", "213", "214", "215"]),
    ):
        axes.clear()
        axes.set_xmargin(0)
        axes.plot(ends, ends)
        logarithmic(axes, "x")
        figure.canvas.draw()
        low, high = axes.get_xlim()
        seen = [text for text in axes.get_xticklabels() if low <= text.get_position()[0] <= high]
        assert [text.get_text() for text in seen] == labels
        boxes = [text.get_window_extent() for text in seen]
        assert all(left.x1 < right.x0 for left, right in itertools.pairwise(boxes))
        assert not any(text.get_text() for text in axes.get_xticklabels(minor=True))


def test_several_runs_are_compared_by_the_names_that_tell_them_apart(folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "other" / "out")
    with petabatch.open(folder) as one, petabatch.open(tmp_path / "other" / "out") as other:
        figure = plotting.compare(one, other)
        assert [text.get_text() for text in figure.legends[0].get_texts()] == [
            f"{folder.parent.name}/out",
            "other/out",
        ]
        np.testing.assert_allclose(figure.axes[-1].lines[0].get_ydata(), 1)  # the same dictionary
    plot(["compare", str(folder), str(tmp_path / "other" / "out"), "-o", str(tmp_path / "x.png")])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["dictionari", "x"], "there is no kind 'dictionari': did you mean dictionary?"),
        (["dictionary", "x", "--last", "0"], "argument --last: 0 is not a number of at least 1"),
        (["dictionary", "x", "--per-row", "0"], "argument --per-row: 0 is not a number of at least 1"),
        (["reconstructions", "x", "--rows", "0"], "argument --rows: 0 is not a number of at least 1"),
        (["dictionary", "x", "--order", "size"], "argument --order: invalid choice"),
        (["code", "x", "--step", "1", "--display", "1"], "--display: not allowed with argument --step"),
        (["dictionary", "x", "--display", "1", "--time", "1"], "--time: not allowed with argument --display"),
    ],
)
def test_mistakes_in_the_command_are_told(
    capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match="2"):
        plot(arguments)
    assert message in capsys.readouterr().err


def test_the_command_lists_a_run_of_any_name(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "energy").symlink_to(folder)
    monkeypatch.chdir(tmp_path)
    plot(["--list", "energy"])
    assert capsys.readouterr().out.startswith("dictionary         yes: the dictionary")


def test_help_names_every_kind_and_the_options_of_one(capsys: pytest.CaptureFixture[str]) -> None:
    plot([])
    listed = capsys.readouterr().out
    assert all(f"\n  {kind} " in listed for kind in KINDS)
    with pytest.raises(SystemExit, match="0"):
        plot(["dictionary", "--help"])
    text = capsys.readouterr().out
    assert "\n\nDraw the dictionary with numbered features" in text
    assert "\nEach feature is scaled by" in text  # without the margin of the docstring
    assert "slice to draw (default: 0)" in " ".join(text.split())
    assert "--order {use,index}" in text


def test_help_names_the_numbers_of_a_position(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        plot(["dictionary", "--help"])
    assert "--position ROW COLUMN\n" in capsys.readouterr().out


def test_the_docs_describe_every_kind() -> None:
    page = (ANALYSIS.parent / "docs" / "plots.md").read_text()
    assert all(f"| `{kind}` | " in page for kind in KINDS)


def test_spikes_are_marks_at_their_steps(tmp_path: Path) -> None:
    from petabatch import simulation

    params = """
    [run]
    steps = 40
    kernel = "array"
    [layers]
    drive = { type = "constant", shape = [1, 2, 1], value = 1.0 }
    cells = { type = "conductance_lif", shape = [1, 2, 1] }
    [connections]
    current = { type = "identity", pre = "drive", post = "cells", strength = 5.0 }
    [output.layers]
    cells = { every = 1 }
    """
    (tmp_path / "net.toml").write_text(params)
    simulation.run(simulation.read(tmp_path / "net.toml"), tmp_path / "out", threads=1, mpi=False, quiet=True)
    with petabatch.open(tmp_path / "out") as run:
        spikes = run.layer("cells")[:, 0, 0, 0, 0]
        assert set(np.unique(spikes)) == {0, 1}
        (line,) = plotting.raster(run).axes[1].lines
        first = line.get_xdata()[line.get_ydata() == 0]
        np.testing.assert_array_equal(first, run.layer("cells").steps[spikes == 1])


def run_script(monkeypatch: pytest.MonkeyPatch, kind: str, *arguments: str) -> None:
    file = ANALYSIS / f"plot_{kind.replace('-', '_')}.py"
    monkeypatch.setattr(sys, "argv", [str(file), *arguments])
    runpy.run_path(str(file), run_name="__main__")


def test_each_kind_has_a_script_of_three_lines() -> None:
    assert {f"plot_{kind.replace('-', '_')}.py" for kind in KINDS} == {
        file.name for file in ANALYSIS.glob("*.py")
    }
    for file in ANALYSIS.glob("*.py"):
        assert len([line for line in file.read_text().splitlines() if line]) == 3


@pytest.mark.sampled(5)
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in OFTEN])
def test_the_scripts_draw_a_run(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    file = tmp_path / ("x.gif" if kind == "movie" else "x.png")
    run_script(monkeypatch, kind, str(folder), "-o", str(file))
    assert file.stat().st_size > 1000


@pytest.mark.parametrize(
    ("kind", "options", "message"),
    [
        ("dictionary", ["--connection", "dictionar"], "did you mean dictionary"),
        ("reconstructions", ["--step", "3"], "expected: displays 1, 2"),
        ("reconstructions", ["--display", "3"], r"display 3 \(step 12\)\n    expected: displays 1, 2"),
        ("reconstructions", ["--slices", "3"], "slices from 0 to 2"),
        ("energy", ["--probe", "energie"], "did you mean energy"),
        ("dictionary", ["--time", "99"], "time 99 of"),
        ("dictionary", ["--slice", "3"], "slices from 0 to 2"),
        ("features", ["--number", "6"], "features from 0 to 5"),
        ("code", ["--step", "3"], "this time was not recorded"),
        ("dictionary", ["-o", "/proc/x.png"], "/proc/x.png: the figure cannot be written: No such file"),
    ],
)
def test_the_scripts_say_what_is_there_when_something_is_not(
    folder: Path, monkeypatch: pytest.MonkeyPatch, kind: str, options: list[str], message: str
) -> None:
    with pytest.raises(SystemExit, match=message):
        run_script(monkeypatch, kind, str(folder), *options)


@pytest.mark.parametrize("kind", ["dictionary", "energy", "reconstructions"])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("nowhere", "there is no such run directory or file"),
        ("empty", "this is not a run directory: it has no run.h5"),
        ("text.h5", "this is not a run file: it is not in HDF5"),
        ("foreign.h5", "not a run file of this version of petabatch"),
    ],
)
def test_the_scripts_refuse_what_is_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, what: str, message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "text.h5").write_text("no run")
    with h5py.File(tmp_path / "foreign.h5", "w") as file:
        file["a"] = 1
    with pytest.raises(SystemExit, match=message):
        run_script(monkeypatch, kind, str(tmp_path / what))


def test_the_scripts_draw_a_run_too_short_for_its_schedules_or_say_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from petabatch import simulation

    seldom = '{ every = "10 displays" }'
    params = PARAMS.replace("image = {}, V1 = {}", f"image = {{}}, V1 = {seldom}")
    (tmp_path / "net.toml").write_text(params.replace("recon = {} }", f"recon = {seldom} }}"))
    run = simulation.read(tmp_path / "net.toml")
    simulation.run(run, tmp_path / "out", threads=1, mpi=False, quiet=True)
    run_script(monkeypatch, "dictionary", str(tmp_path / "out"), "-o", str(tmp_path / "x.png"))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SystemExit, match="no step that is recorded of both"):
        run_script(monkeypatch, "reconstructions", str(tmp_path / "out"))
