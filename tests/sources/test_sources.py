"""Random streams and sources of images."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, get_args

import h5py
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from pydantic import ValidationError

from petabatch.errors import InputError, ResourceError, TableError
from petabatch.random import stream
from petabatch.sources import ImageArray, Images, Photographs, headers
from petabatch.sources.photographs import Name
from petabatch.sources.png import png_shape
from petabatch.sources.view import View
from petabatch.spec.parts import Source

ROOM = (4, 5, 3)


def picture(seed: int, shape: tuple[int, ...] = (6, 7, 3), dtype: Any = np.uint8) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, np.iinfo(dtype).max, shape, dtype, endpoint=True)


def save(path: Path, pixels: np.ndarray) -> np.ndarray:
    Image.fromarray(pixels).save(path)
    return pixels


# -- random streams


def test_the_first_values_of_a_stream_are_pinned() -> None:
    assert stream(1, "crop", 0, 0).bit_generator.random_raw(3).tolist() == [
        1865552004162887028,
        12378224160032214773,
        1719716228616823876,
    ]
    assert stream(1, "crop", 3, 7).integers(0, 1000, 4).tolist() == [659, 139, 69, 711]


def test_streams_of_different_keys_differ_even_by_a_trailing_zero() -> None:
    keys: list[tuple[Any, ...]] = [
        (1, "crop"), (1, "crop", 0), (1, "crop", 0, 0), (1, "crop", 1, 0), (1, "crop", 0, 1),
        (2, "crop"), (1, "noise"), (0, "crop"),
    ]  # fmt: skip
    assert len({int(stream(*key).integers(2**63)) for key in keys}) == len(keys)


# -- which image, which part


def test_sequential_order_follows_the_rule_of_the_original() -> None:
    data = np.arange(5, dtype=np.float32)[:, None, None, None] * np.ones((1, *ROOM), np.float32)
    read = ImageArray(data=data).open(ROOM, 3, 1)
    shown = [[int(read(b, item)[0, 0, 0]) for b in range(3)] for item in range(3)]
    assert shown == [[0, 1, 2], [3, 4, 0], [1, 2, 3]]


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**40), slices=st.integers(1, 5), batch=st.integers(5, 9))
def test_random_choices_depend_on_seed_slice_and_item_alone(seed: int, slices: int, batch: int) -> None:
    source = ImageArray(data=picture(0, (6, 9, 11, 3)), order="random")
    one, other = source.open(ROOM, batch, seed), source.open(ROOM, batch + 3, seed)
    for number, item in [(slices, 3), (0, 0), (slices, 3)]:
        assert np.array_equal(one(number, item), other(number, item))


def test_random_crops_differ_by_slice_item_and_seed_and_reach_every_position_equally() -> None:
    data = np.arange(6 * 8, dtype=np.float32).reshape(1, 6, 8, 1)
    read = ImageArray(data=data).open((4, 5, 1), 1, 1)
    corners = [int(read(b, item)[0, 0, 0]) for b in range(24) for item in range(50)]
    values, counts = np.unique(corners, return_counts=True)
    assert values.tolist() == [8 * y + x for y in range(3) for x in range(4)]
    assert counts.min() > 60  # 100 expected, deviation 9.6
    assert counts.max() < 140
    assert not np.array_equal(read(0, 0), ImageArray(data=data).open((4, 5, 1), 1, 2)(0, 0))


def test_random_order_shows_each_image_equally_often_whatever_its_size(tmp_path: Path) -> None:
    for value, size in ((0, 4), (1, 40)):
        np.save(tmp_path / f"{value}.npy", np.full((size, size), float(value)))
    read = Images(files=str(tmp_path), order="random").open((4, 4, 1), 1, 1)
    assert 0.4 < np.mean([read(0, item)[0, 0, 0] for item in range(400)]) < 0.6


@pytest.mark.parametrize(
    ("crop", "offset", "corner"),
    [("top_left", (0, 0), (0, 0)), ("top_left", (1, 2), (1, 2)), ("center", (0, 0), (1, 1)),
     ("center", (1, -1), (2, 0))],
)  # fmt: skip
def test_fixed_crops_start_where_they_should(crop: Any, offset: Any, corner: tuple[int, int]) -> None:
    data = picture(1, (2, 6, 8, 3)).astype(np.float32)
    shown = ImageArray(data=data, crop=crop, offset=offset).open(ROOM, 1, 1)(0, 1)
    y, x = corner
    assert np.array_equal(shown, data[1, y : y + 4, x : x + 5])


def test_an_offset_out_of_the_image_or_with_a_random_crop_is_an_error() -> None:
    source = ImageArray(data=picture(1, (1, 6, 8, 3)), crop="top_left", offset=(0, 4))
    with pytest.raises(InputError, match="offset moves the crop out"):
        source.open(ROOM, 1, 1)
    with pytest.raises(TableError, match="random crop cannot have an offset"):
        ImageArray(data=picture(1, (1, 6, 8, 3)), offset=(1, 0))


# -- pixels


@settings(max_examples=25, deadline=None)
@given(ny=st.integers(1, 9), nx=st.integers(2, 9), nf=st.integers(1, 4), seed=st.integers(0, 99))
def test_standard_and_range_normalisation_hold_over_all_pixels_and_channels(
    ny: int, nx: int, nf: int, seed: int
) -> None:
    data = np.random.default_rng(seed).normal(3.0, 7.0, (1, ny, nx, nf))
    standard = ImageArray(data=data, normalize="standard").open((ny, nx, nf), 1, 1)(0, 0)
    assert standard.dtype == np.float32
    assert abs(standard.mean(dtype=float)) < 1e-6
    assert standard.std(dtype=float) == pytest.approx(1.0, abs=1e-6)
    ranged = ImageArray(data=data, normalize="range").open((ny, nx, nf), 1, 1)(0, 0)
    assert (ranged.min(), ranged.max()) == (0.0, 1.0)
    np.testing.assert_allclose(ranged * (data.max() - data.min()) + data.min(), data[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("how", ["standard", "range"])
def test_a_flat_image_becomes_zero(how: Any) -> None:
    shown = ImageArray(data=np.full((1, *ROOM), 0.1), normalize=how).open(ROOM, 1, 1)(0, 0)
    assert not shown.any()


@pytest.mark.parametrize(("dtype", "top"), [(np.uint8, 255), (np.uint16, 65535)])
def test_integer_pixels_are_fractions_of_their_largest_value(dtype: Any, top: int) -> None:
    data = picture(2, (1, *ROOM), dtype)
    shown = ImageArray(data=data).open(ROOM, 1, 1)(0, 0)
    assert np.array_equal(shown, (data[0] / top).astype(np.float32))


def test_grey_becomes_colour_and_colour_grey() -> None:
    grey = np.random.default_rng(0).random((1, 4, 5))
    colour = ImageArray(data=grey).open(ROOM, 1, 1)(0, 0)
    assert np.array_equal(colour, np.repeat(grey[0, :, :, None].astype(np.float32), 3, axis=2))
    red = np.zeros((1, *ROOM))
    red[..., 0] = 1.0
    assert ImageArray(data=red).open((4, 5, 1), 1, 1)(0, 0) == pytest.approx(0.30)


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGBA", "I;16"])
def test_every_kind_of_png_is_read_with_the_channels_its_header_tells(tmp_path: Path, mode: str) -> None:
    if mode == "I;16":
        pixels = picture(3, (6, 7), np.uint16)
        pixels[2, 3] = 65535
        save(tmp_path / "a.png", pixels)
    else:
        pixels = picture(3)
        pixels[2, 3] = 255
        Image.fromarray(pixels).convert(mode).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as opened:
        assert opened.mode == mode
    shape = (6, 7, 3 if mode in ("P", "RGBA") else 1)
    shown = Images(files=str(tmp_path / "a.png")).open(shape, 1, 1)(0, 0)
    assert shown.shape == shape
    assert (shown[2, 3] == 1.0).all()
    assert shown.min() < 0.3


def test_the_header_of_a_png_says_what_pillow_says_or_leaves_it_to_pillow(tmp_path: Path) -> None:
    path, known = tmp_path / "a.png", 0
    for mode in ("1", "L", "LA", "P", "RGB", "RGBA", "I;16"):
        for more in ({}, {"optimize": True}, {"dpi": (72, 72)}, {"icc_profile": b"profile"}):
            depth = np.uint16 if mode == "I;16" else np.uint8
            image = Image.fromarray(picture(3, (6, 7) if mode == "I;16" else (6, 7, 3), depth))
            (image if mode == "I;16" else image.convert(mode)).save(path, **more)
            found = png_shape(path.read_bytes())
            assert found in (None, headers._pillow_shape(str(path))), (mode, more)
            known += found is not None
    assert known >= 14
    Image.fromarray(picture(3)).save(path, dpi=(72, 72))
    whole = path.read_bytes()
    assert png_shape(whole) == (6, 7, 3)
    for at in range(whole.index(b"IDAT") - 4):
        damaged = bytearray(whole)
        damaged[at] ^= 4
        assert png_shape(bytes(damaged)) is None, at
    for end in range(whole.index(b"IDAT") + 4):
        assert png_shape(whole[:end]) is None, end


# -- files


def test_images_come_from_a_folder_a_pattern_a_list_and_a_list_file(tmp_path: Path) -> None:
    stored = [save(tmp_path / f"{name}.png", picture(i, ROOM)) for i, name in enumerate("abc")]
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "some.txt").write_text("# held out: b\n../c.png\n\n../a.png\n")
    for files, order in (
        (str(tmp_path), [0, 1, 2]),
        (str(tmp_path / "*.png"), [0, 1, 2]),
        ((str(tmp_path / "b.png"), str(tmp_path / "a.png")), [1, 0]),
        (str(tmp_path / "lists" / "some.txt"), [2, 0]),
    ):
        read = Images(files=files).open(ROOM, len(order), 1)
        for number, expected in enumerate(order):
            assert np.array_equal(read(number, 0), (stored[expected] / 255).astype(np.float32))


def test_paths_are_looked_for_next_to_the_params_file_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "params").mkdir()
    save(tmp_path / "params" / "a.png", picture(0))
    save(tmp_path / "b.png", picture(1))
    monkeypatch.chdir(tmp_path)
    table = {"type": "images", "files": ["a.png", "b.png", "*.png"]}
    found = Images.model_validate(table, context={"folder": tmp_path / "params"}).files
    side_stream = tmp_path / "params"
    assert found == (str(side_stream / "a.png"), str(tmp_path / "b.png"), str(side_stream / "*.png"))
    assert Images.model_validate(table).files == ("a.png", "b.png", "*.png")


def test_numbers_in_names_are_sorted_by_value(tmp_path: Path) -> None:
    numbers = (1, 2, 10, 100)
    for number in numbers:
        save(tmp_path / f"frame_{number}.png", picture(number))
    expected = [str(tmp_path / f"frame_{number}.png") for number in numbers]
    assert Images(files=str(tmp_path)).paths() == expected
    assert Images(files=str(tmp_path / "*.png")).paths() == expected


def test_a_tilde_is_the_home_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    save(tmp_path / "a.png", picture(0))
    (tmp_path / "list.txt").write_text("~/a.png\n")
    for files in ("~/a.png", "~/*.png", "~", "~/list.txt"):
        for context in (None, {"folder": tmp_path / "elsewhere"}):
            found = Images.model_validate({"type": "images", "files": files}, context=context)
            assert found.paths() == [str(tmp_path / "a.png")], files


def test_a_list_with_labels_is_told(tmp_path: Path) -> None:
    save(tmp_path / "a.png", picture(0))
    (tmp_path / "list.txt").write_text("a.png 3\n")
    with pytest.raises(InputError, match=r"a\.png is there: the list has paths alone, no labels"):
        Images(files=str(tmp_path / "list.txt")).paths()


def test_an_image_file_may_be_a_numpy_array(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).normal(size=ROOM)
    np.save(tmp_path / "a.npy", pixels)
    assert np.array_equal(
        Images(files=str(tmp_path / "a.npy")).open(ROOM, 1, 1)(0, 0), pixels.astype(np.float32)
    )


@pytest.mark.parametrize("kind", ["npy", "hdf5", "memory"])
def test_an_array_shows_the_same_from_a_file_and_from_memory(tmp_path: Path, kind: str) -> None:
    data = picture(5, (4, 6, 7, 3))
    if kind == "npy":
        np.save(tmp_path / "x.npy", data)
        source = ImageArray(file=str(tmp_path / "x.npy"), order="random")
    elif kind == "hdf5":
        with h5py.File(tmp_path / "x.h5", "w") as file:
            file["train/images"] = data
        source = ImageArray(file=str(tmp_path / "x.h5"), dataset="train/images", order="random")
    else:
        source = ImageArray(data=data, order="random")
    read = source.open(ROOM, 2, 7)
    rng = stream(7, "crop", 1, 4)
    number, y, x = int(rng.integers(4)), int(rng.integers(3)), int(rng.integers(3))
    assert np.array_equal(read(1, 4), (data[number, y : y + 4, x : x + 5] / 255).astype(np.float32))


def test_threads_read_what_one_thread_reads(tmp_path: Path) -> None:
    for i in range(3):
        save(tmp_path / f"{i}.png", picture(i, (9, 9, 3)))
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["images"] = picture(1, (5, 9, 9, 3))
    keys = [(b, item) for b in range(8) for item in range(8)]
    sources: list[View] = [
        Images(files=str(tmp_path / "*.png"), order="random"),
        ImageArray(file=str(tmp_path / "x.h5"), dataset="images", order="random"),
    ]
    for source in sources:
        alone = source.open(ROOM, 8, 1)
        together = source.open(ROOM, 8, 1)
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda key, read=together: read(*key), keys))
        for key, shown in zip(keys, found, strict=True):
            assert np.array_equal(shown, alone(*key))


# -- what cannot be used


def test_missing_and_broken_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing.png: there are no images here"):
        Images(files=str(tmp_path / "nothing.png")).open(ROOM, 1, 1)
    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(InputError, match=r"text.png: this file cannot be read"):
        Images(files=str(tmp_path / "text.png")).open(ROOM, 1, 1)
    save(tmp_path / "cut.png", picture(0, (90, 90, 3)))
    whole = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"cut.png: this file cannot be read"):
        Images(files=str(tmp_path / "cut.png")).open(ROOM, 1, 1)
    with pytest.raises(InputError, match=r"gone.npy: there is no such file"):
        ImageArray(file=str(tmp_path / "gone.npy")).open(ROOM, 1, 1)
    np.save(tmp_path / "cut.npy", picture(0, (4, 6, 7, 3)))
    whole = (tmp_path / "cut.npy").read_bytes()
    (tmp_path / "cut.npy").write_bytes(whole[:-100])
    with pytest.raises(InputError, match=r"cut.npy: this file cannot be read"):
        ImageArray(file=str(tmp_path / "cut.npy")).open(ROOM, 1, 1)
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["train/images"] = picture(0, (4, 6, 7, 3))
    with pytest.raises(InputError, match=r"(?s)x.h5: there is no dataset.*test.*train/images"):
        ImageArray(file=str(tmp_path / "x.h5"), dataset="test").open(ROOM, 1, 1)
    (tmp_path / "text.h5").write_text("no HDF5")
    with pytest.raises(InputError, match=r"text.h5: this is not an HDF5 file\n    found:    a text file"):
        ImageArray(file=str(tmp_path / "text.h5"), dataset="test").open(ROOM, 1, 1)


def test_every_bad_image_of_a_folder_is_told_before_any_is_shown(tmp_path: Path) -> None:
    for number in range(4):
        save(tmp_path / f"good{number}.png", picture(number, (60, 60, 3)))
        Image.fromarray(picture(number, (60, 60, 3))).save(tmp_path / f"good{number}.jpg", quality=95)
    for name in ("good0.png", "good0.jpg"):
        whole = (tmp_path / name).read_bytes()
        (tmp_path / f"cut.{name[-3:]}").write_bytes(whole[:-200])
        (tmp_path / f"tail.{name[-3:]}").write_bytes(whole + b"notes of a camera" * 1000)  # not an error
    (tmp_path / "empty.png").touch()
    Image.fromarray(picture(0, (60, 60), np.uint8).astype(np.int32)).save(tmp_path / "int32.tif")
    np.save(tmp_path / "int64.npy", np.zeros((60, 60), np.int64))
    (tmp_path / "list.txt").write_text("*.*g\n*.tif\n*.npy\ngone.png\n")
    with pytest.raises(InputError, match=r"and 1 more: .*gone.png"):
        Images(files=str(tmp_path / "list.txt")).open(ROOM, 1, 1)
    with pytest.raises(InputError) as caught:
        Images(files=str(tmp_path)).open(ROOM, 1, 1)
    lines = [line for line in str(caught.value).splitlines() if not line.startswith(" ")]
    assert [Path(line.split(":")[0]).name for line in lines] == [
        "cut.jpg", "cut.png", "empty.png", "int32.tif", "int64.npy",
    ]  # fmt: skip


def test_of_many_bad_images_the_first_are_told_in_full_and_the_rest_by_name(tmp_path: Path) -> None:
    for number in range(30):
        save(tmp_path / f"{number:02}.png", picture(0, (3, 3 + number % 2, 3)))
    with pytest.raises(InputError) as caught:
        Images(files=str(tmp_path)).open(ROOM, 1, 1)
    assert str(caught.value).count("the image is smaller") == 5
    assert "and 25 more: " in str(caught.value)
    assert "07.png" in str(caught.value)
    assert str(caught.value).endswith("...")


def test_an_image_of_more_pixels_than_pillow_opens_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "vast.png", picture(0, (60, 60, 3)))
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match=r"vast.png: this file cannot be read.*decompression bomb"):
        Images(files=str(tmp_path)).open(ROOM, 1, 1)


def test_an_image_replaced_during_the_run_by_one_of_another_size_is_named(tmp_path: Path) -> None:
    save(tmp_path / "a.png", picture(0, (60, 60, 3)))
    read = Images(files=str(tmp_path)).open(ROOM, 1, 1)
    save(tmp_path / "a.png", picture(0, (30, 60, 3)))
    with pytest.raises(
        InputError, match=r"(?s)a.png: the shape of this image has changed.*\[30, 60, 3\].*\[60, 60, 3\]"
    ):
        read(0, 0)


def test_images_that_cannot_fill_the_layer_are_errors(tmp_path: Path) -> None:
    save(tmp_path / "a.png", picture(0, (9, 9, 3)))
    save(tmp_path / "small.png", picture(0, (3, 9, 3)))
    with pytest.raises(InputError, match=r"(?s)small.png: the image is smaller.*3 rows, 9 columns"):
        Images(files=str(tmp_path)).open(ROOM, 1, 1)
    with pytest.raises(InputError, match=r"(?s)different numbers of channels.*found: +3.*expected: 2"):
        ImageArray(data=picture(0, (1, 9, 9, 3))).open((4, 5, 2), 1, 1)
    with pytest.raises(InputError, match="not an array of images"):
        ImageArray(data=np.zeros((4, 4))).open(ROOM, 1, 1)
    with pytest.raises(InputError, match=r"(?s)not pixels.*int64"):
        ImageArray(data=np.zeros((1, *ROOM), np.int64)).open(ROOM, 1, 1)


def test_pixels_that_are_not_finite_are_an_error_naming_the_image() -> None:
    data = np.zeros((3, *ROOM), np.float32)
    data[1, 2, 3, 0] = np.nan
    read = ImageArray(data=data).open(ROOM, 3, 1)
    assert not read(0, 0).any()
    with pytest.raises(InputError, match=r"data\[1\]: some pixels are not finite"):
        read(1, 0)


# -- in memory, and as parts of a params file


def test_data_in_memory_keeps_models_equal_hashable_and_writable() -> None:
    data = np.random.default_rng(0).random((2, *ROOM))
    a, b = ImageArray(data=data), ImageArray(data=data.copy())
    assert a == b
    assert hash(a) == hash(b)
    assert a != ImageArray(data=data + 1)
    assert a.data is not None
    assert not a.data.array.flags.writeable
    assert data.flags.writeable
    written = a.model_dump(mode="json")["data"]
    assert "float64 [2, 4, 5, 3]" in written
    assert a.model_dump_json() == b.model_dump_json() != ImageArray(data=data + 1).model_dump_json()
    with pytest.raises(ValidationError, match="this is not an array"):
        ImageArray.model_validate(a.model_dump())


@pytest.mark.parametrize("table", [{}, {"file": "x.h5"}, {"file": "x.npy", "data": np.zeros(3)}])
def test_an_array_needs_exactly_one_origin(table: dict[str, Any]) -> None:
    with pytest.raises(ValidationError, match=r"array|dataset"):
        ImageArray.model_validate(table)


def test_every_source_can_be_named_in_a_params_file() -> None:
    assert {"array", "images", "photographs"} <= set(Source.choices())


# -- the photographs of scikit-image


def test_photographs_show_standardised_colour_crops_without_any_download(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("socket.socket.connect", None)
    read = Photographs(exclude=("coffee",), normalize="standard").open((32, 32, 3), 4, 1)
    shown = np.stack([read(b, 0) for b in range(4)])
    assert shown.shape == (4, 32, 32, 3)
    np.testing.assert_allclose(shown.mean(axis=(1, 2, 3)), 0, atol=1e-5)
    np.testing.assert_allclose(shown.std(axis=(1, 2, 3)), 1, atol=1e-5)
    assert not np.allclose(shown[0, :, :, 0], shown[0, :, :, 1])


def test_all_named_photographs_are_in_the_wheel_and_large_enough() -> None:
    shapes = Photographs(names=get_args(Name)).gallery().shapes
    assert len(shapes) == 9
    assert all(min(ny, nx) >= 300 and nf == 3 for ny, nx, nf in shapes)


def test_photographs_are_selected_by_name() -> None:
    assert Photographs(names=("coffee", "retina"), exclude=("coffee",)).selected == ("retina",)
    with pytest.raises(TableError, match="no photograph is left"):
        Photographs(names=("coffee",), exclude=("coffee",))
    with pytest.raises(ValidationError, match="astronaut"):
        Photographs.model_validate({"names": ["astronauts"]})


def test_without_scikit_image_the_extra_to_install_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("petabatch.sources.photographs.find_spec", lambda name: None)
    with pytest.raises(ResourceError, match=r"\[images\]"):
        Photographs().open(ROOM, 1, 1)


def test_a_nearly_flat_crop_is_drawn_again(tmp_path: Path) -> None:
    images = np.zeros((1, 64, 64, 1))
    images[0, :, 32:] = np.random.default_rng(0).random((64, 32, 1))
    read = ImageArray(data=images, contrast=0.1).open((8, 8, 1), 1, 1)
    assert min(read(0, item).std() for item in range(50)) >= 0.1
    plain = ImageArray(data=images).open((8, 8, 1), 1, 1)
    assert min(plain(0, item).std() for item in range(50)) == 0
    blank = ImageArray(data=np.zeros((1, 64, 64, 1)), contrast=0.1).open((8, 8, 1), 1, 1)
    assert not blank(0, 0).any()


# -- images that cannot be shown


def test_a_bad_image_is_replaced_by_the_next_good_one_and_no_other_moves(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for number in range(6):
        save(tmp_path / f"{number}.png", np.full((6, 7, 3), 40 * number, np.uint8))
    save(tmp_path / "4.png", np.full((2, 2, 3), 160, np.uint8))  # smaller than the layer
    whole = (tmp_path / "1.png").read_bytes()
    (tmp_path / "1.png").write_bytes(whole[: len(whole) // 2])  # found by its header
    noise = save(tmp_path / "2.png", picture(1))
    assert noise.std() > 0
    damaged = bytearray((tmp_path / "2.png").read_bytes())
    damaged[len(damaged) // 2] ^= 255  # found when it is decoded
    (tmp_path / "2.png").write_bytes(damaged)
    source = Images(files=str(tmp_path), on_bad_item="skip", crop="top_left")
    read = source.open(ROOM, 1, 1)
    assert [round(255 * float(read(0, item)[0, 0, 0])) // 40 for item in range(6)] == [0, 3, 3, 3, 5, 5]
    assert [read.shown(0, item).item for item in range(6)] == [0, 3, 3, 3, 5, 5]
    assert "2 of 6 images are skipped" in caplog.text
    assert "2.png: this file cannot be read" in caplog.text
    with pytest.raises(InputError) as raised:
        Images(files=str(tmp_path)).open(ROOM, 1, 1)
    assert "1.png" in str(raised.value)
    assert "4.png" in str(raised.value)


def test_no_good_image_is_an_error_even_if_bad_ones_are_skipped(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(b"")
    with pytest.raises(InputError, match=r"a.png: this file cannot be read"):
        Images(files=str(tmp_path), on_bad_item="skip").open(ROOM, 1, 1)
