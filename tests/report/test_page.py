"""The report of a run as one HTML file."""

from __future__ import annotations

import base64
import csv
import io
import json
import os
import re
import shutil
import subprocess
import zlib
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import petabatch
from petabatch import plotting
from petabatch.connections import Identity, Sparse
from petabatch.errors import InputError, StoppedEarly
from petabatch.layers import LCA, Constant, Linear
from petabatch.pixels import atlas, png
from petabatch.plotting.table import times_as_csv
from petabatch.report.information import describe
from petabatch.report.page import content
from petabatch.report.page.build import report, rows
from petabatch.report.page.figures import _liveliest, drawings
from support.pictures import CORNERS, corners, four_corners, weights
from support.processes import PATIENCE

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return four_corners(tmp_path_factory.mktemp("corners"))


@pytest.fixture(scope="module")
def page(folder: Path) -> str:
    report(folder, folder.parent / "new" / "report.html")
    return (folder.parent / "new" / "report.html").read_text("utf-8")


@pytest.mark.parametrize(("rates", "shown"), [((-1.0, 0.1, 0.5, 4.0), 1), ((0.5, 4.0), 0)])
def test_points_that_diverge_leave_figures_of_the_others_without_warnings(
    tmp_path: Path, rates: tuple[float, ...], shown: int
) -> None:
    network = petabatch.Network(
        run={"steps": 400},
        layers={
            "n": {
                "type": "neurons",
                "shape": (1, 1, 2),
                "equations": "dv/dt = v * k",
                "parameters": {"k": 0.1},
                "start": {"v": {"type": "uniform", "low": -1.0, "high": 1.0}},
            }
        },
        sweep={"values": {"layers.n.parameters.k": rates}},
        output={"layers": {"n": {"variables": ["A", "v"], "every": 1}}},
    )
    petabatch.run(network, tmp_path / "run", quiet=True).close()
    report(tmp_path / "run", tmp_path / "report.html")
    with petabatch.open(tmp_path / "run") as run:
        assert np.isinf(run["layers/n/v"][...]).any()
        plotting.correlation(run)
        traces = plotting.traces(run, slice=len(rates) - 1)
        assert not np.isinf(traces.axes[0].lines[0].get_ydata()).any()
        legend = [text.get_text() for text in plotting.phase(run).legends[0].get_texts()]
        assert len(legend) - 1 == run.batch - (run.failed if shown else 0)
        assert _liveliest(run) == shown


def data(page: str) -> dict[str, Any]:
    text = page.split('<script type="application/json" id="data">')[1].split("</script>")[0]
    return dict(json.loads(text))


def decoded(url: str) -> np.ndarray:
    head, body = url.split(",")
    assert head == "data:image/png;base64"
    with Image.open(io.BytesIO(base64.b64decode(body))) as picture:
        return np.asarray(picture, float) / 255


def test_arrays_become_png_files_with_the_first_row_at_the_top() -> None:
    values = np.random.default_rng(0).integers(0, 256, (5, 7, 3))
    with Image.open(io.BytesIO(png(values / 255))) as picture:
        np.testing.assert_array_equal(np.asarray(picture), values)
    with Image.open(io.BytesIO(png(values[..., :1] / 255))) as picture:
        assert picture.mode == "L"
        np.testing.assert_array_equal(np.asarray(picture), values[..., 0])
    tiles = np.random.default_rng(1).random((5, 2, 4, 1))
    np.testing.assert_array_equal(atlas(tiles, 3)[2:4, 4:8], tiles[4])
    assert atlas(tiles, 3).shape == (4, 12, 1)


def test_images_and_features_of_the_page_look_like_the_file_and_the_weights(page: str) -> None:
    found = data(page)
    shown = found["reconstructions"][-1]
    np.testing.assert_allclose(
        corners(np.repeat(np.repeat(decoded(shown["images"][0]), 3, 0), 3, 1)), CORNERS
    )
    assert decoded(shown["images"][0]).shape == (8, 12, 3)
    (one,) = found["dictionaries"]
    tiles = decoded(one["atlas"])
    for number, patch in enumerate(weights()):
        y, x = (4 * each for each in divmod(number, one["columns"]))
        np.testing.assert_allclose(tiles[y : y + 4, x : x + 4], 0.5 + 0.5 * patch, atol=0.005)


def test_names_are_escaped(page: str) -> None:
    scripts, titles = [], []

    class Parser(HTMLParser):
        def handle_starttag(self, tag: str, attributes: Any) -> None:
            if tag == "script":
                scripts.append(dict(attributes))

        def handle_data(self, text: str) -> None:
            if self.lasttag in ("title", "h1"):
                titles.append(text.strip())

    Parser().feed(page)
    assert scripts == [{"type": "application/json", "id": "data"}, {}]
    assert titles.count("Four & <b>corners</b></script><script>stolen = 1</script>") == 2
    assert "<b>" not in page


def test_the_page_loads_nothing_and_is_small_beside_its_images(page: str) -> None:
    assert "default-src 'none'" in page
    for address in re.findall(r"(?:src|href|url)\s*[=(]\s*[\"']?([^\"')\s>]*)", page):
        assert address.startswith(("data:", "#", "${")), address
    assert len(re.sub(r"data:image/png;base64,[\w+/=]*", "", page)) < 300_000


def test_it_holds_what_info_prints_params_network_times_and_how_to_cite(folder: Path, page: str) -> None:
    for text in (
        "run directory",
        str(folder),
        "dead features",
        "recon_to_error: identity",
        "@software{petabatch",
    ):
        assert text in page
    assert "patch = [4, 4]" in page
    assert re.search(r"steps</th><td><span class=\"bar\"", page)
    assert rows("label              one two\n                   three\nother              four") == [
        ("label", "one two three"),
        ("other", "four"),
    ]
    assert "<pre>connections/dictionary/weights   time 3, pre_feature 3," in page
    table = "points             2\n  threshold  slices\n        0.5       1\nlog                done"
    assert rows(table) == [("points", "2\n  threshold  slices\n        0.5       1"), ("log", "done")]


def test_the_last_values_of_probes_are_no_rows_of_the_points(tmp_path: Path, small: Path) -> None:
    from petabatch import simulation

    tau = "layers.V1.tau={ slices = [3.0, 4.0, 4.0] }"
    params = simulation.read(small, ["run.kernel=array", "run.displays=1", tau])
    simulation.run(params, tmp_path / "out", threads=1, mpi=False, quiet=True)
    found = dict(rows(describe(tmp_path / "out")))
    assert re.fullmatch(r"residual \S+, sparsity \S+, total \S+ at step \d+", found["energy"])
    assert [line.split()[0] for line in found["points"].splitlines()] == ["2", "tau", "3", "4"]


def test_what_was_set_on_the_command_line_is_told_also_after_a_resume(
    tmp_path: Path, small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from petabatch import simulation
    from petabatch.session import RunSession

    given = ["run.kernel=array", "run.displays=2", "probes.energy.every=1", "title=a <b>"]
    monkeypatch.setattr(RunSession, "_out_of_time", lambda self: self.engine.step < 20)
    with pytest.raises(StoppedEarly):
        simulation.run(simulation.read(small, given), tmp_path / "out", threads=1, mpi=False, quiet=True)
    simulation.resume(tmp_path / "out", threads=1, mpi=False, quiet=True)
    with petabatch.open(tmp_path / "out") as run:
        assert run.attributes["overrides"] == given
    report(tmp_path / "out", tmp_path / "x.html")
    page = (tmp_path / "x.html").read_text("utf-8")
    assert "<li><code>probes.energy.every=1</code></li><li><code>title=a &lt;b&gt;</code></li>" in page


def test_curves_have_the_means_and_percentiles_of_the_slices(tmp_path: Path, small: Path) -> None:
    from petabatch import simulation

    simulation.run(
        simulation.read(small, ["run.kernel=array"]), tmp_path / "out", threads=1, mpi=False, quiet=True
    )
    report(tmp_path / "out", tmp_path / "x.html")
    found = data((tmp_path / "x.html").read_text("utf-8"))
    (chart,) = found["curves"]
    assert [line["name"] for line in chart["lines"]] == ["total", "residual", "sparsity"]
    with petabatch.open(tmp_path / "out") as run:
        total = run.probe("energy")["total"]
        np.testing.assert_allclose(chart["lines"][0]["mean"], total[...].mean(axis=1), rtol=1e-4)
        np.testing.assert_allclose(
            chart["lines"][0]["high"], np.percentile(total[...], 90, axis=1), rtol=1e-4
        )
        assert chart["lines"][0]["steps"] == total.steps.tolist()
    assert found["reconstructions"] == []  # the image is not recorded
    assert "patches" not in found["dictionaries"][0]
    assert len(found["dictionaries"][0]["use"]) == 8
    with pytest.raises(InputError, match="the report cannot be written"):
        report(tmp_path / "out", Path("/proc/x.html"))


def test_curves_of_many_displays_are_those_of_their_ends(tmp_path: Path, small: Path) -> None:
    from petabatch import simulation

    params = simulation.read(
        small, ["run.kernel=array", "run.display=2", "run.displays=10", "probes.energy.every=1"]
    )
    simulation.run(params, tmp_path / "out", threads=1, mpi=False, quiet=True)
    with petabatch.open(tmp_path / "out") as run:
        (chart,) = content.curves(run)
        values = run.probe("energy")["total"][...].reshape(10, 2, run.batch)
    line = chart["lines"][0]
    assert line["steps"] == list(range(2, 21, 2))
    np.testing.assert_allclose(line["mean"], values[:, -1].mean(axis=1), rtol=1e-4)
    np.testing.assert_allclose(line["high"], np.percentile(values[:, -1], 90, axis=1), rtol=1e-4)
    assert chart["note"].endswith("at the end of each display; bands: percentiles 10–90")
    report(tmp_path / "out", tmp_path / "x.html")
    assert data((tmp_path / "x.html").read_text("utf-8"))["curves"][0]["note"] == chart["note"]


CLICKS = """
<script>
const seen = [];
addEventListener("error", (event) => seen.push(event.message));
addEventListener("load", () => {
  const one = (selector) => document.querySelector(selector);
  one('[data-feature="2"]').click();
  seen.push(one(".detail figcaption").textContent, document.querySelectorAll(".patch").length);
  const before = one(".triple img").src;
  [...document.querySelectorAll("button")].find((each) => each.textContent === "next").click();
  seen.push(one(".triple img").src === before, one('[data-menu="time"]').selectedIndex);
  seen.push(typeof stolen, one("h1").textContent, one(".drawing svg").clientWidth > 300);
  const chart = one(".chart svg"), box = chart.getBoundingClientRect();
  const points = () => one(".chart polyline").getAttribute("points").split(" ").length;
  const whole = points();
  for (const [type, share] of [["pointerdown", 0.5], ["pointermove", 0.6], ["pointerup", 0.7]])
    chart.dispatchEvent(
      new PointerEvent(type, { clientX: box.left + share * box.width, clientY: box.top + 50 }));
  const zoomed = points();
  chart.dispatchEvent(new MouseEvent("dblclick"));
  seen.push([whole, zoomed, points()]);
  const image = new Image();
  image.onload = () => {
    const canvas = document.createElement("canvas"), pen = canvas.getContext("2d");
    pen.drawImage(image, 0, 0);
    const at = (x, y) => [...pen.getImageData(x, y, 1, 1).data].slice(0, 3);
    seen.push(at(0, 0), at(11, 0), at(0, 7), at(11, 7));
    document.title = JSON.stringify(seen);
  };
  image.src = one(".triple img").src;
});
</script>
"""


def in_browser(page: str, script: str, folder: Path, *options: str) -> list[Any]:
    """Return what a script in the head of a page leaves as the title, in JSON."""
    file = folder / "opened.html"
    file.write_text(page.replace("</head>", f"{script}</head>"), encoding="utf-8")
    # Chromium hangs now and then as it starts on a busy machine; the next one has a profile of its own.
    for attempt, patience in enumerate(limits := (20, 60, PATIENCE / 2)):
        try:
            done = subprocess.run(
                [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                 "--disable-background-networking", "--disable-component-update", "--disable-sync",
                 f"--user-data-dir={folder / f'profile{attempt}'}", "--virtual-time-budget=5000",
                 *options, "--dump-dom", file.as_uri()],
                capture_output=True, text=True, timeout=patience, check=True,
                env={**os.environ, "HOME": str(folder)},
            )  # fmt: skip
            break
        except subprocess.TimeoutExpired:
            if patience == limits[-1]:
                raise
    title = re.search(r"<title>(.*?)</title>", done.stdout, re.S)
    assert title
    return list(json.loads(unescape(title[1])))


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_shows_features_and_reconstructions_when_clicked(page: str, tmp_path: Path) -> None:
    seen = in_browser(page, CLICKS, tmp_path)
    caption, patches, same, time, stolen, heading, wide, points, *colours = seen
    assert re.fullmatch(r"feature 2: [\d.]+ % active", caption)
    assert patches == 2  # one of each image shown
    assert (same, time) == (True, 0)  # from the last display on to the first; both show the same image
    assert stolen == "undefined"
    assert heading == "Four & <b>corners</b></script><script>stolen = 1</script>"
    assert wide
    assert points[0] == points[2] == 20  # steps of two displays
    assert 3 <= points[1] <= 6  # a fifth of the chart
    assert colours == [[255, 0, 0], [0, 255, 0], [0, 0, 255], [255, 255, 255]]


SHAPES = """
<script>
addEventListener("load", () => {
  const svg = document.querySelector(".chart svg");
  const drawn = (kind) => [...svg.querySelectorAll(kind)].map((each) =>
    each.getAttribute("points").split(" ").map((point) => point.split(",").map(Number)));
  document.title = JSON.stringify([drawn("polyline"), drawn("polygon")]);
});
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_draws_lines_outside_of_their_bands_and_where_there_are_none(
    page: str, tmp_path: Path
) -> None:
    line = {"name": "gap", "steps": [10, 20, 30, 40, 50], "mean": [4, 1, 2, 3, None],
            "low": [5, 5, 6, 6, None], "high": [9, 9, None, 9, None]}  # fmt: skip
    text = json.dumps({**data(page), "curves": [{"title": "gap", "note": "", "lines": [line], "gaps": []}]})
    begin, end = (page.index(mark) for mark in ('id="data">', "</script>\n<script>"))
    lines, bands = in_browser(f'{page[:begin]}id="data">{text}{page[end:]}', SHAPES, tmp_path)
    assert [len(each) for each in lines] == [4]
    assert [len(each) for each in bands] == [2 * 2, 2 * 1]
    heights = [y for shape in lines + bands for _, y in shape]
    assert 10 <= min(heights) <= max(heights) <= 206  # within the axes


SPIKING = """
[run]
batch = 2
steps = 60
[layers]
drive = { type = "constant", shape = [1, 3, 1], value = 1.0 }
cells = { type = "conductance_lif", shape = [1, 3, 1] }
[connections]
current = { type = "identity", pre = "drive", post = "cells", strength = 5.0 }
[output.layers]
cells = { every = 1, variables = ["A", "V"] }
"""


@pytest.fixture(scope="module")
def spiking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from petabatch import simulation

    folder = tmp_path_factory.mktemp("spiking")
    (folder / "net.toml").write_text(SPIKING)
    simulation.run(simulation.read(folder / "net.toml"), folder / "out", threads=1, mpi=False, quiet=True)
    return folder / "out"


def test_it_leads_with_what_was_found_and_ends_with_where_it_comes_from(page: str, spiking: Path) -> None:
    report(spiking, spiking.parent / "x.html")
    spikes = (spiking.parent / "x.html").read_text("utf-8")
    sections = r'<section id="(\w+)"'
    last = ["network", "params", "time", "provenance", "cite"]
    assert re.findall(sections, page) == ["reconstructions", "dictionary", "sparsity", "curves", *last]
    assert re.findall(sections, spikes) == ["figures", *last]
    assert re.findall(r'data-name="(\w+)" role="img" aria-label="\w', spikes) == [
        "raster", "correlation", "traces", "network",
    ]  # fmt: skip
    with petabatch.open(spiking) as run:
        rate = run.layer("cells")[:, 0].mean()
    (said,) = re.findall("<li>(A unit of cells .*?)</li>", spikes)
    assert said == f"A unit of cells spikes {rate:.3g} times per step in slice 0; none of the 3 are silent."
    assert "<li>2 slices over 60 steps.</li>" in spikes
    assert "<li>dictionary has 3 features of 4 × 4, " in page
    assert "<li>1 slice over 2 displays of 10 steps.</li>" in page


SAVES = """
<script>
const saved = [];
URL.createObjectURL = (blob) => { saved.push(blob.text()); return "data:,"; };
addEventListener("load", async () => {
  document.addEventListener("click", (event) => { if (event.target.download) event.preventDefault(); }, true);
  for (const button of document.querySelectorAll(".save button")) button.click();
  await new Promise((done) => setTimeout(done, 500));
  const texts = await Promise.all(saved);
  document.title = JSON.stringify([
    [...document.querySelectorAll(".save button")].map((each) => each.textContent),
    texts, getComputedStyle(document.body).backgroundColor]);
});
</script>
"""


def _same(rows: list[dict[str, str]], places: tuple[str, ...], columns: dict[str, np.ndarray]) -> None:
    """Assert that a table in long form has all values of arrays, at their places."""
    for name, array in columns.items():
        found = np.full(array.shape, np.nan)
        for row in rows:
            found[tuple(int(row[place]) for place in places)] = float(row[name])
        np.testing.assert_allclose(found, array, rtol=1e-6, atol=1e-12)
        assert len(rows) == array.size


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_a_browser_saves_every_figure_with_its_numbers_and_is_dark_where_that_is_preferred(
    folder: Path, page: str, tmp_path: Path
) -> None:
    buttons, texts, light = in_browser(page, SAVES, tmp_path)
    assert buttons == [
        "save PNG", "save CSV", "save CSV (all)", "save CSV", "save PNG", "save CSV", "save CSV (use)",
        *["save SVG", "save CSV"] * 3, "save CSV",
    ]  # fmt: skip
    tables = {text.split("\n")[0]: list(csv.DictReader(io.StringIO(text))) for text in texts}
    with petabatch.open(folder) as run:
        first = float(run.probe("energy")["total"][0, 0])
        image, recon = (run.layer(name)[-1, 0] for name in ("image", "recon"))
        features = run.weights("dictionary")[-1]
    curve = tables["line,step,Display,mean,percentile 10,percentile 90"][0]
    assert (curve["line"], curve["step"], curve["Display"]) == ("total", "1", "0.1")
    assert float(curve["mean"]) == pytest.approx(first, rel=1e-4)
    assert sum(text.startswith("panel,series,x,y,value") for text in texts) == 1
    assert sum("<svg" in text for text in texts) == 3
    weights = tables["feature,row,column,channel,weight"]
    _same(weights, ("feature", "row", "column", "channel"), {"weight": features})
    shown = tables["time,slice,row,column,channel,input,reconstruction,error"]
    columns = {"input": image, "reconstruction": recon, "error": image - recon}
    _same(shown, ("row", "column", "channel"), columns)
    assert {(row["time"], row["slice"]) for row in shown} == {("display 2", "0")}
    chosen = tables["feature,patch,shown,activity,row,column,channel,value"]  # of the feature used most
    assert len(chosen) == 2 * 4 * 4 * 3
    assert {row["shown"] for row in chosen} == {"display 1, slice 0", "display 2, slice 0"}
    assert "feature,active (fraction),strongest activities" in tables
    assert "time,slice,shown,reconstruction,scale of the error" in tables
    (saved,) = (text for text in texts if ">Energy</text>" in text)  # its title, beside it on the page
    assert all(f">{name}</text>" in saved for name in ("total", "residual", "sparsity", "Display"))
    assert light == "rgb(255, 255, 255)"
    *_, dark = in_browser(page, SAVES, tmp_path, "--blink-settings=preferredColorScheme=0")
    assert dark == "rgb(23, 25, 28)"


def test_times_are_saved_as_their_bars_have_them(folder: Path, page: str) -> None:
    table = list(csv.DictReader(io.StringIO(data(page)["tables"]["time"])))
    with petabatch.open(folder) as run:
        seconds = run.attributes["times"]["steps"]
    assert {row["activity"]: float(row["seconds"]) for row in table}["steps"] == pytest.approx(
        seconds, rel=1e-6
    )
    assert sum(float(row["fraction"]) for row in table) == pytest.approx(1)
    for row in table:
        (drawn,) = re.findall(
            f"<th>{row['activity']}</th><td><span [^>]*></span> (.*?) s, (.*?) %</td>", page
        )
        found = float(row["seconds"]), 100 * float(row["fraction"])
        np.testing.assert_allclose(found, [float(each) for each in drawn], atol=0.051)  # of one digit
    assert times_as_csv({}) == ""


def test_image_patches_are_saved_as_the_image_under_them(tmp_path: Path) -> None:
    folder = four_corners(tmp_path, 'layers.image.source.normalize="standard"')  # not from 0 to 1
    with petabatch.open(folder) as run:
        (one,) = content.dictionaries(run)
        image = run.layer("image")[-1, 0]
    blocks = [image[y : y + 4, x : x + 4] for y in (0, 4) for x in (0, 4, 8)]  # the patches do not overlap
    for patches in one["patches"].values():
        packed = zlib.decompress(base64.b64decode(patches["pixels"]))
        for found in np.frombuffer(packed, "<f4").reshape(-1, 4, 4, 3):
            assert any(np.array_equal(found, block) for block in blocks)


def test_of_many_image_patches_those_of_features_used_most_have_pixels(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(content, "_PATCH_PIXELS", 2 * 48)  # two patches of one feature
    with petabatch.open(folder) as run:
        (one,) = content.dictionaries(run)
    assert len(one["patches"]) > 1
    most = str(int(np.argmax(one["use"])))
    assert [number for number, each in one["patches"].items() if "pixels" in each] == [most]


PRINTED = """
<script>
addEventListener("load", () => {
  const all = [...document.styleSheets[0].cssRules];
  const rules = all.filter((each) => each.media && each.media.mediaText === "print");
  const hidden = rules.flatMap((each) => [...each.cssRules]).filter((each) => each.style.display === "none");
  const seen = (selector) => [...document.querySelectorAll(selector)].filter(
    (each) => !hidden.some((rule) => each.matches(rule.selectorText))).length;
  const parts = [".grid .tile", ".triple img", ".chart svg", ".save"];
  document.title = JSON.stringify([hidden.length, ...parts.map(seen)]);
});
</script>
"""


@pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium on this machine")
def test_features_images_and_curves_are_printed_and_buttons_are_not(page: str, tmp_path: Path) -> None:
    rules, features, images, curves, buttons = in_browser(page, PRINTED, tmp_path)
    assert rules
    assert (features, images, buttons) == (3, 3, 0)
    assert curves == len(data(page)["curves"])


def test_a_report_leaves_out_figures_of_layers_that_are_silent() -> None:
    silent = petabatch.in_memory.run(
        petabatch.Network(
            run={"steps": 20},
            layers={
                "ones": Constant(shape=(1, 1, 3), value=1.0),
                "code": LCA(shape=(1, 1, 3), threshold=10.0),
            },
            connections={"see": Identity(pre="ones", post="code")},
            output={"layers": {"code": {"every": 1}}},
        )
    )
    assert not {drawing.name for drawing in drawings(silent)} & {"raster", "correlation"}
    for kind in ("raster", "correlation"):
        with pytest.raises(InputError, match=r"is silent in slice 0|fewer than two units .* change"):
            getattr(petabatch.plotting, kind)(silent)


def test_weights_of_synapses_are_no_dictionary(tmp_path: Path) -> None:
    network = petabatch.Network(
        run={"steps": 4},
        layers={"p": Constant(shape=(1, 1, 3)), "q": Linear(shape=(1, 1, 2))},
        connections={"c": Sparse(pre="p", post="q", matrix=([0, 1], [1, 0], [0.5, 0.25]))},
        output={"connections": {"c": {"every": 2}}},
    )
    petabatch.run(network, tmp_path / "run", quiet=True)
    report(tmp_path / "run", tmp_path / "report.html")
    with petabatch.open(tmp_path / "run") as run:
        assert content.dictionaries(run) == []
        with pytest.raises(InputError, match="has no patches"):
            plotting.dictionary(run, connection="c")
