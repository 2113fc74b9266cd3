"""What stands in a beginner's folder: the situations of `tests/system/mistakes.txt`."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import h5py
import numpy as np

from support.commands import SMALL, alone


def deep_arrays(folder: Path) -> None:
    """Replace the params file by one array inside another, many times."""
    (folder / "small.toml").write_text("[run]\nx = " + "[" * 100_000 + "]" * 100_000 + "\n")


def deep_keys(folder: Path) -> None:
    """Replace the params file by a key of many parts."""
    (folder / "small.toml").write_text("a." * 100_000 + "a = 1\n")


def run_directory(folder: Path) -> None:
    """Make a run directory `out`, finished."""
    file = folder / "done.toml"
    file.write_text(SMALL)
    alone(file, "out")
    file.unlink()


def stopped_run(folder: Path) -> None:
    """Make a run directory `out` that has been stopped in the middle."""
    alone(folder / "small.toml", "out")
    for file in (folder / "out" / "checkpoints").glob("step_000000060*"):
        file.unlink()


def a_lone_index(folder: Path) -> None:
    """Copy the index of a run without its data."""
    run_directory(folder)
    (folder / "lone").mkdir()
    shutil.copy(folder / "out" / "run.h5", folder / "lone")


def moved_run(folder: Path) -> None:
    """Move a stopped run to another folder, and its images out of reach."""
    stopped_run(folder)
    (folder / "moved").mkdir()
    for name in ("out", "images.npy"):
        (folder / name).rename(folder / "moved" / name)


def no_images(folder: Path) -> None:
    """Remove the images."""
    (folder / "images.npy").unlink()


def truncated_images(folder: Path) -> None:
    """Cut the images off in the middle."""
    file = folder / "images.npy"
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def images_with_nan(folder: Path) -> None:
    """Put a NaN into the first image."""
    images = np.load(folder / "images.npy")
    images[0, 3, 4, 0] = np.nan
    np.save(folder / "images.npy", images)


def channels_first(folder: Path) -> None:
    """Store the images as other programs do, channels before rows and columns."""
    np.save(folder / "images.npy", np.load(folder / "images.npy").transpose(0, 3, 1, 2))


def images_of_int64(folder: Path) -> None:
    """Store the images as whole numbers of 64 bits."""
    np.save(folder / "images.npy", np.load(folder / "images.npy").astype(np.int64))


def good_hdf5(folder: Path) -> None:
    """Store the images in an HDF5 file."""
    with h5py.File(folder / "images.h5", "w") as file:
        file.create_dataset("train", data=np.load(folder / "images.npy"), chunks=True, compression="gzip")


def damaged_hdf5(folder: Path) -> None:
    """Damage the data of the images in an HDF5 file."""
    good_hdf5(folder)
    file = folder / "images.h5"
    whole = bytearray(file.read_bytes())
    whole[len(whole) // 2 :] = bytes(len(whole) - len(whole) // 2)
    file.write_bytes(whole)


def empty_folder(folder: Path) -> None:
    """Make a folder of photographs without photographs."""
    (folder / "photos").mkdir()


def text_for_an_image(folder: Path) -> None:
    """Make a folder of photographs with a text."""
    empty_folder(folder)
    (folder / "photos" / "cat.png").write_text("a cat")


def damaged_film(folder: Path) -> None:
    """Make a film file that is none."""
    (folder / "film.mp4").write_bytes(b"\x00\x00\x00\x20ftypisom" + bytes(1000))


def sixteen_weights(folder: Path) -> None:
    """Store weights of sixteen features."""
    np.save(folder / "weights.npy", np.zeros((16, 4, 4, 3)))


def a_dictionary(folder: Path) -> None:
    """Store a dictionary of eight features."""
    np.save(folder / "dictionary.npy", np.random.default_rng(4).normal(size=(8, 4, 4, 3)))


PLUGIN = """
from typing import Literal
from petabatch.layers import Linear

class Mine(Linear):
    type: Literal["{name}"] = "{name}"

    def update(self, ctx, state, drive, previous, activity):
        if ctx.step == 3:
            activity[...] = drive[0] / self.missing
"""


def a_failing_plugin(folder: Path) -> None:
    """Write a layer type that fails in its third step."""
    (folder / "mine.py").write_text(PLUGIN.format(name="mistake_mine"))


def a_shadowing_plugin(folder: Path) -> None:
    """Write a layer type with the name of a built-in one."""
    (folder / "mine.py").write_text(PLUGIN.format(name="linear"))


SITUATIONS: dict[str, Callable[[Path], None]] = {
    function.__name__: function
    for function in (
        deep_arrays,
        deep_keys,
        run_directory,
        no_images,
        truncated_images,
        images_with_nan,
        channels_first,
        images_of_int64,
        good_hdf5,
        damaged_hdf5,
        empty_folder,
        text_for_an_image,
        damaged_film,
        sixteen_weights,
        a_dictionary,
        a_lone_index,
        stopped_run,
        moved_run,
        a_failing_plugin,
        a_shadowing_plugin,
    )
}
