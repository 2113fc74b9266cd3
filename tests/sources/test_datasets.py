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
from petabatch.sources import Cifar10, Cifar100, Idx, Sound

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
        kind(files=str(tmp_path)).gallery()


def test_pickled_cifar_batches_are_read(tmp_path: Path) -> None:
    file = tmp_path / "data_batch_1"
    file.write_bytes(pickle.dumps({b"data": planes(COLOUR), b"labels": [1] * 5}, protocol=2))
    assert np.array_equal(shown(Cifar10(files=str(file)), (32, 32, 3), 5), COLOUR)
    whole = file.read_bytes()
    for damaged in (whole[:-9], b"", b"not a pickle", pickle.dumps({b"data": planes(COLOUR)[:, :9]})):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match="data_batch_1: "):
            Cifar10(files=str(file)).gallery()


def test_a_pickle_that_names_anything_but_an_array_is_refused_and_not_executed(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> Any:
            return os.mkdir, (str(tmp_path / "executed"),)

    (tmp_path / "batch").write_bytes(pickle.dumps({b"data": Trap()}))
    with pytest.raises(InputError, match=r"it names posix.mkdir, which is not part of an array"):
        Cifar10(files=str(tmp_path / "batch")).gallery()
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
            Cifar10(files=str(tmp_path / "batch")).gallery()


def test_a_pickle_that_claims_many_objects_takes_no_memory(tmp_path: Path) -> None:
    claim = b"r" + (50_000_000).to_bytes(4, "little")  # the dictionary is object number fifty million
    (tmp_path / "batch").write_bytes(b"\x80\x02}" + claim + b".")
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match="there are no images in this file"):
            Cifar10(files=str(tmp_path / "batch")).gallery()
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


def test_every_bad_batch_is_told_at_once(tmp_path: Path) -> None:
    for name in ("a.bin", "b.bin", "c"):
        (tmp_path / name).touch()
    with pytest.raises(InputError) as raised:
        Cifar10(files=tuple(str(tmp_path / name) for name in ("a.bin", "b.bin", "c"))).gallery()
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
            write(content).gallery()
    if zipped:
        source = write(header + GREY.tobytes())
        path = Path(source.file)
        path.write_bytes(path.read_bytes()[:-20])
        with pytest.raises(InputError, match="this file cannot be read"):
            source.gallery()


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
