"""What users ask a run first, in a notebook."""

from __future__ import annotations

import base64
import io
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import matplotlib.pyplot as plt
import numpy as np
import pytest
from PIL import Image

import petabatch
from petabatch import Simulator, in_memory, plotting
from petabatch.connections import Conv
from petabatch.errors import ArgumentError, NotRecorded
from petabatch.layers import LCA, Input
from petabatch.results import Results
from petabatch.results.use import latest_codes
from petabatch.sources import Bars
from petabatch.spec.load import Loaded
from support.commands import alone
from support.networks import images, lca_network
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


# -- networks, codes, series, completion


def network(batch: int) -> petabatch.Network:
    return petabatch.sparse_coding(
        Input(shape=(8, 8, 1), source=Bars()),
        LCA(shape=(1, 1, 6), tau=10.0, threshold=0.4),
        Conv(pre="V1", post="recon", patch=(8, 8), init={"type": "gaussian"}),
        run={"batch": batch, "display": 5, "displays": 2},
        probes={"energy": {"type": "energy", "error": "error", "code": "V1", "coefficient": 0.4, "every": 1}},
        output={"layers": {"V1": {}}},
    )


def no_scripts_nor_colours(page: str) -> None:
    assert "<script" not in page
    assert "http" not in re.sub(
        r'"http://www.w3.org[^"]*"|http://(purl|creativecommons|www).[^"<]*', "", page
    )
    assert not re.search(r"<(p|td|th|table|summary)[^>]*(color|bgcolor)", page)  # dark pages keep theirs


def test_a_network_is_drawn_with_tables_of_its_parts(run: Results) -> None:
    net = network(2)
    net = net.model_copy(update={"title": "<b>"})
    page = net._repr_html_()
    assert Loaded(net)._repr_html_().startswith("<div><p>&lt;b&gt;: batch 2")  # as petabatch.load returns it
    no_scripts_nor_colours(page)
    width = re.search(r'<svg[^>]* style="width: ([\d.]+)pt; max-width: 100%"', page)
    assert float(width[1] if width else 0) > 100  # without one, it is drawn 0 pixels wide
    assert page.startswith("<div><p>&lt;b&gt;: batch 2")
    for name in (*net.layers, *net.probes):
        assert f">{name}</td>" in page
    assert "V1 → recon" in page


def test_codes_are_a_table(run: Results) -> None:
    codes = petabatch.encode(np.zeros((10, 8, 8)), np.ones((2, 4, 4)), 0.3, stride=4, steps=1)
    page = codes._repr_html_()
    no_scripts_nor_colours(page)
    assert page.count("<tr>") == 9
    assert "images[7]" in page
    assert "and 2 more" in page


def test_series_have_a_curve_where_slices_have_one_number() -> None:
    net = network(2)
    result = in_memory.run(net)
    probe = next(name for name in result if name.startswith("probes/"))
    page = result[probe]._repr_html_()
    no_scripts_nor_colours(page)
    values = result[probe][...].mean(axis=1)
    assert "currentColor" in page
    assert f"last {values[-1]:.4g}" in page
    ends = re.search(r'points="([^"]*)"', page)
    assert ends
    heights = [float(pair.split(",")[1]) for pair in ends[1].split()]
    assert np.argmin(heights) == np.argmax(values)
    layer = next(name for name in result if name.startswith(("layers/", "connections/")))
    assert "<svg" not in result[layer]._repr_html_()


def test_keys_are_completed(run: Results) -> None:
    assert run._ipython_key_completions_() == list(run)
    with Simulator(network(1), threads=1) as sim:
        assert {"V1", "dictionary", "energy"} <= set(sim._ipython_key_completions_())
        assert {"A", "V", "threshold"} <= set(sim["V1"]._ipython_key_completions_())
    with Simulator(lca_network(images(1)), threads=1) as sim:
        keys = sim["dictionary"]._ipython_key_completions_()
        assert {"weights", "strength", "learn.rate"} <= set(keys)
        for key in keys:
            sim["dictionary"][key]


def test_a_live_figure_follows_a_simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    curves = plotting.live()
    with Simulator(network(2), threads=1) as sim:
        sim.callback(curves, every=2)
        sim.run(6, quiet=True)
        expected = {f"{probe}/{one}" for probe in sim.network.probes for one in sim[probe]}
        assert curves.steps == [2, 4, 6]
        assert set(curves.values) == expected
        path = next(iter(expected))
        probe, quantity = path.split("/")
        assert curves.values[path][-1] == pytest.approx(sim[probe][quantity].mean())
        for axes, (path, values) in zip(curves.figure.axes, curves.values.items(), strict=True):
            drawn = 100 * np.array(values) if path.endswith("/fraction") else values
            np.testing.assert_array_equal(axes.lines[0].get_xydata(), np.transpose([[2, 4, 6], drawn]))
        labels = [" ".join(axes.get_ylabel().split()) for axes in curves.figure.axes]
        assert "Energy" in labels
        assert len(set(labels)) == len(labels)
        assert not any("/" in label and "[" not in label for label in labels)  # words, and names in brackets
        sim.callback(plotting.live(["energy/nothing"]), every=1)
        with pytest.raises(ArgumentError, match=r"(?s)quantities.*energy/nothing.*energy/total"):
            sim.step()
    plt.close("all")


def test_a_notebook_shows_the_live_figure_once_and_updates_it(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[object] = []

    class Handle:
        def update(self, figure: object) -> None:
            shown.append(figure)

    def display(figure: object, display_id: bool) -> Handle:
        shown.append(figure)
        return Handle()

    place = SimpleNamespace(display=display)
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: object(), display=place))
    monkeypatch.setitem(sys.modules, "IPython.display", place)
    curves = plotting.live()
    with Simulator(network(1), threads=1) as sim:
        sim.callback(curves, every=1)
        sim.step(3)
    assert shown == [curves.figure] * 3
    assert not plt.get_fignums()
