"""Drawings of networks."""

from __future__ import annotations

import csv
import io
from itertools import pairwise
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

from petabatch.plotting.network import _BOX, _Layout, describe, draw_network, levels
from petabatch.plotting.table import network_as_csv

mpl.use("agg")


def hierarchy(depth: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the layers and connections of a hierarchy of codes, with `3 * depth + 1` layers."""
    layers: dict[str, Any] = {"image": {"type": "input", "shape": [32, 32, 3]}}
    connections: dict[str, Any] = {}

    def connect(pre: str, post: str, **keys: Any) -> None:
        table = {"type": "identity", "channel": "exc", "feedback": False, "pre": pre, "post": post, **keys}
        connections[f"{pre}_to_{post}"] = table

    below = "image"
    for number in range(1, depth + 1):
        error, code, recon = (f"{name}{number}" for name in ("error", "V", "recon"))
        layers |= {name: {"type": "linear", "shape": [32, 32, 128]} for name in (error, recon)}
        layers[code] = {"type": "lca", "shape": [16, 16, 128]}
        connect(below, error)
        connect(recon, error, channel="inh", feedback=True)
        connect(code, recon, type="conv", patch=[8, 6], mode="extra_shared", learn={"type": "hebbian"})
        connect(error, code, type="transpose", of=f"{code}_to_{recon}")
        if number > 1:
            connect(error, below, channel="inh", feedback=True)
        below = code
    connect("image", below)  # over all levels
    return layers, connections


def test_the_table_of_a_drawing_has_its_parts() -> None:
    rows = list(csv.DictReader(io.StringIO(network_as_csv(*hierarchy(1)))))
    assert [(row["part"], row["number"], row["name"]) for row in rows[:4]] == [
        ("layer", "", "image"), ("layer", "", "error1"), ("layer", "", "recon1"), ("layer", "", "V1"),
    ]  # fmt: skip
    assert [rows[3][size] for size in ("type", "rows", "columns", "features")] == ["lca", "16", "16", "128"]
    learned = rows[6]
    assert [learned[key] for key in ("number", "pre", "post", "rows", "columns", "mode", "learn")] == [
        "3", "V1", "recon1", "8", "6", "extra_shared", "hebbian",
    ]  # fmt: skip
    assert rows[5]["feedback"] == "True"
    assert rows[7]["of"] == "V1_to_recon1"


@pytest.mark.parametrize("depth", [1, 2, 7])
def test_layers_and_lines_do_not_lie_on_one_another(depth: int) -> None:
    layers, connections = hierarchy(depth)
    layout = _Layout.of(layers, connections)
    centres = np.array(list(layout.places.values()))
    for one, other in zip(*np.triu_indices(len(centres), 1), strict=True):
        assert (np.abs(centres[one] - centres[other]) >= _BOX).any()
    for line, table in zip(layout.lines, connections.values(), strict=True):
        fractions = np.linspace(0, 1, 60)[:, None]
        points = np.concatenate(
            [np.subtract(1, fractions) * a + fractions * b for a, b in pairwise(np.array(line.points))]
        )
        for name, centre in layout.places.items():
            inside = (np.abs(points - centre) < np.array(_BOX) / 2 - 0.01).all(axis=1)
            assert not inside.any(), (table["pre"], table["post"], name)
    lanes = [tuple(np.round(line.points[2:4], 3).ravel()) for line in layout.lines if len(line.points) > 2]
    assert len(set(lanes)) == len(lanes)


def test_the_key_names_patch_mode_and_learning_rule() -> None:
    layers, connections = hierarchy(1)
    assert describe("V1_to_recon1", connections["V1_to_recon1"]) == (
        "V1_to_recon1: conv, 8 × 6, extra_shared, learns (hebbian)"
    )
    figure = draw_network(layers, connections, "a $ and <b>")
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert f"1  {describe('image_to_error1', connections['image_to_error1'])}" in texts
    assert {"a $ and <b>", "subtracted", "feedback", "code", "V1"} <= set(texts)
    figure.canvas.draw()
    whole = figure.bbox
    for text in figure.axes[0].texts:
        box = text.get_window_extent()
        assert whole.x0 <= box.x0 <= box.x1 <= whole.x1, text
        assert whole.y0 <= box.y0 <= box.y1 <= whole.y1, text


def test_levels_follow_what_is_no_feedback() -> None:
    layers, connections = hierarchy(1)
    assert levels(layers, connections) == {"image": 0, "error1": 1, "recon1": 3, "V1": 2}
