"""Datasets in their own formats, as small files in these formats."""

from __future__ import annotations

import gzip
import os
import pickle
import tracemalloc
import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.errors import InputError
from petabatch.sources import Cifar10, Cifar100, Idx, ImageArray, Sound

RNG = np.random.default_rng(0)
COLOUR = RNG.integers(0, 255, (5, 32, 32, 3)).astype(np.uint8)
GREY = RNG.integers(0, 255, (4, 7, 9)).astype(np.uint8)


def shown(source: Any, shape: tuple[int, int, int], count: int) -> np.ndarray:
    """Return the first images of a source, as 8-bit numbers."""
    read = source.model_copy(update={"crop": "top_left"}).open(shape, 1, 1)
    return np.rint(255 * np.stack([read(0, item) for item in range(count)])).astype(int)


def planes(images: np.ndarray) -> np.ndarray:
    return images.transpose(0, 3, 1, 2).reshape(len(images), -1)


@pytest.mark.parametrize(("kind", "labels"), [(Cifar10, 1), (Cifar100, 2)])
def test_binary_cifar_batches_are_read_one_after_the_other(tmp_path: Path, kind: Any, labels: int) -> None:
    for name, part in (("data_batch_1.bin", COLOUR[:2]), ("data_batch_2.bin", COLOUR[2:])):
        label = np.full((len(part), labels), 9, np.uint8)
        (tmp_path / name).write_bytes(np.hstack([label, planes(part)]).tobytes())
    assert np.array_equal(shown(kind(files=str(tmp_path)), (32, 32, 3), 5), COLOUR)
    files = kind(files=str(tmp_path)).stream((32, 32, 3), 1, 1).files
    assert files == [(str(tmp_path / "data_batch_1.bin"), 2), (str(tmp_path / "data_batch_2.bin"), 3)]
    (tmp_path / "data_batch_2.bin").write_bytes(bytes(3073 * 3 - 1))
    with pytest.raises(InputError, match=r"data_batch_2.bin: the length of this file is wrong"):
        kind(files=str(tmp_path)).open((32, 32, 3), 1, 1)


def test_pickled_cifar_batches_are_read(tmp_path: Path) -> None:
    file = tmp_path / "data_batch_1"
    file.write_bytes(pickle.dumps({b"data": planes(COLOUR), b"labels": [1] * 5}, protocol=2))
    assert np.array_equal(shown(Cifar10(files=str(file)), (32, 32, 3), 5), COLOUR)
    whole = file.read_bytes()
    for damaged in (whole[:-9], b"", b"not a pickle", pickle.dumps({b"data": planes(COLOUR)[:, :9]})):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="data_batch_1: "):
            Cifar10(files=str(file)).open((32, 32, 3), 1, 1)


def test_a_pickle_that_names_anything_but_an_array_is_refused_and_not_executed(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "executed"),)

    (tmp_path / "batch").write_bytes(pickle.dumps({b"data": Trap()}))
    with pytest.raises(InputError, match=r"it names posix.mkdir, which is not part of an array"):
        Cifar10(files=str(tmp_path / "batch")).open((32, 32, 3), 1, 1)
    assert not (tmp_path / "executed").exists()


def test_arrays_of_a_pickle_are_not_made_by_numpy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "batch").write_bytes(pickle.dumps({b"data": planes(COLOUR)}, protocol=2))

    def refuse(*arguments: Any) -> Any:
        raise AssertionError("called")

    for core in (np._core.multiarray, np._core._multiarray_umath):
        monkeypatch.setattr(core, "_reconstruct", refuse)
    assert np.array_equal(shown(Cifar10(files=str(tmp_path / "batch")), (32, 32, 3), 5), COLOUR)
    for wrong in (planes(COLOUR).astype(np.int8), planes(COLOUR)[:0], np.asfortranarray(planes(COLOUR)), [1]):
        monkeypatch.undo()
        (tmp_path / "batch").write_bytes(pickle.dumps({b"data": wrong}, protocol=2))
        with pytest.raises(InputError, match=r"batch: th.*(no images|cannot be read)"):
            Cifar10(files=str(tmp_path / "batch")).open((32, 32, 3), 1, 1)


def test_a_pickle_that_claims_many_objects_takes_no_memory(tmp_path: Path) -> None:
    claim = b"r" + (50_000_000).to_bytes(4, "little")  # the dictionary is object number fifty million
    (tmp_path / "batch").write_bytes(b"\x80\x02}" + claim + b".")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="there are no images in this file"):
            Cifar10(files=str(tmp_path / "batch")).open((32, 32, 3), 1, 1)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_every_bad_batch_is_told_at_once(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin", "c"):
        (tmp_path / name).touch()
    files = tuple(str(tmp_path / name) for name in ("a.bin", "b.bin", "c"))
    with pytest.raises(InputError) as raised:
        Cifar10(files=files).open((32, 32, 3), 1, 1)
    assert [str(raised.value).count(f"/{name}: ") for name in ("a.bin", "b.bin", "c")] == [1, 1, 1]


def test_a_compressed_file_that_promises_too_much_is_refused_before_it_is_decompressed(
    tmp_path: Path,
) -> None:
    header = bytes([0, 0, 8, 3]) + np.array([1 << 20, 1 << 10, 1 << 10], ">u4").tobytes()
    (tmp_path / "images.gz").write_bytes(gzip.compress(header))
    with pytest.raises(InputError, match=r"(?s)images.gz: this file is too large.*gunzip"):
        Idx(file=str(tmp_path / "images.gz")).gallery()


@pytest.mark.parametrize("zipped", [True, False])
def test_idx_files_are_read(tmp_path: Path, zipped: bool) -> None:
    def write(content: bytes) -> Idx:
        file = tmp_path / ("images.gz" if zipped else "images")
        file.write_bytes(gzip.compress(content) if zipped else content)
        return Idx(file=str(file))

    header = bytes([0, 0, 8, 3]) + np.array([4, 7, 9], ">u4").tobytes()
    assert np.array_equal(shown(write(header + GREY.tobytes()), (7, 9, 1), 4)[..., 0], GREY)
    labels = bytes([0, 0, 8, 1]) + np.array([4], ">u4").tobytes()
    for content, message in [
        (labels + bytes(30), "found:    00 00 08 01"),
        (header + GREY.tobytes()[:-1], "found:    251 pixels\n    expected: 252, for 4 images 7 x 9"),
        (header[:9], "too short"),
    ]:
        with pytest.raises(InputError, match=message):
            write(content).open((7, 9, 1), 1, 1)
    if zipped:
        source = write(header + GREY.tobytes())
        path = Path(source.file)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(InputError, match="this file cannot be read"):
            source.open((7, 9, 1), 1, 1)


# -- on_bad_item = "skip"


def items(source: Any, shape: tuple[int, int, int], displays: int, batch: int = 1) -> list[int]:
    """Return the items that the slices show, display by display."""
    stream = source.stream(shape, batch, 1)
    return [stream.shown(b, display).item for display in range(displays) for b in range(batch)]


def test_the_whole_images_of_torn_batches_are_shown_and_the_torn_ones_skipped(tmp_path: Path) -> None:
    label = np.zeros((5, 1), np.uint8)
    whole = np.hstack([label, planes(COLOUR)]).tobytes()
    (tmp_path / "a.bin").write_bytes(whole[: 3073 * 2 + 700])  # items 0, 1, and 2, which is torn
    (tmp_path / "b").write_bytes(pickle.dumps({b"data": planes(COLOUR)})[:-30])  # item 3
    (tmp_path / "c.bin").write_bytes(whole)  # items 4 to 8
    (tmp_path / "d.bin").write_bytes(b"")  # item 9
    source = Cifar10(files=tuple(str(tmp_path / name) for name in ("a.bin", "b", "c.bin", "d.bin")))
    with pytest.raises(InputError) as raised:
        source.open((32, 32, 3), 1, 1)
    told = str(raised.value)
    assert [told.count(f"/{name}: ") for name in ("a.bin", "b", "c.bin", "d.bin")] == [1, 1, 0, 1]
    skipping = source.model_copy(update={"on_bad_item": "skip"})
    expected = [0, 1, 4, 4, 4, 5, 6, 7, 8, 0]
    assert items(skipping, (32, 32, 3), 10) == expected
    assert items(skipping, (32, 32, 3), 5, batch=2) == expected
    images = [*COLOUR[:2], None, None, *COLOUR]
    for display, item in enumerate(expected):
        found = shown(skipping, (32, 32, 3), 10)[display]
        assert np.array_equal(found, images[item])
    assert skipping.stream((32, 32, 3), 1, 1).files[0] == (str(tmp_path / "a.bin"), 3)


def test_idx_files_under_the_wrong_name_are_told(tmp_path: Path) -> None:
    content = bytes([0, 0, 8, 3, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 7])
    for name, stored, said in (
        ("a.gz", content, "has a name without .gz"),
        ("b", gzip.compress(content), "give it a name that ends in .gz"),
        ("c", bytes([0, 0, 8, 1, 0, 0, 0, 1]) + bytes(20), "these are labels"),
    ):
        (tmp_path / name).write_bytes(stored)
        with pytest.raises(InputError, match=said):
            Idx(file=str(tmp_path / name)).gallery()


@pytest.mark.parametrize("zipped", [False, True])
def test_of_an_idx_file_that_ends_too_early_the_whole_images_are_shown(tmp_path: Path, zipped: bool) -> None:
    many = RNG.integers(0, 255, (40, 7, 9)).astype(np.uint8)  # noise: gzip does not make it smaller
    content = bytes([0, 0, 8, 3]) + np.array([40, 7, 9], ">u4").tobytes() + many.tobytes()
    file = tmp_path / ("images.gz" if zipped else "images")
    file.write_bytes(gzip.compress(content)[:1800] if zipped else content[:1800])
    source = Idx(file=str(file), on_bad_item="skip", crop="top_left")
    found = items(source, (7, 9, 1), 40)
    whole = found.index(0, 1)  # the first item that is skipped shows item 0: no good one follows it
    assert 20 < whole < 30
    assert found == [*range(whole), *[0] * (40 - whole)]
    assert np.array_equal(shown(source, (7, 9, 1), whole)[..., 0], many[:whole])
    with pytest.raises(InputError) as raised:
        Idx(file=str(file)).open((7, 9, 1), 1, 1)
    assert len(str(raised.value).splitlines()) <= 4  # one error, not one for each image


def test_a_file_whose_damage_may_be_anywhere_is_refused_also_if_items_are_skipped(tmp_path: Path) -> None:
    content = bytes([0, 0, 8, 3]) + np.array([4, 7, 9], ">u4").tobytes() + GREY.tobytes()
    zipped = bytearray(gzip.compress(content))
    zipped[-6] ^= 1  # the checksum of all pixels
    (tmp_path / "a.gz").write_bytes(zipped)
    (tmp_path / "long").write_bytes(content + b"more")
    many = bytes([0, 0, 8, 3]) + np.array([1 << 31, 7, 9], ">u4").tobytes() + GREY.tobytes()
    (tmp_path / "huge").write_bytes(many)
    for name, message in (
        ("a.gz", "cannot be read: CRC"),
        ("long", "the length of this file is wrong"),
        ("huge", "the length of this file is wrong"),
    ):
        with pytest.raises(InputError, match=f"{name}: .*{message}"):
            Idx(file=str(tmp_path / name), on_bad_item="skip").open((7, 9, 1), 1, 1)


def test_of_a_truncated_array_file_the_whole_images_are_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.npy"
    np.save(path, COLOUR)
    path.write_bytes(path.read_bytes()[:-4000])
    with pytest.raises(InputError, match=r"a.npy: this file cannot be read"):
        ImageArray(file=str(path)).open((32, 32, 3), 1, 1)
    source = ImageArray(file=str(path), on_bad_item="skip", crop="top_left")
    assert items(source, (32, 32, 3), 6) == [0, 1, 2, 0, 0, 0]
    assert np.array_equal(shown(source, (32, 32, 3), 3), COLOUR[:3])
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(InputError, match=r"a.npy: this file cannot be read"):
        source.open((32, 32, 3), 1, 1)


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_sound_is_shown_as_images_of_one_row(tmp_path: Path, width: int) -> None:
    top = 1 << (8 * width - 1)
    samples = np.array([[-top, top - 1], [0, top // 2], [-top // 2, 1]] * 20)
    stored = (samples + (128 if width == 1 else 0)).astype("<i8").view(np.uint8).reshape(-1, 8)[:, :width]
    with wave.open(str(tmp_path / "a.wav"), "wb") as file:
        file.setparams((2, width, 8000, 0, "NONE", ""))
        file.writeframes(stored.tobytes())
    source = Sound(files=str(tmp_path), crop="top_left", offset=(0, 2))
    expected = (samples[2:7] / top).astype(np.float32)
    assert np.array_equal(source.open((1, 5, 2), 1, 1)(0, 0)[0], expected)
    whole = (tmp_path / "a.wav").read_bytes()
    bits = whole.index(b"fmt ") + 22
    wide = whole[:bits] + b"\x30\0" + whole[bits + 2 :]
    for damaged in (whole[: len(whole) // 2], whole[:20], b"", b"RIFF" + bytes(100), wide):
        (tmp_path / "a.wav").write_bytes(damaged)
        message = r"a.wav: samples of this size (.|\n)*48 bits" if damaged is wide else r"a.wav: this file"
        with pytest.raises(InputError, match=message):
            source.open((1, 5, 2), 1, 1)
