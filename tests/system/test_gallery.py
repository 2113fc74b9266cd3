"""The gallery of figures: every kind, as the pictures in docs/gallery show it."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.plotting.kinds import KINDS

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def gallery() -> dict[str, Any]:
    return runpy.run_path(str(DOCS / "gallery.py"))


def test_the_page_is_that_of_the_script_and_has_every_kind(gallery: dict[str, Any]) -> None:
    text = (DOCS / "gallery.md").read_text("utf-8")
    assert text == gallery["page"](), "run: python docs/gallery.py"
    assert all(f"petabatch plot {kind} runs/gallery/" in text for kind in KINDS)
    shown = {figure.file for figures in gallery["FIGURES"].values() for figure in figures}
    assert shown | {"texts.txt"} == {file.name for file in (DOCS / "gallery").iterdir()}
    heads = re.findall(r"^== (.+)$", (DOCS / "gallery" / "texts.txt").read_text("utf-8"), re.M)
    assert heads == [name for name in gallery["FILES"] if name.endswith(".png")]
    assert sum(file.stat().st_size for file in (DOCS / "gallery").iterdir()) < 2_000_000


def test_pictures_differ_by_more_than_their_fonts(gallery: dict[str, Any], tmp_path: Path) -> None:
    from PIL import Image

    original = DOCS / "gallery" / "compare.png"
    with Image.open(original) as picture:
        pixels = np.asarray(picture.convert("RGB"))
    Image.fromarray(np.roll(pixels, 1, axis=1)).save(tmp_path / "moved.png")  # as by another font
    Image.fromarray(pixels[..., ::-1]).save(tmp_path / "colours.png")
    blank = pixels.copy()
    blank[40:200, 480:] = 255  # without a panel
    Image.fromarray(blank).save(tmp_path / "panel.png")
    curve = pixels.copy()
    curve[np.abs(pixels - np.array([0xE6, 0x9F, 0x00])).sum(axis=-1) < 120] = (0x00, 0x72, 0xB2)
    Image.fromarray(curve).save(tmp_path / "curve.png")  # orange has become blue
    values = {
        name: gallery["difference"](tmp_path / f"{name}.png", original)
        for name in ("moved", "colours", "panel", "curve")
    }
    moved = values.pop("moved")
    assert moved < gallery["DIFFERENT"] < min(values.values()), (moved, values)
    assert gallery["difference"](tmp_path / "nothing.png", original) == float("inf")


def test_a_changed_word_or_number_is_seen(gallery: dict[str, Any], tmp_path: Path) -> None:
    import matplotlib.pyplot as plt

    from petabatch import plotting

    def words(label: str) -> list[str]:
        figure, axes = plt.subplots()
        axes.set(title="Use of the features;\nnone dead", xlabel=label, xticks=[1, 2, 4], yticks=[])
        axes.plot([1, 4], [0, 1], label="a slice")
        figure.legend()
        plotting.finish(figure, tmp_path / "x.svg")
        return list(gallery["texts"](tmp_path / "x.svg"))

    seen = words("Rank by use")
    assert seen == ["1 2 4", "Rank by use", "Use of the features;", "none dead", "a slice"]
    assert gallery["listed"]({Path("x.png"): seen, Path("x.gif"): []}) == ["== x.png", *seen, ""]
    assert words("Ranks by use") != seen


@pytest.mark.demo
def test_figures_look_as_in_the_gallery(
    gallery: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("demos", "params"):
        (tmp_path / name).symlink_to(DOCS.parent / name)
    monkeypatch.chdir(tmp_path)
    made = gallery["make"]()
    found = {file.name: gallery["difference"](file, DOCS / "gallery" / file.name) for file in made}
    assert not {name: value for name, value in found.items() if value > gallery["DIFFERENT"]}
    assert gallery["listed"](made) == (DOCS / "gallery" / "texts.txt").read_text("utf-8").splitlines()
