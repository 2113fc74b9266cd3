"""Rows of images that are read without the others, for ranks that have a tile each."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image

from petabatch.sources import ImageArray, Images
from petabatch.sources.transforms import (
    AddNoise,
    Colour,
    Crop,
    Flip,
    Grey,
    Invert,
    Normalize,
    Pad,
    Region,
    Transform,
)
from petabatch.sources.view import View

SHAPE = (24, 20, 3)
ROWS = [slice(0, 5), slice(5, 24), slice(0, 24), slice(7, 8)]
CHAINS: dict[str, tuple[Transform, ...]] = {
    "crop": (Crop(),),
    "flipped": (Flip(direction="vertical"), Crop(), Flip()),
    "grey": (Grey(), Colour(), Crop(position="center", offset=(1, -1))),
    "contrast": (Crop(contrast=0.01),),
    "normalised": (Crop(), Normalize()),
    "all": (Pad(size=(50, 50)), Crop(), Invert(), AddNoise(std=0.1)),
    "region": (Crop(), Region()),
}


def stack(count: int = 3, shape: tuple[int, ...] = (32, 28, 3)) -> np.ndarray:
    return np.random.default_rng(1).integers(0, 256, (count, *shape), np.uint8)


@pytest.mark.parametrize("chain", CHAINS)
@pytest.mark.parametrize("channels", [1, 3])
def test_rows_are_those_of_the_whole_image(chain: str, channels: int) -> None:
    source = ImageArray(data=stack(shape=(32, 28, channels)), transforms=CHAINS[chain])
    whole, parts = (source.stream(SHAPE, 4, 7) for _ in range(2))
    for number in range(4):
        for display in range(3):
            image = whole(number, display)
            for rows in ROWS:
                np.testing.assert_array_equal(parts.rows(number, display, rows), image[rows])
            assert parts.shown(number, display) == whole.shown(number, display)


def of_files(folder: Path) -> dict[str, View]:
    """Return sources that show the same three images."""
    images = stack()
    for number, image in enumerate(images):
        Image.fromarray(image).save(folder / f"{number}.png")
        np.save(folder / f"{number}.npy", image)
    np.save(folder / "stack.npy", images)
    np.savez(folder / "stack.npz", images)
    with h5py.File(folder / "stack.h5", "w") as file:
        file["images"] = images
    return {
        "png": Images(files=str(folder / "*.png")),
        "one by one": Images(files=tuple(str(folder / f"{number}.npy") for number in range(3))),
        "npy": ImageArray(file=str(folder / "stack.npy")),
        "npz": ImageArray(file=str(folder / "stack.npz")),
        "hdf5": ImageArray(file=str(folder / "stack.h5"), dataset="images"),
        "memory": ImageArray(data=images),
    }


def test_rows_of_all_kinds_of_files_are_the_same(tmp_path: Path) -> None:
    sources = of_files(tmp_path)
    expected = sources["memory"].stream(SHAPE, 2, 3)(1, 1)
    for kind, source in sources.items():
        found = source.stream(SHAPE, 2, 3).rows(1, 1, ROWS[1])
        np.testing.assert_array_equal(found, expected[ROWS[1]], err_msg=kind)


def test_a_source_says_whether_it_reads_whole_images(tmp_path: Path) -> None:
    sources, numbers = of_files(tmp_path), int(np.prod(SHAPE))
    found = {kind: source.nbytes_of_rows(SHAPE) for kind, source in sources.items()}
    assert found == {
        "png": 4 * numbers, "one by one": 0, "npy": 0, "npz": 8 * numbers, "hdf5": 0, "memory": 0,
    }  # fmt: skip
    for chain, transforms in CHAINS.items():
        apart = chain in ("crop", "flipped", "grey", "region")
        source = ImageArray(data=stack(), transforms=transforms)
        assert source.nbytes_of_rows(SHAPE) == (0 if apart else 12 * numbers), chain


class Own(ImageArray):
    """Whole images, in half."""

    type: Any = "own"

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Any:
        read = super().open(shape, batch, seed)
        return lambda number, display: read(number, display) / 2


def test_a_source_with_a_reader_of_its_own_reads_whole_images() -> None:
    own, other = Own(data=stack()), ImageArray(data=stack())
    halved = own.stream(SHAPE, 2, 3).rows(1, 0, ROWS[0])
    np.testing.assert_array_equal(halved, other.stream(SHAPE, 2, 3)(1, 0)[ROWS[0]] / 2)
    assert own.nbytes_of_rows(SHAPE) == 12 * int(np.prod(SHAPE))


@pytest.mark.parametrize("transforms", [(Crop(),), (Flip(probability=1.0), Crop(), Colour())], ids=len)
def test_a_few_rows_take_the_memory_of_these_alone(tmp_path: Path, transforms: tuple[Transform, ...]) -> None:
    np.save(tmp_path / "large.npy", stack(1, (512, 512, 3)))
    source = ImageArray(file=str(tmp_path / "large.npy"), transforms=transforms)
    stream = source.stream((512, 512, 3), 1, 0)
    stream.rows(0, 0, slice(0, 1))
    tracemalloc.start()
    try:
        found = stream.rows(0, 0, slice(128, 192))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 4.5 * found.nbytes  # float64 and float32, of 64 of 512 rows
