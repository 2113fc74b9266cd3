"""Image files as cameras and scanners write them: turned by EXIF, of 16 bits and more."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from petabatch.errors import InputError
from petabatch.layers import Input
from petabatch.params import first_state, plan
from petabatch.sources import ImageArray, Images
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network, Run

PIXELS = np.random.default_rng(0).integers(0, 256, (6, 8, 3)).astype(np.uint8)
UPRIGHT = {
    1: lambda a: a,
    2: lambda a: a[:, ::-1],
    3: lambda a: a[::-1, ::-1],
    4: lambda a: a[::-1],
    5: lambda a: a.swapaxes(0, 1),
    6: lambda a: np.rot90(a, -1),
    7: lambda a: a[::-1, ::-1].swapaxes(0, 1),
    8: lambda a: np.rot90(a),
    9: lambda a: a,  # there is no such orientation
}
"""What is seen of a picture, by its orientation in EXIF."""


@pytest.mark.parametrize("suffix", ["png", "webp", "tif"])
@pytest.mark.parametrize("orientation", UPRIGHT)
def test_pictures_are_shown_upright(tmp_path: Path, orientation: int, suffix: str) -> None:
    exif = Image.Exif()
    exif[0x112] = orientation
    for mode in ("RGB", "L")[: 1 + (suffix != "webp")]:
        picture = Image.fromarray(PIXELS).convert(mode)
        path = tmp_path / f"{mode}.{suffix}"
        picture.save(path, exif=exif, **({"lossless": True} if suffix == "webp" else {}))
        expected = UPRIGHT[orientation](np.asarray(picture).reshape(6, 8, -1) / 255).astype(np.float32)
        shown = Images(files=str(path)).open(expected.shape, 1, 1)(0, 0)
        np.testing.assert_array_equal(shown, expected)


def test_a_photograph_of_a_camera_held_upright_has_more_rows_than_columns(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(np.repeat(np.repeat(PIXELS, 8, 0), 8, 1)).save(tmp_path / "a.jpg", exif=exif)
    assert list(Images(files=str(tmp_path / "a.jpg")).gallery().shapes) == [(64, 48, 3)]


def test_an_orientation_behind_the_pixels_is_found_wherever_it_is(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x112], exif[0x10E] = 6, "a description " * 1000
    file = tmp_path / "a.png"
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (80, 60, 3)).astype(np.uint8)).save(file)
    stored, kind = file.read_bytes(), b"eXIf" + exif.tobytes().removeprefix(b"Exif\0\0")
    chunk = struct.pack(">I", len(kind) - 4) + kind + struct.pack(">I", zlib.crc32(kind))
    end = stored.index(b"IEND") - 4
    file.write_bytes(stored[:end] + chunk + stored[end:])
    gallery = Images(files=str(file)).gallery()
    assert list(gallery.shapes) == [(60, 80, 3)]
    assert gallery.read(0, slice(None), slice(None)).shape == (60, 80, 3)


@pytest.mark.parametrize("most", [1023, 4095, 65535])
def test_pgm_files_of_16_bits_are_fractions_of_their_largest_value(tmp_path: Path, most: int) -> None:
    pixels = np.random.default_rng(0).integers(0, most + 1, (5, 7)).astype(">u2")
    (tmp_path / "a.pgm").write_bytes(b"P5\n7 5\n%d\n" % most + pixels.tobytes())
    shown = Images(files=str(tmp_path / "a.pgm")).open((5, 7, 1), 1, 1)(0, 0)
    np.testing.assert_allclose(shown[..., 0], pixels / most, atol=1e-5)


def test_floats_are_shown_as_they_are_and_32_bit_integers_refused(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(5, 7)).astype(np.float32)
    Image.fromarray(values).save(tmp_path / "a.tif")
    np.testing.assert_array_equal(
        Images(files=str(tmp_path / "a.tif")).open((5, 7, 1), 1, 1)(0, 0)[..., 0], values
    )
    Image.fromarray(values.astype(np.int32)).save(tmp_path / "b.tif")
    with pytest.raises(InputError, match=r"b\.tif: these numbers are not pixels"):
        Images(files=str(tmp_path / "b.tif")).open((5, 7, 1), 1, 1)


def test_check_tells_what_was_found(tmp_path: Path) -> None:
    for number, shape in enumerate([(8, 8), (8, 9), (10, 8)]):
        Image.fromarray(np.zeros(shape, np.uint8)).save(tmp_path / f"{number + 1}.png")
    (tmp_path / "broken.png").write_bytes(b"nothing")
    whole = (tmp_path / "1.png").read_bytes()
    at = whole.index(b"IDAT") + 6
    (tmp_path / "0.png").write_bytes(whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :])  # seen later
    np.save(tmp_path / "bytes.npy", np.linspace(0, 200, 3 * 64, dtype=np.float32).reshape(3, 8, 8))
    layers = {
        "pictures": Input(
            shape=(8, 8, 1), source=Images(files=str(tmp_path), crop="center", on_bad_item="skip")
        ),
        "floats": Input(shape=(8, 8, 1), source=ImageArray(file=str(tmp_path / "bytes.npy"))),
        "scaled": Input(
            shape=(8, 8, 1), source=ImageArray(file=str(tmp_path / "bytes.npy"), normalize="standard")
        ),
    }
    loaded = Loaded.from_network(Network(layers=layers, run=Run(batch=1, steps=1)))
    assert first_state(loaded, plan(loaded))[1] == [
        "pictures: 4 images, 8 x 8 to 10 x 8, 2 more cannot be shown",
        "floats: 3 images, 8 x 8, floats to 66, which are not scaled: are they pixels of 8 bits?",
        "scaled: 3 images, 8 x 8",
    ]


def test_images_of_van_hateren_are_arrays_of_16_bits_high_byte_first(tmp_path: Path) -> None:
    pixels = np.random.default_rng(1).integers(0, 6000, (1024, 1536)).astype(np.uint16)
    pixels.astype(">u2").tofile(tmp_path / "imk00001.iml")
    source = Images(files=str(tmp_path), crop="top_left", offset=(3, 5))
    shown = source.open((8, 12, 1), 1, 1)(0, 0)
    np.testing.assert_allclose(shown[..., 0], pixels[3:11, 5:17] / 65535, rtol=1e-6)
    assert source.decoded == 4  # of a folder it is not known
    assert Images(files=str(tmp_path / "imk00001.iml")).decoded == 0
    (tmp_path / "imk00001.iml").write_bytes(b"\0" * 100)
    with pytest.raises(InputError, match="it has 100 bytes"):
        source.open((8, 12, 1), 1, 1)
