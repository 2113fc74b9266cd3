"""What can only be iterated over: read once, in the order in which slices show it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import Simulator, in_memory
from petabatch.errors import InputError, ParamsError, TableError
from petabatch.layers import Input
from petabatch.sources import Dataset, Iterable
from petabatch.spec.network import Network, Run

DATA = np.random.default_rng(0).random((7, 4, 5, 3)).astype(np.float32)
SHOWN = np.stack([DATA[[(2 * display + b) % 7 for b in range(2)]] for display in range(5)])
"""What two slices show in five displays."""


class Loader:
    """As a loader of torch: it yields batches with labels, and can be iterated over again."""

    def __init__(self) -> None:
        self.begun = 0

    def __iter__(self) -> Iterator[Any]:
        self.begun += 1
        for first in range(0, len(DATA), 3):
            yield np.moveaxis(DATA[first : first + 3], -1, 1), np.arange(3)


def network(data: Any, displays: int = 5, **keys: Any) -> Network:
    return Network(
        run=Run(batch=2, display=2, displays=displays),
        layers={"image": Input(shape=(4, 5, 3), source=Iterable(data=data, **keys))},
        output={"layers": {"image": {}}},
    )


def shown(net: Network, threads: int = 1) -> np.ndarray:
    result: np.ndarray = in_memory.run(net, threads=threads).recorded["layers/image/A"]
    return result


@pytest.mark.parametrize("threads", [1, 2])
def test_batches_of_a_loader_are_shown_image_by_image_and_again_from_its_beginning(threads: int) -> None:
    net = network(loader := Loader(), channels="first")
    np.testing.assert_array_equal(shown(net, threads), SHOWN)
    assert loader.begun == 2  # seven images, ten are shown
    np.testing.assert_array_equal(shown(net, threads), SHOWN)
    assert loader.begun == 4


def test_a_generator_is_a_source_of_a_run_on_disk(tmp_path: Path) -> None:
    net = network(image for image in DATA[[0, 1, 2, 3, 4, 5, 6, 0, 1, 2]])
    with petabatch.run(net, tmp_path / "run", quiet=True) as run:
        np.testing.assert_array_equal(run["layers/image/A"][...], SHOWN)
        assert "generator" in run.params["layers"]["image"]["source"]["data"]


def test_a_loader_of_torch_is_a_source_and_can_be_coded() -> None:
    data = pytest.importorskip("torch.utils.data", reason="torch is not installed")
    torch = pytest.importorskip("torch")
    tensors = data.TensorDataset(torch.tensor(np.moveaxis(DATA, -1, 1)), torch.arange(7))
    loader = data.DataLoader(tensors, batch_size=4)
    np.testing.assert_array_equal(shown(network(loader, channels="first")), SHOWN)
    read = Dataset(data=tensors, channels="first").open((4, 5, 3), 1, 1)
    np.testing.assert_array_equal(read(0, 3), DATA[3])
    dictionary = np.random.default_rng(1).normal(size=(4, 2, 2, 3))
    expected = petabatch.encode(DATA[:, :, :4], dictionary, 0.3, stride=2, threads=1)
    for images in (tensors, loader, (image for image in np.moveaxis(DATA, -1, 1))):
        codes = petabatch.encode(images, dictionary, 0.3, stride=2, size=(4, 4), channels="first", threads=1)
        assert codes.activity.shape == (7, 4, 2, 2)
    assert expected.activity.shape == (7, 2, 2, 4)


def test_datasets_of_hugging_face_are_sources() -> None:
    datasets = pytest.importorskip("datasets", reason="datasets of Hugging Face is not installed")
    whole = (255 * DATA).astype(np.uint8)
    columns = {"picture": list(whole), "label": list(range(7))}
    features = datasets.Features({"picture": datasets.Image(), "label": datasets.Value("int64")})
    given = datasets.Dataset.from_dict(columns, features=features)
    expected = whole[3].astype(np.float32) / np.float32(255)
    for source in (
        Dataset(data=given),
        Dataset(data=given, column="picture"),
        Iterable(data=given.to_iterable_dataset()),
    ):
        np.testing.assert_allclose(source.open((4, 5, 3), 1, 1)(0, 3), expected, atol=1e-6)
    with pytest.raises(InputError, match=r"(?s)which part of this item.*found: .*picture, label"):
        Dataset(data=given, column="image").open((4, 5, 3), 1, 1)


def test_a_generator_is_read_once() -> None:
    short = network(iter(DATA), displays=3)
    np.testing.assert_array_equal(shown(short), SHOWN[:3])
    with pytest.raises(InputError, match="read once"):
        shown(network(short.layers["image"].source.data, displays=3))  # type: ignore[attr-defined]
    with pytest.raises(InputError, match=r"(?s)no more images.*found: +7.*at least 8"):
        shown(network(iter(DATA)))


def test_a_simulator_passes_images_over_and_keeps_its_place() -> None:
    with Simulator(network(iter(DATA), displays=3), threads=1) as sim:
        sim.show("image", np.zeros((4, 5, 3)))
        start = sim.save()
        sim.step(2)
        assert not sim["image"]["A"].any()
        sim.step(1)
        np.testing.assert_array_equal(sim["image"]["A"], SHOWN[1])
        sim.step(2)
        np.testing.assert_array_equal(sim["image"]["A"], SHOWN[2])
        sim.load(start)
        sim.show("image", None)
        with pytest.raises(InputError, match=r"(?s)image 0 has been read already.*Dataset"):
            sim.step(1)


def test_little_is_kept() -> None:
    source = Iterable(data=(np.full((4, 5, 3), n / 200, np.float32) for n in range(200)))
    read = source.open((4, 5, 3), 2, 1)
    for item in range(100):
        for b in range(2):
            assert read(b, item)[0, 0, 0] == np.float32((2 * item + b) / 200)
            assert len(source.data._kept) <= 6


def test_a_run_says_that_it_cannot_be_resumed_and_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "petabatch")
    petabatch.run(network(Loader(), channels="first"), tmp_path / "run", quiet=True, mpi=False).close()
    assert "layers.image: its images are read once, so this run cannot be resumed" in caplog.text
    for again in (petabatch.resume, Simulator.from_run):
        with pytest.raises(ParamsError, match=r"(?s)layers.image.source.data: this run cannot be resumed"):
            again(tmp_path / "run")  # type: ignore[operator]


def test_errors_of_an_iterable_are_named() -> None:
    def failing() -> Iterator[np.ndarray]:
        yield DATA[0]
        raise OSError("disk on fire")

    for data, said in (
        (failing(), "data: the iterable fails: OSError: disk on fire"),
        ([7.0], r"(?s)data, item 0: this is neither an image nor a batch of images.*\[\]"),
        (["text"], r"data, item 0: this is not an array"),
        ([{"a": 1}], r"data, item 0: it is not clear which part"),
        (
            [np.moveaxis(DATA[0], -1, 0)],
            r"(?s)image 0: image and layer differ in shape.*channels = \"first\"",
        ),
        ([], r"(?s)there are no more images.*found: +0"),
    ):
        with pytest.raises(InputError, match=said):
            shown(network(data))
    for wrong in (None, 7, "text", {}):
        with pytest.raises(TableError, match=r"(?s)Iterable: data: this is not an iterable.*DataLoader"):
            Iterable(data=wrong)

    def frames() -> Iterator[np.ndarray]:
        yield DATA[0]

    with pytest.raises(TableError, match=r"hint: +call it: data = frames\(\)"):
        Iterable(data=frames)
    with pytest.raises(TableError, match=r"(?s)numbered items.*Iterable\(data=\.\.\.\)"):
        Dataset(data=iter(DATA))
