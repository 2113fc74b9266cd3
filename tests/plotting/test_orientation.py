"""Rows, columns and channels from an image file to plots and films: nothing is swapped or mirrored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import petabatch
from petabatch import plotting
from petabatch.plotting.gabor import fit_gabors
from petabatch.results import Results
from support.pictures import CORNERS, corners, four_corners, weights

mpl.use("agg")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return four_corners(tmp_path_factory.mktemp("corners"))


@pytest.fixture
def run(folder: Path) -> Iterator[Results]:
    with petabatch.open(folder) as run:
        yield run


def rendered(figure: Any, axes: Any) -> np.ndarray:
    """Return what is drawn within the axes' image, `[y, x, 3]` from 0 to 1, the first row at the top."""
    figure.canvas.draw()
    whole = np.asarray(figure.canvas.buffer_rgba())[..., :3] / 255
    box = axes.images[0].get_window_extent()
    top, bottom = (round(whole.shape[0] - each) for each in (box.y1, box.y0))
    return whole[top:bottom, round(box.x0) : round(box.x1)]


def test_a_plotted_image_looks_like_its_file(run: Results) -> None:
    figure = plotting.reconstructions(run)
    shown = rendered(figure, figure.axes[0])
    assert shown.shape[1] / shown.shape[0] == pytest.approx(12 / 8, rel=0.05)
    np.testing.assert_allclose(corners(shown), CORNERS, atol=0.01)
    # The borders of the blocks: 3 of 8 rows, 4 of 12 columns.
    left = shown[:, shown.shape[1] // 6]
    assert (left[:, 0] > 0.5).mean() == pytest.approx(3 / 8, abs=0.03)
    top = shown[shown.shape[0] // 8]
    assert (top[:, 0] > 0.5).mean() == pytest.approx(4 / 12, abs=0.03)


def test_a_plotted_feature_looks_like_its_weights(run: Results) -> None:
    figure = plotting.dictionary(run, order="index", per_row=3)
    tableau = np.asarray(figure.axes[0].images[0].get_array())
    for number, text in enumerate(figure.axes[0].texts):
        x, y = (round(float(each) + 0.5) for each in text.get_position())
        np.testing.assert_allclose(tableau[y : y + 4, x - 2 : x + 2], 0.5 + 0.5 * weights()[number])
    shown = rendered(figure, figure.axes[0])
    reds = np.argwhere((shown[..., 0] > 0.9) & (shown[..., 1:] < 0.6).all(axis=-1))
    assert (reds.mean(axis=0) < np.array(shown.shape[:2]) / 2).all()


def test_the_image_patch_of_a_feature_is_the_one_under_its_unit(run: Results) -> None:
    image, code = run.layer("image")[-1, 0], run.layer("V1")[-1, 0]
    for number in range(3):
        row, column = np.unravel_index(code[..., number].argmax(), code.shape[:2])
        patch = image[4 * row : 4 * row + 4, 4 * column : 4 * column + 4]
        figure = plotting.features(run, number=[number], count=1)
        right = np.asarray(figure.axes[1].images[0].get_array())
        low, high = patch.min(), patch.max()
        np.testing.assert_allclose(right[-4:], (patch - low) / ((high - low) or 1), atol=1e-6)


def test_a_map_of_a_code_has_the_rows_and_columns_of_its_layer(run: Results) -> None:
    code = run.layer("V1")[-1, 0]
    figure = plotting.code(run, count=1)
    number = int(figure.axes[1].texts[0].get_text())
    assert code[..., number].shape == (2, 3)
    drawn = np.asarray(figure.axes[1].images[0].get_array())
    np.testing.assert_allclose(drawn[-2:], code[..., number])


@pytest.mark.parametrize("suffix", ["gif", "mp4"])
def test_a_film_looks_like_the_file(run: Results, tmp_path: Path, suffix: str) -> None:
    import av

    film = plotting.movie(run, what="reconstruction")
    box = None
    for _ in film.images():
        box = film.figure.axes[0].images[0].get_window_extent()
    assert box is not None
    plotting.finish(film, tmp_path / f"x.{suffix}")
    with av.open(str(tmp_path / f"x.{suffix}")) as container:
        frame = [each.to_ndarray(format="rgb24") for each in container.decode(video=0)][-1] / 255
    height = round(film.figure.bbox.height)
    shown = frame[round(height - box.y1) : round(height - box.y0), round(box.x0) : round(box.x1)]
    np.testing.assert_allclose(corners(shown), CORNERS, atol=0.1)


def tiles(axes: Any, height: int, width: int) -> list[np.ndarray]:
    """Return the tiles of a mosaic without labels, which are a pixel apart."""
    whole = np.asarray(axes.images[0].get_array())
    rows, columns = range(0, whole.shape[0], height + 1), range(0, whole.shape[1], width + 1)
    return [whole[y : y + height, x : x + width] for y in rows for x in columns]


def test_films_of_features_and_codes_and_features_over_time_are_not_turned(run: Results) -> None:
    film = plotting.movie(run, what="dictionary")
    film.update(film.frames - 1)
    for figure in (film.figure, plotting.weights_over_time(run, count=3, times=2)):
        shown = tiles(figure.axes[0], 4, 4)
        for feature in weights():
            assert any(np.allclose(tile, 0.5 + 0.5 * feature) for tile in shown)
    film = plotting.movie(run, what="activity")
    film.update(film.frames - 1)
    shown = tiles(film.figure.axes[0], 2, 3)
    code = run.layer("V1")[-1, 0]
    for number in range(3):
        assert any(np.allclose(tile, code[..., number]) for tile in shown)


def test_the_orientation_of_gabor_fits_is_that_of_the_bars_as_they_are_seen() -> None:
    y, x = np.mgrid[:12, :12] - 5.5
    for degrees in (0, 30, 90, 150):
        angle = np.radians(degrees)
        across = x * np.sin(angle) + y * np.cos(angle)  # rows grow downwards
        along = x * np.cos(angle) - y * np.sin(angle)
        bars = np.exp(-(across**2) / 8 - along**2 / 18) * np.cos(2 * np.pi * 0.2 * across)
        fit = fit_gabors(bars[None])
        assert fit.r2[0] > 0.999
        assert min(abs(fit.orientation[0] - degrees), 180 - abs(fit.orientation[0] - degrees)) < 1
        assert fit.frequency[0] == pytest.approx(0.2, abs=0.01)
        assert (fit.sigma_u[0], fit.sigma_v[0]) == pytest.approx((2, 3), rel=0.05)
        assert fit.like[0]


def test_noise_and_single_pixels_are_not_like_gabor_functions() -> None:
    rng = np.random.default_rng(0)
    pixel = np.zeros((20, 10, 10))
    pixel[np.arange(20), rng.integers(2, 8, 20), rng.integers(2, 8, 20)] = 1
    assert not fit_gabors(rng.normal(size=(20, 10, 10))).like.any()
    assert not fit_gabors(pixel).like.any()
    assert fit_gabors(np.zeros((1, 8, 8))).r2[0] == 0


def scattered(code: np.ndarray, patches: np.ndarray, shape: tuple[int, int]) -> np.ndarray:
    """Return what a code `[y, x, feature]` synthesises: patches begin at s j - (size - s) // 2."""
    (ny, nx, _), (_, py, px, channels) = code.shape, patches.shape
    sy, sx = shape[0] // ny, shape[1] // nx
    padded = np.zeros((shape[0] + 2 * py, shape[1] + 2 * px, channels))
    for row, column, feature in np.argwhere(code):
        top, left = sy * row - (py - sy) // 2 + py, sx * column - (px - sx) // 2 + px
        padded[top : top + py, left : left + px] += code[row, column, feature] * patches[feature]
    return padded[py:-py, px:-px]


def test_features_of_a_second_layer_are_what_its_units_synthesise_through_the_first(tmp_path: Path) -> None:
    from petabatch import simulation
    from petabatch.plotting.patches import read_dictionary

    shapes = {"V1": [16, 16, 5], "V1error": [16, 16, 5], "V1recon": [16, 16, 5], "V2": [8, 8, 3]}
    settings = [f"layers.{name}.shape={shape}" for name, shape in shapes.items()]
    settings += ["run.batch=1", "run.display=2", "run.kernel=array"]
    settings += ["connections.dictionary.patch=[6,4]"]
    settings += ["connections.dictionary2.patch=[2,4]"]
    for name in ("dictionary", "dictionary2"):
        settings.append(f"output.connections.{name}.every=2")
    file = Path(__file__).parents[2] / "params" / "two_layer.toml"
    simulation.run(simulation.read(file, settings), tmp_path / "out", threads=1, mpi=False, quiet=True)
    with petabatch.open(tmp_path / "out") as run:
        first, second = (run.weights(name)[-1].astype(float) for name in ("dictionary", "dictionary2"))
        found = read_dictionary(run, "dictionary2")
        assert found.through == ("dictionary",)
        assert found.onto == "recon"
        for row, column, feature in ((4, 3, 0), (2, 5, 2)):
            code = np.zeros((8, 8, 3))
            code[row, column, feature] = 1
            image = scattered(scattered(code, second, (16, 16)), first, (32, 32))
            top, left = found.y.start(row), found.x.start(column)
            height, width = found.weights.shape[1:3]
            np.testing.assert_allclose(
                image[top : top + height, left : left + width], found.weights[feature], atol=1e-12
            )
            assert np.square(image).sum() == pytest.approx(np.square(found.weights[feature]).sum())
        plotting.dictionary(run, connection="dictionary2")


def test_weights_of_a_many_to_one_connection_are_the_patches_that_the_kernels_use() -> None:
    from petabatch.geometry import make_link, weight_shape
    from petabatch.kernels.array import ArrayKernels
    from petabatch.plotting.patches import many_to_one

    link = make_link((8, 12, 3), (4, 4, 5), (2, 1), shared=True)
    weights = np.random.default_rng(0).normal(size=weight_shape(link))
    expected = ArrayKernels(np).to_patches(weights[None], link)
    np.testing.assert_array_equal(many_to_one(weights, link).reshape(5, -1), expected.reshape(5, -1))
