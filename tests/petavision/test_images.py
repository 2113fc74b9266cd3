"""PetaVision's input layers: which frame each batch element shows, and what is made of it."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

import petabatch
from petabatch import in_memory
from petabatch.errors import ParamsError
from petabatch.petavision import read
from petabatch.petavision.pvp import write_activities
from support.petavision_network import group

RNG = np.random.default_rng(0)
FRAMES = RNG.normal(size=(5, 6, 4, 1)).astype(np.float32)


def shown(folder: Path, size: tuple[int, int] = (6, 4), batch: int = 2, **parameters: Any) -> Any:
    """Return `read(slice, display)` of an input layer with these parameters."""
    write_activities(folder / "frames.pvp", (6, 4, 1), enumerate(FRAMES))
    (folder / "net.params").write_text(
        group("HyPerCol", "column", nx=size[1], ny=size[0], nbatch=batch, stopTime=8)
        + group("PvpLayer", "Input", inputPath="frames.pvp", nf=1, displayPeriod=2, **parameters)
    )
    layer: Any = petabatch.load(folder / "net.params").network.layers["Input"]
    return layer.source.open(layer.shape, batch, 1)


@pytest.mark.parametrize(
    ("method", "start", "skip", "expected"),
    [
        ("byImage", None, None, [[0, 1], [2, 3], [4, 0]]),
        ("byList", None, None, [[0, 2], [1, 3], [2, 4]]),
        ("byList", [1, 2], None, [[1, 4], [2, 0], [3, 1]]),
        ("byList", [0], None, [[0, 2], [1, 3], [2, 4]]),
        ("byImage", [0], None, [[0, 1], [2, 3], [4, 0]]),
        ("bySpecified", [1, 4], [2, 0], [[1, 4], [3, 0], [0, 1]]),
        ("byFile", [3, 1], None, [[3, 2], [0, 4], [2, 1]]),
    ],
)
def test_each_element_shows_the_frames_of_its_batch_method(
    method: str, start: Any, skip: Any, expected: list[list[int]], tmp_path: Path
) -> None:
    read = shown(tmp_path, batchMethod=method, start_frame_index=start, skip_frame_index=skip)
    for display, row in enumerate(expected):
        for number, frame in enumerate(row):
            np.testing.assert_array_equal(read(number, display), FRAMES[frame])


@pytest.mark.parametrize(
    ("anchor", "offset", "rows"),
    [
        ("tl", 0, [0, 1, 2, 3]),
        ("tl", -1, [None, 0, 1, 2]),
        ("bl", 0, [2, 3, 4, 5]),
        ("cl", 1, [2, 3, 4, 5]),
        ("cr", -2, [None, 0, 1, 2]),
        ("br", 2, [4, 5, None, None]),
    ],
)
def test_frames_are_placed_by_anchor_and_offset_and_padded_after_normalisation(
    anchor: str, offset: int, rows: list[int | None], tmp_path: Path
) -> None:
    read = shown(
        tmp_path, (4, 4), offsetAnchor=anchor, offsetY=offset, padValue=7, normalizeLuminanceFlag=True,
        normalizeStdDev=False,
    )  # fmt: skip
    expected = np.full((4, 4, 1), 7.0)
    there = [i for i, row in enumerate(rows) if row is not None]
    pixels = FRAMES[0][[row for row in rows if row is not None]].astype(float)
    expected[there] = (pixels - pixels.min()) / np.ptp(pixels)
    np.testing.assert_allclose(read(0, 0), expected, atol=1e-6)


@pytest.mark.parametrize("anchor", ["tl", "tr", "cc", "cr", "bl", "br"])
@pytest.mark.parametrize("offset", [(0, 0), (-1, 1), (1, -1), (0, 2)])
@pytest.mark.parametrize("size", [(3, 2), (5, 4), (7, 5)])
def test_an_offset_moves_the_image_with_its_margin(
    size: tuple[int, int], offset: tuple[int, int], anchor: str, tmp_path: Path
) -> None:
    """With `useInputBCflag`, also what a connection sees beyond the edge of the layer is of the image."""
    write_activities(tmp_path / "frames.pvp", (6, 4, 1), enumerate(FRAMES))
    (y, x), (ny, nx) = offset, size
    (tmp_path / "net.params").write_text(
        group("HyPerCol", "column", nx=nx, ny=ny, stopTime=1)
        + group(
            "PvpLayer", "I", inputPath="frames.pvp", nf=1, displayPeriod=2, useInputBCflag=True, offsetX=x,
            offsetY=y, offsetAnchor=anchor, padValue=7, normalizeLuminanceFlag=True, normalizeStdDev=False,
        )
        + group("HyPerLayer", "O", nf=1, phase=1)
        + group(
            "HyPerConn", "IToO", channelCode=0, nxp=3, nyp=3, plasticityFlag=False, normalizeMethod="none",
            weightInitType="UniformWeight", weightInit=1,
        )
    )  # fmt: skip
    expected = framed(FRAMES[0, ..., 0], (ny + 2, nx + 2), anchor, offset)
    states = in_memory.run(petabatch.load(tmp_path / "net.params"), [1]).states
    np.testing.assert_allclose(states["layers/I/A"][0, 0, ..., 0], expected[1:-1, 1:-1], atol=1e-6)
    sums = np.lib.stride_tricks.sliding_window_view(expected, (3, 3)).sum((2, 3))
    np.testing.assert_allclose(states["layers/O/A"][0, 0, ..., 0], sums, atol=2e-5)


def test_windows_of_pooling_see_the_image_beyond_the_edge(tmp_path: Path) -> None:
    write_activities(tmp_path / "frames.pvp", (6, 4, 1), enumerate(FRAMES))
    (tmp_path / "net.params").write_text(
        group("HyPerCol", "column", nx=2, ny=4, stopTime=1)
        + group(
            "PvpLayer", "I", inputPath="frames.pvp", nf=1, displayPeriod=2, useInputBCflag=True,
            offsetAnchor="br", offsetY=1, padValue=9,
        )
        + group("HyPerLayer", "O", nf=1, phase=1)
        + group("PoolingConn", "IToO", channelCode=0, nxp=3, nyp=3, pvpatchAccumulateType="maxpooling")
    )  # fmt: skip
    expected = np.pad(FRAMES[0, 1:, :, 0], ((0, 1), (0, 0)), constant_values=9)
    states = in_memory.run(petabatch.load(tmp_path / "net.params"), [1]).states
    np.testing.assert_array_equal(states["layers/I/A"][0, 0, ..., 0], expected[1:-1, 1:-1])
    largest = np.lib.stride_tricks.sliding_window_view(expected, (3, 3)).max((2, 3))
    np.testing.assert_array_equal(states["layers/O/A"][0, 0, ..., 0], largest)


def framed(image: np.ndarray, size: tuple[int, int], anchor: str, offset: tuple[int, int]) -> np.ndarray:
    """Return what a frame of a layer and its margins shows, pixel by pixel, scaled to [0, 1], 7 elsewhere.

    Source: PetaVision's `InputActivityBuffer.cpp:722-870`.
    """
    found = np.full(size, 7.0)
    first = [
        {"t": 0, "l": 0, "c": have // 2 - want // 2}.get(word, have - want)
        for word, have, want in zip(anchor, image.shape, size, strict=True)
    ]
    inside = {}
    for at in np.ndindex(size):
        row, column = (a + b + c for a, b, c in zip(at, first, offset, strict=True))
        if 0 <= row < image.shape[0] and 0 <= column < image.shape[1]:
            inside[at] = image[row, column]
    low, high = min(inside.values()), max(inside.values())
    for at, value in inside.items():
        found[at] = (value - low) / (high - low)
    return found


def test_a_list_may_name_files_relative_to_the_working_directory_of_the_original(tmp_path: Path) -> None:
    """As in `input/images.txt` of a project, which names `input/a.png`."""
    (tmp_path / "input").mkdir()
    for number, name in enumerate("ab"):
        Image.fromarray(np.full((4, 4), 100 * number, np.uint8)).save(tmp_path / "input" / f"{name}.png")
    (tmp_path / "input" / "images.txt").write_text("input/a.png\ninput/b.png\n")
    (tmp_path / "input" / "net.params").write_text(
        group("HyPerCol", "column", nx=4, ny=4, stopTime=8)
        + group("ImageLayer", "Input", inputPath="input/images.txt", nf=1, displayPeriod=2)
    )
    layer: Any = petabatch.load(tmp_path / "input" / "net.params").network.layers["Input"]
    read = layer.source.open(layer.shape, 1, 1)
    assert [read(0, display).max() for display in range(2)] == [0, pytest.approx(100 / 255)]


@pytest.mark.parametrize("given", [{"batchMethod": "random"}, {"jitterChangeInterval": 1, "maxShiftX": 1}])
def test_inputs_with_seeds_of_their_own_make_other_choices(given: dict[str, Any], tmp_path: Path) -> None:
    write_activities(tmp_path / "frames.pvp", (6, 4, 1), enumerate(FRAMES))
    given |= {"inputPath": "frames.pvp", "nf": 1, "displayPeriod": 1, "offsetX": 1}
    seeds = {"A": 77, "B": 78, "Again": 77, "Default": 123456789}
    (tmp_path / "net.params").write_text(
        group("HyPerCol", "column", nx=2, ny=6, nbatch=2, stopTime=20)
        + "".join(group("PvpLayer", name, randomSeed=seed, **given) for name, seed in seeds.items())
    )
    states = in_memory.run(petabatch.load(tmp_path / "net.params"), range(1, 21)).states
    shown = {name: states[f"layers/{name}/A"] for name in seeds}
    assert (shown["A"] == shown["Again"]).all()
    for name in ("B", "Default"):
        assert 0.1 < (shown["A"] == shown[name]).all((2, 3, 4)).mean() < 0.9


def test_a_list_of_images_that_are_elsewhere_is_translated(tmp_path: Path) -> None:
    lines = [f"/elsewhere/{number}.png" for number in range(30)]
    (tmp_path / "list.txt").write_text("\n".join(lines))
    (tmp_path / "net.params").write_text(
        group("HyPerCol", "column", nx=4, ny=4, stopTime=8, nbatch=2)
        + group(
            "ImageLayer", "I", inputPath="list.txt", nf=1, displayPeriod=2, start_frame_index=[31, 2],
            normalizeLuminanceFlag=True,
        )
    )  # fmt: skip
    (found,) = read(tmp_path / "net.params", tmp_path)
    assert found.translation.error() is None
    assert "list.txt names 30 files, such as /elsewhere/0.png, of which none is there" in found.report
    source = tomllib.loads(found.text)["layers"]["I"]["source"]
    assert source["files"] == "list.txt"
    assert source["order"] == {"type": "specified", "start": [1, 3], "skip": 2}
    Image.fromarray(np.zeros((4, 4), np.uint8)).save(tmp_path / "29.png")
    (found,) = read(tmp_path / "net.params", tmp_path, [("/elsewhere/29", str(tmp_path / "29"))])
    source = tomllib.loads(found.text)["layers"]["I"]["source"]
    assert source["files"] == [*lines[:29], "29.png"]
    assert source["order"] == {"type": "specified", "start": [1, 3], "skip": 2}
    assert "file not found: /elsewhere/19.png\nand 9 more files are not found" in found.report


def test_frames_are_inverted(tmp_path: Path) -> None:
    frame = FRAMES[0]
    read = shown(tmp_path, inverseFlag=True)
    np.testing.assert_allclose(read(0, 0), frame.min() + frame.max() - frame, atol=1e-6)
    read = shown(tmp_path, inverseFlag=True, normalizeLuminanceFlag=True)
    np.testing.assert_allclose(read(0, 0), -(frame - frame.mean()) / frame.std(), atol=1e-4)


def test_a_frame_that_misses_the_layer_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="moves the image out of the layer"):
        shown(tmp_path, offsetX=20)
    with pytest.raises(ParamsError, match="not one number for each batch element"):
        shown(tmp_path, start_frame_index=[1])
