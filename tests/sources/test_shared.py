"""Files that several readers share: opened once in a process, and closed with the last reader."""

from __future__ import annotations

import gc
import gzip
import importlib
import operator
import os
import pickle
import resource
import wave
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from PIL import Image
from scipy.io import savemat

import petabatch
from petabatch.errors import InputError
from petabatch.sources import Cifar10, Idx, ImageArray, Images, Sound, headers, sound
from petabatch.sources.shared import shared_handle
from petabatch.sources.view import View

ROOM = (6, 7, 3)
STACK = np.random.default_rng(0).integers(0, 255, (5, *ROOM)).astype(np.uint8)


def descriptors(path: Path) -> int:
    """Return how many descriptors of this process are of a file."""
    own = Path("/proc/self/fd")
    if not own.exists():
        pytest.skip("the descriptors of a process are seen on Linux only")
    links = []
    for entry in own.iterdir():
        try:
            links.append(os.readlink(entry))
        except OSError:  # that of the folder itself
            continue
    return links.count(str(path))


def sources(folder: Path, name: str) -> tuple[Path, list[Any]]:
    """Return a file with two arrays, and a source for each."""
    path = folder / name
    if name.endswith(".npz"):
        np.savez(path, left=STACK, right=STACK[::-1])
    else:
        with h5py.File(path, "w") as file:
            file["left"], file["right"] = STACK, STACK[::-1]
    return path, [ImageArray(file=str(path), dataset=d, crop="top_left") for d in ("left", "right")]


@pytest.mark.parametrize("name", ["a.h5", "a.npz"])
def test_two_layers_on_one_file_share_one_handle_which_is_closed_with_the_last(
    tmp_path: Path, name: str
) -> None:
    path, (left, right) = sources(tmp_path, name)
    readers = [one.stream(ROOM, 1, seed) for one in (left, right) for seed in (1, 2)]
    for read in readers[:2]:
        assert np.array_equal(read(0, 1), (STACK[1] / 255).astype(np.float32))
    for read in readers[2:]:
        assert np.array_equal(read(0, 1), (STACK[3] / 255).astype(np.float32))
    assert descriptors(path) == 1
    del read, readers[1:]
    assert descriptors(path) == 1
    assert np.array_equal(readers[0](0, 2), (STACK[2] / 255).astype(np.float32))
    readers.clear()
    assert descriptors(path) == 0


LINKS: dict[str, Callable[[str], View]] = {
    "a.h5": lambda path: ImageArray(file=path, dataset="left", crop="top_left"),
    "a.npz": lambda path: ImageArray(file=path, dataset="left", crop="top_left"),
    "a.npy": lambda path: ImageArray(file=path, crop="top_left"),
    "a.bin": lambda path: Cifar10(files=path, crop="top_left"),
    "a-idx3-ubyte": lambda path: Idx(file=path, crop="top_left"),
}


@pytest.mark.parametrize("name", LINKS)
def test_a_link_is_the_file_it_leads_to_under_its_own_name(tmp_path: Path, name: str) -> None:
    path, shape = tmp_path / name, (6, 7, 1)
    if name.endswith((".h5", ".npz")):
        sources(tmp_path, name)
    elif name.endswith(".npy"):
        np.save(path, STACK)
    else:
        head = bytes([0, 0, 8, 3]) + np.array([1, 50, 60], ">u4").tobytes()
        path.write_bytes(
            (b"" if name.endswith(".bin") else head) + bytes(3073 if name.endswith(".bin") else 3000)
        )
    names = [path, tmp_path / f"soft{path.suffix}", tmp_path / f"hard{path.suffix}"]
    names[1].symlink_to(path)
    names[2].hardlink_to(path)
    readers = [LINKS[name](str(each)).stream(shape, 1, 1) for each in names]
    assert sum(descriptors(each) for each in names) == 1
    told = [reader.files[0][0] for reader in readers]
    assert [str(each) in of for each, of in zip(names, told, strict=True)] == [True] * 3
    readers.clear()
    assert sum(descriptors(each) for each in names) == 0


IDX = bytes([0, 0, 8, 3]) + np.array([3, 50, 60], ">u4").tobytes()
PLANES = np.arange(2 * 3072).astype(np.uint8).reshape(2, -1)
LOADED: dict[str, tuple[Callable[[Path], object], Callable[[str], View], str]] = {
    "a.npz": (lambda path: np.savez_compressed(path, x=STACK), LINKS["a.npy"], "npz.zipfile.ZipFile"),
    "a.mat": (
        lambda path: savemat(path, {"x": STACK.transpose(1, 2, 3, 0)}, do_compression=True),
        LINKS["a.npy"],
        "mat5._decompressed",
    ),
    "a-idx3-ubyte.gz": (
        lambda path: path.write_bytes(gzip.compress(IDX + bytes(9000))),
        LINKS["a-idx3-ubyte"],
        "idx.gzip.open",
    ),
    "truncated-idx3-ubyte.gz": (
        lambda path: path.write_bytes(gzip.compress(IDX + bytes(9000), 0)[:-200]),
        LINKS["a-idx3-ubyte"],
        "idx.gzip.open",
    ),
    "a_batch": (
        lambda path: path.write_bytes(pickle.dumps({b"data": PLANES})),
        LINKS["a.bin"],
        "cifar._Unpickler",
    ),
}
"""Files that are loaded whole: how they are written, a source for them, and what loads them."""


@pytest.mark.parametrize("name", LOADED)
def test_a_file_that_is_loaded_is_not_loaded_again_through_a_link_while_it_is_in_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    write, source, function = LOADED[name]
    write(tmp_path / name)
    link = tmp_path / f"link{name}"
    link.symlink_to(tmp_path / name)
    module, _, attribute = function.partition(".")
    loaded = 0
    before = operator.attrgetter(attribute)(importlib.import_module(f"petabatch.sources.{module}"))

    def counted(*arguments: Any, **keys: Any) -> Any:
        nonlocal loaded
        loaded += 1
        return before(*arguments, **keys)

    monkeypatch.setattr(f"petabatch.sources.{function}", counted)

    def opened(path: Path) -> Any:
        damaged = "skip" if "truncated" in name else "error"
        return source(str(path)).model_copy(update={"on_bad_item": damaged}).stream((6, 7, 1), 1, 1)

    gc.disable()
    try:
        first = opened(tmp_path / name)
        once, image = loaded, first(0, 0)
        second = opened(link)
        assert loaded == once
        assert str(link) in second.files[0][0]
        del first
        assert np.array_equal(second(0, 0), image)
        assert np.array_equal(opened(tmp_path / name)(0, 0), image)
        assert loaded == once
        del second
        opened(link)
        assert loaded == 2 * once
    finally:
        gc.enable()


def test_a_file_is_read_as_its_name_says_whatever_has_opened_it(tmp_path: Path) -> None:
    path, link = tmp_path / "a-idx3-ubyte.gz", tmp_path / "link-idx3-ubyte"
    path.write_bytes(gzip.compress(IDX + bytes(9000)))
    link.symlink_to(path)
    first = Idx(file=str(path), crop="top_left").stream((6, 7, 1), 1, 1)
    with pytest.raises(InputError, match="link-idx3-ubyte: this is not an idx file"):
        Idx(file=str(link), crop="top_left").stream((6, 7, 1), 1, 1)
    assert first(0, 0).shape == (6, 7, 1)


def test_a_file_that_was_replaced_is_not_taken_for_the_one_that_is_open_through_a_link(
    tmp_path: Path,
) -> None:
    path, link = tmp_path / "a.npy", tmp_path / "link.npy"
    np.save(path, STACK)
    link.hardlink_to(path)
    first = ImageArray(file=str(path), crop="top_left").stream(ROOM, 1, 1)
    np.save(tmp_path / "new.npy", STACK[::-1])
    os.utime(tmp_path / "new.npy", ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    os.replace(tmp_path / "new.npy", path)
    readers = [
        first,
        *(ImageArray(file=str(each), crop="top_left").stream(ROOM, 1, 1) for each in (path, link)),
    ]
    shown = [(read(0, 0) * 255).round().astype(np.uint8) for read in readers]
    for pixels, number in zip(shown, (0, 4, 0), strict=True):
        assert np.array_equal(pixels, STACK[number])


def test_a_file_replaced_while_it_is_opened_is_not_shared(tmp_path: Path) -> None:
    path, other = tmp_path / "a", tmp_path / "b"
    path.write_text("old")
    other.hardlink_to(path)

    def opening(name: str) -> set[str]:
        (tmp_path / "new").write_text("new, and longer")
        if name == str(path):
            os.replace(tmp_path / "new", path)
        return {Path(name).read_text()}

    opened = shared_handle(opening)
    first, through_link = opened(str(path)), opened(str(other))
    assert first == {"new, and longer"}
    assert through_link == {"old"}


def test_where_files_have_no_numbers_their_resolved_paths_tell_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        (tmp_path / name).write_text("same length")
        os.utime(tmp_path / name, ns=(0, 0))
    (tmp_path / "link").symlink_to(tmp_path / "a")
    stat = os.stat

    def numberless(path: Any, **more: Any) -> os.stat_result:
        found = list(stat(path, **more))
        found[1] = 0
        return os.stat_result(found, {"st_mtime_ns": 0})

    opened = shared_handle(lambda name: {name})
    monkeypatch.setattr("petabatch.sources.shared.os.stat", numberless)
    a, b, link = (opened(str(tmp_path / name)) for name in ("a", "b", "link"))
    assert a is link
    assert a is not b


def test_headers_are_read_once_for_all_readers_and_again_when_a_file_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    before = headers._shape
    monkeypatch.setattr(headers, "_shape", lambda path, most: seen.append(path) or before(path, most))
    for number in range(3):
        Image.fromarray(STACK[number]).save(tmp_path / f"{number}.png")
    source = Images(files=str(tmp_path), crop="top_left")
    readers = [source.stream(ROOM, 1, seed) for seed in range(4)]
    assert len(seen) == 3
    Image.fromarray(STACK[4]).save(tmp_path / "new.png")
    os.replace(tmp_path / "new.png", tmp_path / "1.png")
    changed = source.stream(ROOM, 1, 1)
    assert len(seen) == 6
    assert np.array_equal(changed(0, 1), (STACK[4] / 255).astype(np.float32))
    readers.clear()


def test_headers_of_recordings_are_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with wave.open(str(tmp_path / "a.wav"), "w") as file:
        file.setparams((1, 2, 8000, 0, "NONE", ""))
        file.writeframes(bytes(64))
    seen: list[str] = []
    before = sound._shape
    monkeypatch.setattr(sound, "_shape", lambda path: (seen.append(path), before(path))[1])
    readers = [Sound(files=str(tmp_path)).stream((1, 8, 1), 1, seed) for seed in range(3)]
    assert len(seen) == 1
    readers.clear()


@contextmanager
def few_descriptors(count: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (count, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_arrays_in_files_of_their_own_do_not_stay_open(tmp_path: Path) -> None:
    for number in range(300):
        np.save(tmp_path / f"{number:03}.npy", STACK[number % 5])
    read = Images(files=str(tmp_path), crop="top_left").stream(ROOM, 1, 1)
    with few_descriptors(200):
        for number in range(300):
            assert np.array_equal(read(0, number), (STACK[number % 5] / 255).astype(np.float32))


def test_a_run_closes_its_inputs_at_its_end(small: Path) -> None:
    path = small.parent / "images.h5"
    with h5py.File(path, "w") as file:
        file["x"] = np.load(small.parent / "images.npy")
    source = f'layers.image.source={{type = "array", file = "{path}", dataset = "x"}}'
    loaded = petabatch.load(small, ["run.displays=1", source])
    gc.disable()
    try:
        petabatch.run(loaded, small.parent / "run", mpi=False, quiet=True).close()
        assert descriptors(path) == 0
    finally:
        gc.enable()
