"""Image files that are damaged, unusual or hostile, and lists that name them."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import h5py
import numpy as np
import pytest
from PIL import Image

from petabatch.errors import InputError, InputFileError
from petabatch.params import first_state, plan, read
from petabatch.sources import Cifar10, Idx, ImageArray, Images, Sound, Video
from support.commands import SMALL

ROOM = (6, 7, 3)
COLOUR = np.random.default_rng(0).integers(0, 255, ROOM).astype(np.uint8)
GREY16 = np.random.default_rng(1).integers(0, 65535, ROOM[:2]).astype(np.uint16)


def shown(path: Path, channels: int) -> np.ndarray:
    return Images(files=str(path)).open((*ROOM[:2], channels), 1, 1)(0, 0)


def test_eight_and_sixteen_bits_grey_and_colour_with_and_without_transparency(tmp_path: Path) -> None:
    colour = Image.fromarray(COLOUR)
    transparent = colour.convert("RGBA")
    transparent.putalpha(Image.fromarray(COLOUR[..., 0]))
    palette = colour.quantize(16)
    palette.info["transparency"] = bytes([0, 128, 255])
    plain = (COLOUR / 255).astype(np.float32)
    for name, image in (("a.png", colour), ("b.tif", colour), ("c.png", transparent), ("d.tif", transparent)):
        image.save(tmp_path / name)
        assert np.array_equal(shown(tmp_path / name, 3), plain), name
    colour.save(tmp_path / "e.webp", lossless=True)
    assert np.array_equal(shown(tmp_path / "e.webp", 3), plain)
    palette.save(tmp_path / "f.png")
    del palette.info["transparency"]
    assert np.array_equal(shown(tmp_path / "f.png", 3), np.float32(np.asarray(palette.convert("RGB")) / 255))
    for name in ("g.png", "h.tif"):
        Image.fromarray(GREY16).save(tmp_path / name)
        assert np.array_equal(shown(tmp_path / name, 1)[..., 0], (GREY16 / 65535).astype(np.float32)), name
    flat = np.full((64, 64, 4), (0, 255, 255, 0), np.uint8)  # ink: red
    Image.fromarray(flat, "CMYK").save(tmp_path / "i.jpg", quality=100)
    Image.fromarray(flat, "CMYK").save(tmp_path / "j.tif")
    for name in ("i.jpg", "j.tif"):
        found = Images(files=str(tmp_path / name)).open((64, 64, 3), 1, 1)(0, 0)
        assert np.allclose(found, (1, 0, 0), atol=0.02), name


def png_header(path: Path, rows: int, columns: int) -> None:
    """Write a PNG that promises an image of this size."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">2I5B", columns, rows, 8, 2, 0, 0, 0)
    parts = [chunk(b"IHDR", header), chunk(b"IDAT", zlib.compress(bytes(1000))), chunk(b"IEND", b"")]
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(parts))


@pytest.mark.filterwarnings("ignore::PIL.Image.DecompressionBombWarning")
def test_a_bomb_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    (tmp_path / "list.txt").write_text("huge.png\nlarge.png\nvast.gif\n")
    png_header(tmp_path / "huge.png", 60000, 60000)
    png_header(tmp_path / "large.png", 10000, 10000)
    (tmp_path / "vast.gif").write_bytes(b"GIF89a" + struct.pack("<2H3B", 60000, 60000, 0xF0, 0, 0) + bytes(9))
    with pytest.raises(InputError) as raised:
        Images(files=str(tmp_path / "list.txt")).open(ROOM, 1, 1)
    told = str(raised.value)
    for name in ("huge.png", "large.png", "vast.gif"):
        assert f"{name}: this " in told
    assert "10000 rows, 10000 columns\n    expected: at most 89,478,485 pixels" in told
    assert "3600000000 pixels" in told


def test_empty_files_are_named_by_every_reader(tmp_path: Path) -> None:
    for source, name in (
        (Images, "a.png"), (Images, "a.jpg"), (Images, "a.webp"), (Images, "a.npy"), (Video, "a.mp4"),
        (Cifar10, "a.bin"), (Cifar10, "a"), (Idx, "a.gz"), (Idx, "a"), (Sound, "a.wav"),
        (ImageArray, "a.npy"), (ImageArray, "a.npz"), (ImageArray, "a.mat"), (ImageArray, "a.h5"),
    ):  # fmt: skip
        (tmp_path / name).touch()
        key = "file" if source in (Idx, ImageArray) else "files"
        more = {"dataset": "x"} if name.endswith(".h5") else {}
        with pytest.raises(InputError, match=rf"/{name}: "):
            source(**{key: str(tmp_path / name)}, **more).open(ROOM, 1, 1)


@contextmanager
def nobody() -> Iterator[None]:
    """Be a user who may not read what others own, where that is possible."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Yield a folder that everybody can enter; those of pytest are closed to others."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def test_files_without_permission_are_named_with_the_reason(open_folder: Path) -> None:
    Image.fromarray(COLOUR).save(open_folder / "a.png")
    np.save(open_folder / "b.npy", COLOUR[None])
    with h5py.File(open_folder / "c.h5", "w") as file:
        file["x"] = COLOUR[None]
    for name in ("d.bin", "e.gz", "f.wav", "g.mp4"):
        (open_folder / name).write_bytes(bytes(3073))
    for file in open_folder.iterdir():
        file.chmod(0)
    for source in (
        Images(files=str(open_folder / "a.png")),
        ImageArray(file=str(open_folder / "b.npy")),
        ImageArray(file=str(open_folder / "c.h5"), dataset="x"),
        Cifar10(files=str(open_folder / "d.bin")),
        Idx(file=str(open_folder / "e.gz")),
        Sound(files=str(open_folder / "f.wav")),
        Video(files=str(open_folder / "g.mp4")),
    ):
        with nobody(), pytest.raises(InputError, match=r"(?i)this file cannot be read: .*permission denied"):
            source.open(ROOM, 1, 1)


def test_a_list_may_have_blank_lines_and_a_byte_order_mark_and_names_all_missing_files(
    tmp_path: Path,
) -> None:
    for number in range(3):
        Image.fromarray(np.full(ROOM, 50 * number, np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / ".hidden.png").write_text("no image")
    (tmp_path / "._0.png").write_text("no image")
    assert len(Images(files=str(tmp_path)).paths()) == 3
    assert len(Images(files=str(tmp_path / "*.png")).paths()) == 3
    listed = tmp_path / "list.txt"
    listed.write_bytes(b"\xef\xbb\xbf0.png\r\n\r\n   \r\n# a comment\r\n2.png\r\n")
    assert [Path(path).name for path in Images(files=str(listed)).paths()] == ["0.png", "2.png"]
    listed.write_text("0.png\ngone.png\n1.png\nlost.jpg\n2.png\nlist.txt\n")
    source = Images(files=str(listed), crop="top_left")
    with pytest.raises(InputError) as raised:
        source.open(ROOM, 1, 1)
    assert str(raised.value).count("there is no such file") == 2
    assert f"{tmp_path / 'gone.png'}: " in str(raised.value)
    assert f"{tmp_path / 'list.txt'}: this file cannot be read" in str(raised.value)
    read = source.model_copy(update={"on_bad_item": "skip"}).stream(ROOM, 1, 1)
    assert [read.shown(0, display).item for display in range(6)] == [0, 2, 2, 4, 4, 0]
    listed.write_bytes(b"\xff\xfe0\x00.\x00p\x00n\x00g\x00")
    with pytest.raises(InputError, match=r"list.txt: this list of images cannot be read"):
        source.open(ROOM, 1, 1)


def test_images_of_odd_sizes_are_shown_whole_and_in_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for rows, columns in ((1, 1), (7, 13), (1, 640), (333, 1)):
        pixels = rng.integers(0, 255, (rows, columns, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(tmp_path / "a.png")
        found = Images(files=str(tmp_path / "a.png")).open((rows, columns, 3), 1, 1)(0, 0)
        assert np.array_equal(found, (pixels / 255).astype(np.float32))


def test_check_tells_every_bad_file_at_once(tmp_path: Path) -> None:
    (tmp_path / "pictures").mkdir()
    for number in range(3):
        Image.fromarray(np.zeros((20, 20, 3), np.uint8)).save(tmp_path / "pictures" / f"{number}.png")
    (tmp_path / "pictures" / "bad.png").touch()
    png_header(tmp_path / "pictures" / "bomb.png", 60000, 60000)
    Image.fromarray(np.zeros((5, 20, 3), np.uint8)).save(tmp_path / "pictures" / "small.png")
    (tmp_path / "a.toml").write_text(
        SMALL.replace('{ type = "array", file = "images.npy" }', '{ type = "images", files = "pictures" }')
    )
    loaded = read(tmp_path / "a.toml")
    with pytest.raises(InputFileError) as raised:
        first_state(loaded, plan(loaded))
    for name in ("bad.png", "bomb.png", "small.png"):
        assert name in str(raised.value)
    assert "layers.image.source" in str(raised.value)


def test_an_image_that_is_damaged_anywhere_is_skipped_whichever_part_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "a.h5"
    with h5py.File(path, "w") as file:
        stored = np.random.default_rng(1).random((3, 32, 32, 1)).astype(np.float32)
        file.create_dataset("x", data=stored, chunks=(1, 16, 16, 1), fletcher32=True)
        place = file["x"].id.get_chunk_info_by_coord((1, 16, 16, 0)).byte_offset
    data = bytearray(path.read_bytes())
    data[place + 5] ^= 255
    path.write_bytes(data)
    source = ImageArray(file=str(path), dataset="x", on_bad_item="skip", crop="top_left")
    for size in (32, 8):  # the part that is damaged, and one that is not
        shown = source.stream((size, size, 1), 1, 1)
        assert [shown.shown(0, display).item for display in range(3)] == [0, 2, 2]
        shown(0, 1)
