"""Objects and functions of Python as sources."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

import petabatch
from petabatch.assembly import assert_same_software
from petabatch.errors import InputError, ParamsError, PetabatchError, TableError
from petabatch.parallel.comm import Comm
from petabatch.sources import Dataset, Function, ImageArray
from petabatch.spec.load import Loaded, resolved
from petabatch.spec.network import Network
from petabatch.spec.parts import Source
from support.rank_threads import on_threads

ROOM = (12, 16, 3)
IMAGES = np.random.default_rng(0).integers(0, 255, (5, 12, 16, 3)).astype(np.uint8)


class Tensor:
    """As a tensor of torch: it has channels first, and numpy can read it."""

    def __init__(self, pixels: np.ndarray) -> None:
        self._pixels = np.moveaxis(pixels, -1, 0)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._pixels


class Reels(Source):
    """Of a plug-in: a list of arrays as it is."""

    type: Literal["test_reels"] = "test_reels"
    data: Any
    bad: ClassVar[int] = -1

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Any:
        def read(number: int, item: int) -> np.ndarray:
            if item == self.bad:
                raise OSError("disk on fire")
            film: np.ndarray = self.data[number % len(self.data)]
            return film[item % len(film)].astype(np.float32)

        return read


class Labelled:
    """As a dataset of torch: items are pairs of an image and a label."""

    def __init__(self, bad: int = -1) -> None:
        self.asked: list[int] = []
        self.bad = bad

    def __len__(self) -> int:
        return len(IMAGES)

    def __getitem__(self, index: int) -> tuple[Tensor, int]:
        self.asked.append(index)
        if index == self.bad:
            raise OSError("disk on fire")
        return Tensor((IMAGES[index] / 255).astype(np.float32)), 7


def test_a_dataset_of_pairs_is_shown_like_the_array_of_its_images() -> None:
    read = Dataset(data=Labelled(), channels="first").stream(ROOM, 2, 1)
    for b in range(2):
        for display in range(4):
            number = (2 * display + b) % 5
            assert np.array_equal(read(b, display), (IMAGES[number] / 255).astype(np.float32))
            assert read.shown(b, display).item == number
    grey = [image[..., 0] for image in IMAGES]
    assert np.array_equal(
        Dataset(data=grey).open((12, 16, 1), 1, 1)(0, 1)[..., 0], (grey[1] / 255).astype(np.float32)
    )


def test_items_that_are_no_images_are_named() -> None:
    for items, message in (
        ([], "this object has no items"),
        ([7], r"(?s)data\[0\]: this item is not an image.*int"),
        ([np.zeros(ROOM, np.int64)], r"data\[0\]: these numbers are not pixels"),
        ([{"image": 1}], r"(?s)data\[0\]: it is not clear which part.*image"),
        ([{"a": [[0.0]], "b": [[0.0]]}], r"(?s)data\[0\]: it is not clear which part.*column = NAME"),
    ):
        with pytest.raises(InputError, match=message):
            Dataset(data=items).open(ROOM, 1, 1)
    read = Dataset(data=[IMAGES[0], IMAGES[1, :5]]).open(ROOM, 1, 1)
    with pytest.raises(InputError, match=r"(?s)data\[1\]: this image has another size.*\[5, 16, 3\]"):
        read(0, 1)
    bad = Dataset(data=Labelled(bad=3), channels="first")
    with pytest.raises(InputError, match=r"data\[3\]: this item cannot be read: OSError: disk on fire"):
        bad.open(ROOM, 1, 1)(0, 3)
    skipping = bad.model_copy(update={"on_bad_item": "skip"}).stream(ROOM, 1, 1)
    assert [skipping.shown(0, display).item for display in range(5)] == [0, 1, 2, 4, 4]
    for given in (7, "text", lambda: 0):
        with pytest.raises(TableError):
            Dataset(data=given)


def test_items_may_be_dictionaries_with_nested_lists() -> None:
    rows = [{"label": 3, "image": (image / 255).tolist()} for image in IMAGES]  # Hugging Face's `Array3D`
    read = Dataset(data=rows).open(ROOM, 1, 1)
    assert np.array_equal(read(0, 2), (IMAGES[2] / 255).astype(np.float32))


def test_a_function_of_slice_and_display_is_a_source() -> None:
    read = Function(call=lambda b, display: np.full(ROOM, 10 * b + display, np.uint8)).open(ROOM, 2, 1)
    assert np.array_equal(read(3, 4), np.full(ROOM, 35 / 255, np.float32))
    with pytest.raises(InputError, match=r"(?s)call\(0, 1\): image and layer differ in shape"):
        Function(call=lambda b, display: np.zeros((2, 2))).open(ROOM, 1, 1)
    with pytest.raises(InputError, match=r"call\(0, 1\): the function fails: ZeroDivisionError"):
        Function(call=lambda b, display: 1 / 0).open(ROOM, 1, 1)
    with pytest.raises(TableError):
        Function(call=7)


def test_images_of_a_function_are_transformed() -> None:
    def image(b: int, display: int) -> np.ndarray:
        return IMAGES[(2 * b + display - 1) % 5]

    steps = [{"type": "crop", "size": (6, 8), "jitter": (1, 1)}, {"type": "flip"}, {"type": "grey"}]
    read = Function(call=image, transforms=steps).open((6, 8, 1), 2, 1)
    listed = ImageArray(data=IMAGES, transforms=steps).open((6, 8, 1), 1, 1)
    for display in range(3):
        # the same seed, slice, display and image: the same random choices
        assert np.array_equal(read(0, display), listed(0, display))
        assert not np.array_equal(read(1, display), read(0, display + 2))  # of the same image
    alike = Function(call=image, slices="same", normalize="standard").open(ROOM, 2, 1)
    assert np.array_equal(alike(1, 3), alike(0, 3))
    assert alike(0, 3).mean() == pytest.approx(0, abs=1e-6)


def test_a_stack_of_frames_is_made_of_the_displays_of_a_slice() -> None:
    call = lambda b, display: np.full((4, 4, 1), float(10 * b + display))  # noqa: E731
    read = Function(call=call, transforms=[{"type": "frames", "count": 3}]).open((4, 4, 3), 2, 1)
    assert sorted(read(1, 5)[0, 0]) == [14, 15, 16]
    assert sorted(read(1, 1)[0, 0]) == [11, 11, 12]


def test_transforms_that_do_not_suit_a_function_are_named() -> None:
    sizes = Function(call=lambda b, d: IMAGES[0, : 13 - d], transforms=[{"type": "crop"}])
    read = sizes.open((10, 16, 3), 1, 1)
    assert read(0, 1).shape == (10, 16, 3)
    with pytest.raises(InputError, match=r"call\(0, 5\): the image is smaller than the layer") as raised:
        read(0, 4)
    assert raised.value.key == "transforms.0"
    with pytest.raises(InputError, match="zca cannot be fitted to the images of a function"):
        Function(call=lambda b, d: IMAGES[0], transforms=[{"type": "zca"}]).open(ROOM, 1, 1)
    with pytest.raises(InputError, match=r"call\(0, 1\): this is not an image"):
        Function(call=lambda b, d: IMAGES[0, 0], transforms=[{"type": "crop"}]).open(ROOM, 1, 1)


def test_a_run_of_objects_is_resumed_when_they_are_given_again(small: Path, tmp_path: Path) -> None:
    data, net = Labelled(), petabatch.load(small).network
    image = net.layers["image"].model_copy(update={"source": Dataset(data=data, channels="first")})
    net = net.model_copy(update={"layers": {**net.layers, "image": image}})
    whole = petabatch.run(net, tmp_path / "whole", mpi=False, quiet=True)
    data.bad = 4  # shown in the second display
    with pytest.raises(InputError, match="disk on fire"):
        petabatch.run(net, tmp_path / "cut", mpi=False, quiet=True)
    data.bad = -1
    with pytest.raises(ParamsError, match="an object of Python cannot be given as text") as raised:
        petabatch.resume(tmp_path / "cut", mpi=False, quiet=True)
    assert f"in Python: {Labelled.__module__}.Labelled, 5 items" in str(raised.value)
    cut = petabatch.resume(tmp_path / "cut", objects=[data], mpi=False, quiet=True)
    assert list(cut) == list(whole)
    for name in whole:
        assert np.array_equal(cut[name][...], whole[name][...])
    assert whole.shown("image", display=2, slice=1)[:3] == ("data", 4, 4)


def showing(small: Path, source: Source) -> Network:
    net = petabatch.load(small).network
    image = net.layers["image"].model_copy(update={"shape": ROOM, "source": source})
    layers = {**net.layers, "image": image}
    for name in ("error", "recon"):
        layers[name] = layers[name].model_copy(update={"shape": ROOM})
    layers["V1"] = layers["V1"].model_copy(update={"shape": (6, 8, 8)})
    return net.model_copy(update={"layers": layers})


def test_arrays_of_plugins_are_compared_between_ranks_by_their_contents(small: Path) -> None:
    def compared(first: Any, second: Any) -> None:
        def rank(comm: Comm) -> None:
            source = Reels(data=second if comm.rank else first)
            assert_same_software(comm, Loaded(showing(small, source)))

        on_threads(2, rank)

    films = [IMAGES[:3], IMAGES[1:]]
    compared(films, [film.copy() for film in films])
    with pytest.raises(PetabatchError, match="params is not the same on all ranks"):
        compared(films, [IMAGES[:3], IMAGES[:4]])


def test_a_run_with_arrays_of_a_plugin_is_resumed_with_them(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    net = showing(small, Reels(data=[IMAGES[:3], IMAGES[1:]]))
    whole = petabatch.run(net, tmp_path / "whole", mpi=False, quiet=True)
    monkeypatch.setattr(Reels, "bad", 4)
    with pytest.raises(PetabatchError, match="disk on fire"):
        petabatch.run(net, tmp_path / "cut", mpi=False, quiet=True)
    monkeypatch.setattr(Reels, "bad", -1)
    cut = petabatch.resume(tmp_path / "cut", mpi=False, quiet=True)
    assert list(cut) == list(whole)
    for name in whole:
        assert np.array_equal(cut[name][...], whole[name][...])


def test_other_objects_of_plugins_have_no_place_in_params(small: Path) -> None:
    with pytest.raises(
        PetabatchError, match=r"a value of a plug-in cannot be written\n.*test_in_python\.Tensor"
    ):
        resolved(showing(small, Reels(data=[Tensor(IMAGES[0])])))
