"""Arrays of images in the files of NumPy and MATLAB."""

from __future__ import annotations

import re
import struct
import zlib
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import scipy.io
from scipy.io import loadmat, savemat

from petabatch.coding.images import _of_path
from petabatch.errors import InputError
from petabatch.sources import ImageArray
from petabatch.sources.mat import open_mat
from petabatch.sources.npz import open_npz

RNG = np.random.default_rng(0)
GREY = RNG.normal(size=(4, 7, 9))
COLOUR = RNG.integers(0, 255, (5, 6, 8, 3)).astype(np.uint8)


def shown(path: Path, images: np.ndarray, dataset: str | None = None) -> np.ndarray:
    shape = (*images.shape, 1)[1:4]
    read = ImageArray(file=str(path), dataset=dataset, crop="top_left").open(shape, 1, 1)
    return np.stack([read(0, item) for item in range(len(images))]).reshape(images.shape)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_of_an_archive_are_read_by_name(tmp_path: Path, save: Any) -> None:
    file = tmp_path / "a.npz"
    save(file, grey=GREY, colour=np.asfortranarray(COLOUR))
    assert np.array_equal(shown(file, GREY, "grey"), GREY.astype(np.float32))
    assert np.array_equal(shown(file, COLOUR, "colour"), (COLOUR / 255).astype(np.float32))
    for name, found in ((None, "no `dataset` is given"), ("gray", "gray")):
        with pytest.raises(InputError, match=rf"(?s)a.npz: there is no variable.*{found}.*grey, colour"):
            ImageArray(file=str(file), dataset=name).gallery()
    save(file, images=GREY)
    assert np.array_equal(shown(file, GREY), GREY.astype(np.float32))
    whole = file.read_bytes()
    for damaged in (whole[:-9], whole[:50], b"", b"no archive", whole[:30] + bytes(100) + whole[130:]):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"a.npz: this file cannot be read"):
            ImageArray(file=str(file)).gallery()
    save(file, images=np.array([{}, []], object))
    with pytest.raises(InputError, match=r"a.npz: this file cannot be read"):
        ImageArray(file=str(file)).gallery()


def test_only_the_parts_that_are_shown_of_an_uncompressed_archive_are_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=GREY)
    assert isinstance(open_npz(str(tmp_path / "a.npz"), None), np.memmap)


def write_mat(file: Path, new: bool, **variables: np.ndarray) -> None:
    """Write a `.mat` file as MATLAB does."""
    if not new:
        savemat(file, variables)
        return
    with h5py.File(file, "w", userblock_size=512) as stored:
        for name, values in variables.items():
            stored[name] = values.T
    head = b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM"
    with file.open("r+b") as block:
        block.write(head)


@pytest.mark.parametrize("new", [False, True])
def test_matlab_files_have_the_image_number_last(tmp_path: Path, new: bool) -> None:
    file = tmp_path / "IMAGES.mat"
    matlab = {"IMAGES": GREY.transpose(1, 2, 0), "X": COLOUR.transpose(1, 2, 3, 0)}
    write_mat(file, new, **matlab)
    assert np.array_equal(shown(file, GREY, "IMAGES"), GREY.astype(np.float32))
    assert np.array_equal(shown(file, COLOUR, "X"), (COLOUR / 255).astype(np.float32))
    with pytest.raises(InputError, match=r"(?s)no `dataset` is given.*IMAGES, X"):
        ImageArray(file=str(file)).gallery()
    file = tmp_path / "one.mat"
    write_mat(file, new, IMAGES=matlab["IMAGES"])
    assert np.array_equal(shown(file, GREY), GREY.astype(np.float32))
    read = ImageArray(file=str(file), crop="top_left").open((2, 3, 1), 1, 1)
    assert np.array_equal(read(0, 3)[..., 0], GREY[3, :2, :3].astype(np.float32))
    file = tmp_path / "two.mat"
    write_mat(file, new, patches=GREY[0])
    with pytest.raises(InputError, match=r"two.mat: this is not an array of images"):
        ImageArray(file=str(file)).gallery()
    whole = file.read_bytes()
    file = tmp_path / "three.mat"
    for damaged in (whole[: len(whole) // 2], b"", b"no MATLAB"):
        file.write_bytes(damaged)
        with pytest.raises(InputError, match=r"three.mat: "):
            ImageArray(file=str(file)).gallery()


MATLAB = Path(scipy.io.__file__).parent / "matlab" / "tests" / "data"


@pytest.mark.parametrize("file", sorted(MATLAB.glob("*.mat")), ids=lambda file: file.stem)
def test_what_matlab_has_written_is_read_as_scipy_reads_it(file: Path) -> None:
    try:
        expected = {n: v for n, v in loadmat(file, mat_dtype=True).items() if not n.startswith("__")}
    except Exception:  # damaged, or of version 7.3
        expected = {}
    for name, values in expected.items():
        numbers = isinstance(values, np.ndarray) and values.dtype.kind in "fiub"
        if not numbers or file.read_bytes()[126:128] not in (b"IM", b"MI"):
            with pytest.raises(InputError, match=re.escape(str(file))):
                open_mat(str(file), name)
            continue
        found = open_mat(str(file), name)
        assert found.dtype == values.dtype.newbyteorder("=")
        assert np.array_equal(found, values)
    if not expected:
        with pytest.raises(InputError, match=re.escape(str(file))):
            open_mat(str(file), None)


@pytest.mark.parametrize("padding", range(8))
def test_variables_follow_compressed_ones_of_any_length(tmp_path: Path, padding: int) -> None:
    file = tmp_path / "a.mat"
    first = {"first": np.arange(padding + 2.0), "second": np.ones(3)}
    savemat(file, {**first, "IMAGES": GREY.transpose(1, 2, 0)})
    content = file.read_bytes()
    (size,) = struct.unpack("<I", content[132:136])
    stored, rest = zlib.compress(content[128 : 136 + size]), content[136 + size :]
    file.write_bytes(content[:128] + struct.pack("<2I", 15, len(stored)) + stored + rest)
    assert np.array_equal(shown(file, GREY, "IMAGES"), GREY.astype(np.float32))


@pytest.mark.parametrize("new", [False, True])
def test_numbers_of_matlab_keep_their_type_however_compactly_they_are_stored(
    tmp_path: Path, new: bool
) -> None:
    file, images = tmp_path / "a.mat", np.arange(24).reshape(2, 3, 4)
    if new:
        write_mat(file, True, double=images.astype(float), logical=(images % 2).astype(np.uint8))
        with h5py.File(file, "r+") as stored:
            stored["logical"].attrs["MATLAB_class"] = np.bytes_("logical")
    else:
        savemat(file, {"double": images.astype(np.uint8), "logical": images % 2 > 0})
        content = bytearray(file.read_bytes())
        assert content.count(b"\x09\0\0\0\0\0\0\0") == 1
        at = content.index(b"\x09\0\0\0\0\0\0\0")
        content[at] = 6  # MATLAB stores doubles that are small integers as these
        file.write_bytes(content)
    for name, expected in (("double", images), ("logical", images % 2)):
        read = ImageArray(file=str(file), dataset=name).open((2, 3, 1), 4, 1)
        for slice_ in range(4):
            assert np.array_equal(read(slice_, 0)[..., 0], expected[..., slice_])


def test_encode_takes_the_path_of_a_file_with_one_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", images=GREY)
    write_mat(tmp_path / "a.mat", False, IMAGES=GREY.transpose(1, 2, 0))
    for name in ("a.npz", "a.mat"):
        assert len(_of_path(str(tmp_path / name), "last").gallery().shapes) == len(GREY)


def test_hdf5_under_the_name_of_a_matlab_file_is_told(tmp_path: Path) -> None:
    with h5py.File(tmp_path / "a.mat", "w") as file:
        file["x"] = np.zeros((3, 8, 8))
    with pytest.raises(InputError, match=r"HDF5 without MATLAB's header: give it a name that ends in \.h5"):
        ImageArray(file=str(tmp_path / "a.mat")).gallery()
