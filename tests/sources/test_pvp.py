"""PetaVision's .pvp files: what is written is read, in part, and damage is refused."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy as np
import pytest

from petabatch.errors import InputError
from petabatch.petavision.pvp import write_activities, write_weights
from petabatch.sources import ImageArray
from petabatch.sources.pvp import Activities, Weights
from petabatch.weights import WeightFile

RNG = np.random.default_rng(0)
FRAMES = RNG.normal(size=(5, 4, 6, 3)).astype(np.float32) * (RNG.random((5, 4, 6, 3)) < 0.3)


@pytest.mark.parametrize("sparse", [False, True])
def test_activities(sparse: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.pvp"
    assert (
        write_activities(path, (4, 6, 3), ((2.0 * t, frame) for t, frame in enumerate(FRAMES)), sparse) == 5
    )
    file = Activities(str(path))
    assert (file.count, file.shape, file.header.kind) == (5, (4, 6, 3), 6 if sparse else 4)
    np.testing.assert_array_equal([file.frame(number) for number in range(5)], FRAMES)
    assert [file.time(number) for number in range(5)] == [0, 2, 4, 6, 8]
    read = ImageArray(file=str(path), order="by_movie").open((2, 6, 3), 1, 0)
    assert read(0, 3).shape == (2, 6, 3)


def test_binary_activities_are_ones(tmp_path: Path) -> None:
    header = struct.pack("<18id", 80, 20, 2, 3, 2, 1, 1, 0, 4, 1, 1, 1, 3, 2, 0, 0, 1, 1, 0.0)
    (tmp_path / "b.pvp").write_bytes(header + struct.pack("<di2I", 1.0, 2, 1, 5))
    assert Activities(str(tmp_path / "b.pvp")).frame(0).ravel().tolist() == [0, 1, 0, 0, 0, 1]


def test_weights(tmp_path: Path) -> None:
    path = tmp_path / "w.pvp"
    frames = RNG.normal(size=(3, 1, 1, 5, 2, 3, 4)).astype(np.float32)
    assert write_weights(path, ((float(t), w) for t, w in enumerate(frames))) == 3
    np.testing.assert_array_equal(Weights(str(path)).frame(1)[0], frames[1])
    rng = np.random.default_rng(0)
    for frame, wanted in ((None, 2), (0, 0), (-2, 1)):
        found = WeightFile(path=str(path), frame=frame).weights((1, 1, 5, 2, 3, 4), rng)
        np.testing.assert_array_equal(found, frames[wanted])
    with pytest.raises(InputError, match="not a frame 3"):
        WeightFile(path=str(path), frame=3).weights((1, 1, 5, 2, 3, 4), rng)
    with pytest.raises(InputError, match="do not fit the connection"):
        WeightFile(path=str(path)).weights((1, 1, 6, 2, 3, 4), rng)


def test_weights_of_each_unit_are_cut_to_the_layer(tmp_path: Path) -> None:
    """The file has those of the margin as well."""
    weights = RNG.normal(size=(6, 8, 2, 3, 3, 1)).astype(np.float32)
    write_weights(tmp_path / "w.pvp", [(0.0, weights)], units=(4, 6))
    found = WeightFile(path=str(tmp_path / "w.pvp")).weights((4, 6, 2, 3, 3, 1), np.random.default_rng(0))
    np.testing.assert_array_equal(found, weights[1:5, 1:7])


def test_bytes_are_scaled_to_the_range_of_the_weights(tmp_path: Path) -> None:
    path = tmp_path / "w.pvp"
    write_weights(path, [(0.0, np.zeros((1, 1, 1, 1, 2, 1)))])
    data = bytearray(path.read_bytes())
    struct.pack_into("<2i", data, 32, 1, 1)
    struct.pack_into("<2f", data, 92, -1.0, 3.0)
    path.write_bytes(bytes(data[:112]) + bytes([0, 255]))
    assert Weights(str(path)).frame(0).ravel().tolist() == [-1.0, 3.0]


def test_potentials_of_each_slice(tmp_path: Path) -> None:
    path = tmp_path / "V.pvp"
    write_activities(path, (4, 6, 3), ((0.0, frame) for frame in FRAMES))
    rng = np.random.default_rng(0)
    one = WeightFile(path=str(path), frame=2).weights((4, 6, 3), rng)
    np.testing.assert_array_equal(one, FRAMES[2])
    several = WeightFile(path=str(path), frame=4, per_slice=True).weights((3, 4, 6, 3), rng)
    np.testing.assert_array_equal(several, FRAMES[[4, 0, 1]])


@pytest.mark.parametrize("sparse", [False, True])
def test_a_truncated_file_lacks_its_last_frames(sparse: bool, tmp_path: Path) -> None:
    path = tmp_path / "a.pvp"
    write_activities(path, (4, 6, 3), ((0.0, frame) for frame in FRAMES), sparse)
    path.write_bytes(path.read_bytes()[:-5])
    assert Activities(str(path)).count == 4
    with pytest.raises(InputError, match="it has 4 of 5 frames"):
        ImageArray(file=str(path)).open((4, 6, 3), 1, 0)
    read = ImageArray(file=str(path), on_bad_item="skip").open((4, 6, 3), 1, 0)
    np.testing.assert_array_equal(read(0, 3), FRAMES[3])


@pytest.mark.parametrize(
    ("at", "value", "reason"),
    [
        (0, 81, "it does not begin as one"),
        (8, 7, "type 7"),
        (12, -1, "its size is"),
        (36, 9, "values have type 9"),
    ],
)
def test_a_damaged_header_is_refused(at: int, value: int, reason: str, tmp_path: Path) -> None:
    path = tmp_path / "a.pvp"
    write_activities(path, (4, 6, 3), ((0.0, frame) for frame in FRAMES))
    data = bytearray(path.read_bytes())
    struct.pack_into("<i", data, at, value)
    path.write_bytes(data)
    with pytest.raises(InputError, match=reason):
        Activities(str(path))
