"""What users ask a run first, in a notebook."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import petabatch
from petabatch.errors import NotRecorded
from petabatch.results import Results
from petabatch.results.use import latest_codes
from support.commands import alone
from support.pictures import four_corners, weights


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return four_corners(tmp_path_factory.mktemp("corners"))


@pytest.fixture
def run(folder: Path) -> Iterator[Results]:
    with petabatch.open(folder) as run:
        yield run


def test_images_are_those_that_were_shown(run: Results, folder: Path) -> None:
    with Image.open(folder.parent / "four.png") as picture:
        expected = np.asarray(picture) / 255
    assert run.images().shape == (1, 8, 12, 3)
    np.testing.assert_allclose(run.images(display=1, slice=0), expected)
    np.testing.assert_allclose(run.images("image", step=20)[0], expected)


def test_images_that_were_not_recorded_are_an_error_that_says_how(small: Path) -> None:
    with (
        petabatch.open(alone(small, "out", "run.kernel=array")) as run,
        pytest.raises(NotRecorded, match=r"input layers image\n.*shown"),
    ):
        run.images()


def test_use_is_the_fraction_of_active_units(run: Results) -> None:
    code = run.layer("V1")[...]
    np.testing.assert_allclose(run.use("V1"), (code != 0).mean(axis=(0, 1, 2, 3)))
    np.testing.assert_allclose(run.use("V1", last=1), (code[-1:] != 0).mean(axis=(0, 1, 2, 3)))


def test_use_counts_each_image_once_although_codes_are_recorded_within_displays(tmp_path: Path) -> None:
    run = four_corners(tmp_path, "output.layers.V1.every=3")
    with petabatch.open(run) as within:
        code = within.layer("V1")
        assert code.steps.tolist() == [3, 6, 9, 12, 15, 18]
        ends = code[...][[2, 5]]  # displays have 10 steps
        np.testing.assert_allclose(within.use("V1"), (ends != 0).mean(axis=(0, 1, 2, 3)))
        assert list(latest_codes(code)) == [(5, 0), (2, 0)]
        assert list(latest_codes(code, among=np.array([3, 15, 20]))) == [(4, 0), (0, 0)]
        assert list(latest_codes(code, limit=1)) == [(5, 0)]


def test_a_notebook_shows_the_dictionary_and_escapes_names(run: Results) -> None:
    page = run._repr_html_()
    url = re.search(r'src="data:image/png;base64,([^"]*)"', page)
    assert url
    with Image.open(io.BytesIO(base64.b64decode(url[1]))) as picture:
        drawn = np.asarray(picture) / 255
    for number, patch in enumerate(weights()):
        y, x = (5 * each for each in divmod(number, 3))
        np.testing.assert_allclose(drawn[y : y + 4, x : x + 4], 0.5 + 0.5 * patch, atol=0.005)
    assert "dictionary: 3 features of 4 × 4 after step 20" in page
    assert "layers/V1/A (time: 2, batch: 1, y: 2, x: 3, feature: 3) float32" in page
    assert page.count("<script") == 0
    assert page.startswith("<div><p>petabatch run ")
    run.close()
    assert "closed" in run._repr_html_()
