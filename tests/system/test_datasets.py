"""The params files of datasets, with small files in the formats of the datasets."""

from __future__ import annotations

import gzip
import pickle
import re
import tomllib
from pathlib import Path

import av
import numpy as np
import pytest
from scipy.io import savemat

from petabatch import results, simulation

REPOSITORY = Path(__file__).parents[2]
PARAMS = REPOSITORY / "params"
SHORT = ("run.batch=2", "run.displays=2", "run.display=5", "checkpoint.every=never",
         "output.layers={ image = {} }")  # fmt: skip
RNG = np.random.default_rng(0)


def shown(name: str, out: Path, *settings: str) -> np.ndarray:
    """Run a params file for two displays of two slices, and return the images shown."""
    simulation.run(simulation.read(PARAMS / f"{name}.toml", (*SHORT, *settings)), out, mpi=False, quiet=True)
    with results.open(out) as run:
        return run.layer("image")[:]


def test_cifar10_in_both_versions(tmp_path: Path) -> None:
    images = RNG.integers(0, 255, (6, 3072)).astype(np.uint8)
    found = []
    for version in ("py", "bin"):
        folder = tmp_path / f"cifar-10-batches-{version}"
        folder.mkdir()
        for number, part in ((1, images[:3]), (2, images[3:])):
            if version == "py":
                batch = {
                    b"data": part,
                    b"labels": [0] * 3,
                    b"batch_label": b"batch",
                    b"filenames": [b"a"] * 3,
                }
                (folder / f"data_batch_{number}").write_bytes(pickle.dumps(batch, protocol=2))
            else:
                records = np.hstack([np.zeros((3, 1), np.uint8), part])
                (folder / f"data_batch_{number}.bin").write_bytes(records.tobytes())
        (folder / "test_batch.bin").write_bytes(b"not to be read")
        files = f"layers.image.source.files={folder}/data_batch_*"
        found.append(shown("cifar10", tmp_path / version, files))
    assert np.array_equal(*found)
    assert len({image.tobytes() for image in found[0].reshape(4, -1)}) == 4  # without replacement


def test_mnist(tmp_path: Path) -> None:
    images = RNG.integers(0, 255, (5, 28, 28)).astype(np.uint8)
    header = bytes([0, 0, 8, 3]) + np.array(images.shape, ">u4").tobytes()
    file = tmp_path / "train-images-idx3-ubyte.gz"
    file.write_bytes(gzip.compress(header + images.tobytes()))
    found = shown("mnist", tmp_path / "out", f"layers.image.source.file={file}")
    stored = (images - images.mean((1, 2), keepdims=True)) / images.std((1, 2), keepdims=True)
    for image in found.reshape(4, 28, 28):
        assert min(abs(image - one).max() for one in stored) < 1e-5


def test_movies(tmp_path: Path) -> None:
    for number in range(3):
        with av.open(str(tmp_path / f"{number}.mp4"), "w") as container:
            stream = container.add_stream("mpeg4", rate=25)
            stream.height, stream.width, stream.pix_fmt = 96, 128, "yuv420p"
            for _ in range(4):
                pixels = np.full((96, 128, 3), 20, np.uint8)
                pixels[:, 40 + 20 * number :] = 220
                container.mux(stream.encode(av.VideoFrame.from_ndarray(pixels, format="rgb24")))
            container.mux(stream.encode())
    found = shown("movies", tmp_path / "out", f"layers.image.source.files={tmp_path}/*.mp4")
    # Of 128 columns the middle 96 are shown in 64: the edge is at (40 + 20 number - 16) / 1.5.
    for b in range(2):
        edges = np.argmax(found[:, b, 32, :, 0] > 0, axis=-1)
        assert (abs(edges - (24 + 20 * b) / 1.5) <= 1).all()


def test_whitened_photographs_and_the_images_of_olshausen_and_field(tmp_path: Path) -> None:
    found = shown("whitened", tmp_path / "photographs")
    assert found.shape == (2, 2, 32, 32, 1)
    assert 0.1 < found.std() < 3
    images = RNG.normal(0, 0.3, (64, 60, 10))
    savemat(tmp_path / "IMAGES.mat", {"IMAGES": images})
    head = (PARAMS / "whitened.toml").read_text().split("title")[0]
    match = re.search(r"-s '(.*)'", head)
    assert match is not None
    setting = match[1].replace("IMAGES.mat", str(tmp_path / "IMAGES.mat"))
    crop = shown("whitened", tmp_path / "own", setting)[1, 1, :, :, 0]
    own = np.moveaxis(images, 2, 0)[3]  # display 1 of slice 1 of 2
    places = np.lib.stride_tricks.sliding_window_view((own - own.mean()) / own.std(), (32, 32))
    assert abs(places - crop).max(axis=(2, 3)).min() < 1e-5


@pytest.mark.parametrize("name", ["cifar10", "mnist", "movies"])
def test_a_dataset_that_is_not_there_is_an_error_that_names_the_key(name: str) -> None:
    loaded = simulation.read(PARAMS / f"{name}.toml")
    plan = simulation.plan(loaded)
    from petabatch.errors import InputFileError
    from petabatch.params import first_state

    with pytest.raises(InputFileError) as raised:
        first_state(loaded, plan)
    (problem,) = raised.value.problems
    assert problem.key.startswith("layers.image.source.file")
    assert problem.line is not None


def test_every_params_file_of_a_dataset_is_on_the_page() -> None:
    page = (REPOSITORY / "docs" / "datasets.md").read_text()
    for name in ("cifar10", "mnist", "movies", "whitened"):
        assert f"params/{name}.toml" in page
        assert tomllib.loads((PARAMS / f"{name}.toml").read_text())["title"]
