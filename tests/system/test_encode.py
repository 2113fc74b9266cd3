"""`petabatch.encode` and the verb: codes of images with dictionaries from arrays, files and runs."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import h5py
import numpy as np
import pytest
import xarray
from scipy.io import savemat

import petabatch
from petabatch import coding
from petabatch.coding.codes import Codes
from petabatch.coding.dictionary import read
from petabatch.coding.images import stack
from petabatch.engine.steppers.program import ProgramStepper
from petabatch.errors import (
    ArgumentError,
    InputError,
    NonFiniteError,
    NotRecorded,
    StoppedEarly,
    StorageError,
    UnknownName,
)
from petabatch.logs import log
from petabatch.session import RunSession
from petabatch.storage.merge import merge
from petabatch.storage.prune import prune
from petabatch.weights import WeightFile
from support.commands import SMALL, Command, alone
from support.optimum import problem


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("stride", [1, 2])
def test_codes_are_as_near_to_the_optimum_as_they_say(signed: bool, stride: int) -> None:
    given = problem(stride=stride, signed=signed, slices=4)
    found = petabatch.encode(
        given.data[:, 0],
        given.weights[0, 0],
        given.threshold,
        stride=stride,
        gap=1e-3,
        signed=signed,
        threads=1,
    )
    assert found.activity.shape == (4, *given.code)
    assert (found.activity < 0).any() == signed
    assert (found.gap <= 1e-3).all()
    assert (found.steps < 1000).all()
    for number in range(4):
        energy = given.energy(found.activity[number], number)
        lowest = given.energy(given.solved(number), number)
        assert lowest * (1 - 1e-6) <= energy <= lowest / (1 - found.gap[number]) * (1 + 1e-6)


def test_a_code_depends_on_no_other_image(monkeypatch: pytest.MonkeyPatch) -> None:
    given = problem(slices=5)
    images, dictionary = given.data[:, 0], given.weights[0, 0]
    whole = petabatch.encode(images, dictionary, 0.4, stride=2, threads=3)
    alone = petabatch.encode(images[3:4], dictionary, 0.4, stride=2, threads=1)
    np.testing.assert_array_equal(alone.activity, whole.activity[3:4])
    monkeypatch.setattr("petabatch.coding.solvers._BYTES", 2 * whole.activity[0].nbytes)
    pairs = petabatch.encode(images, dictionary, 0.4, stride=2, threads=1)
    for name in ("activity", "gap", "steps"):
        np.testing.assert_array_equal(getattr(pairs, name), getattr(whole, name), err_msg=name)


def test_codes_of_one_position_need_no_network_and_are_those_of_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    rng = np.random.default_rng(3)
    images, dictionary = rng.standard_normal((30, 4, 4, 2)), rng.standard_normal((24, 4, 4, 2))
    given = {"threshold": 0.9, "stride": 4, "signed": True, "threads": 2}
    with monkeypatch.context() as patched:
        patched.setattr("petabatch.coding.solvers.Solvers._one_position", lambda *_: False)
        network = petabatch.encode(images, dictionary, gap=1e-6, **given)
    monkeypatch.setattr("petabatch.coding.solvers.Simulator", None)
    found = petabatch.encode(images, dictionary, out=tmp_path / "codes.h5", **given)
    assert found.activity.shape == (30, 1, 1, 24)
    assert found.gap.max() < 1e-5
    np.testing.assert_allclose(found.activity, network.activity, atol=2e-3)
    np.testing.assert_array_equal(found.active, np.count_nonzero(found.activity[:], axis=(1, 2, 3)))
    alone = petabatch.encode(images[7:8], dictionary, **{**given, "threads": 1})
    np.testing.assert_array_equal(alone.activity[0], found.activity[7])


@pytest.mark.parametrize("channels", ["last", "first"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float64"])
def test_images_of_an_array_are_read_together_as_they_are_alone(dtype: str, channels: str) -> None:
    images = (200 * np.random.default_rng(4).random((6, 5, 5, 2))).astype(dtype)
    given = np.moveaxis(images, -1, 1) if channels == "first" else images
    dictionary = read(np.ones((1, 5, 5, 2)), None, None, None)
    one = stack(given, None, dictionary, None, channels)
    together = one.read(1, 5)
    assert one._block is not None
    one._block = None
    np.testing.assert_array_equal(together, one.read(1, 5))
    assert together.dtype == np.float32
    assert stack(given, None, dictionary, (4, 4), channels)._block is None
    assert stack(given, "mean", dictionary, None, channels)._block is None


@pytest.mark.parametrize("channels", ["last", "first"])
def test_a_stream_is_coded_as_all_its_images_are_some_at_a_time(channels: str) -> None:
    images, dictionary = np.random.default_rng(6).random((7, 4, 4, 2)), np.ones((3, 4, 4, 2)) / 8
    dictionary[1, :2] = dictionary[2, :, 2:] = 0
    given = np.moveaxis(images, -1, 1) if channels == "first" else images
    options = {"threshold": 0.1, "stride": 4, "threads": 1, "channels": channels}
    taken = []

    def stream() -> Iterator[np.ndarray]:
        for number, image in enumerate(given):
            taken.append(number)
            yield image

    parts = petabatch.encode_stream(stream(), dictionary, batch=3, **options)
    first = next(parts)
    assert taken == [0, 1, 2]
    found, whole = [first, *parts], petabatch.encode(given, dictionary, **options)
    assert [name for part in found for name in part.names] == list(whole.names)
    for name in ("activity", "gap", "steps", "active"):
        np.testing.assert_array_equal(
            np.concatenate([getattr(part, name) for part in found]), getattr(whole, name)
        )
    batches = petabatch.encode_stream([given[:5], given[5:]], dictionary, batch=4, **options)
    assert [len(part) for part in batches] == [4, 3]
    with pytest.raises(ArgumentError, match="out: a stream is not written to a file"):
        petabatch.encode_stream(stream(), dictionary, 0.1, stride=4, out="codes.h5")
    with pytest.raises(ArgumentError, match="start: a stream has no codes to begin with"):
        petabatch.encode_stream(stream(), dictionary, 0.1, stride=4, start=found[0])
    with pytest.raises(TypeError, match="unexpected keyword argument 'treads'"):
        petabatch.encode_stream(stream(), dictionary, 0.1, stride=4, treads=1)
    with pytest.raises(ArgumentError, match="gap: the value has the wrong type"):
        petabatch.encode_stream(stream(), dictionary, 0.1, stride=4, gap="small")


SIZES = ((8, 12), (12, 8), (8, 12), (6, 6), (8, 8))


def differing(channels: int = 2) -> list[np.ndarray]:
    """Return images that differ in size."""
    rng = np.random.default_rng(8)
    return [rng.standard_normal((*size, channels)) for size in SIZES]


@pytest.mark.parametrize("channels", ["last", "first"])
@pytest.mark.parametrize("together", [1, 2, 5])
def test_an_image_has_the_code_that_it_has_alone_whatever_the_size_of_others(
    channels: str, together: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    images, dictionary = differing(), np.random.default_rng(9).standard_normal((5, 4, 4, 2)) / 4
    options = {"threshold": 0.3, "stride": 2, "signed": True, "channels": channels}
    given = [np.moveaxis(image, -1, 0) if channels == "first" else image for image in images]
    monkeypatch.setattr("petabatch.coding.solvers._BYTES", together * 4 * 6 * 6 * 5)
    found = petabatch.encode(given, dictionary, **options)
    np.testing.assert_array_equal(found.sizes, [(rows // 2, columns // 2) for rows, columns in SIZES])
    assert found.activity.shape == ((5, 6, 6, 5) if channels == "last" else (5, 5, 6, 6))
    for number, image in enumerate(given):
        alone = petabatch.encode(image[None], dictionary, **options)
        np.testing.assert_array_equal(found[number], alone.activity[0])
        for name in ("gap", "steps", "active"):
            assert getattr(found, name)[number] == getattr(alone, name)[0]
    assert [code.shape for code in found] == [found[number].shape for number in range(5)]
    assert found["images[3]"].shape == found[-2].shape == ((3, 3, 5) if channels == "last" else (5, 3, 3))
    assert np.count_nonzero(found.activity) == found.active.sum()
    of_units = found.active.sum() / (found.sizes.prod(axis=1).sum() * 5)
    assert f"at most: {of_units:.2%} active" in repr(found)
    parts = list(petabatch.encode_stream(given, dictionary, batch=2, **options))
    np.testing.assert_array_equal(parts[1][1], found[3])
    stored = petabatch.encode(given, dictionary, out=tmp_path / "codes.h5", **options)
    np.testing.assert_array_equal(stored.sizes, found.sizes)
    np.testing.assert_array_equal(stored[1], found[1] if channels == "last" else np.moveaxis(found[1], 0, -1))
    with xarray.open_dataset(tmp_path / "codes.h5", engine="h5netcdf") as codes:
        assert codes["size"].dims == ("image", "axis")


def test_image_files_that_differ_in_size_are_coded_and_normalised_each_on_its_own(tmp_path: Path) -> None:
    image = pytest.importorskip("PIL.Image", reason="Pillow is not installed (extra images)")
    rng = np.random.default_rng(8)
    for number, size in enumerate(SIZES):
        image.fromarray(rng.integers(0, 255, (*size, 3), np.uint8)).save(tmp_path / f"{number}.png")
    dictionary, options = rng.standard_normal((5, 4, 4, 3)) / 4, {"stride": 2, "normalize": "standard"}
    found = petabatch.encode(tmp_path, dictionary, 0.3, **options)
    for number in range(len(SIZES)):
        alone = petabatch.encode(tmp_path / f"{number}.png", dictionary, 0.3, **options)
        np.testing.assert_array_equal(found[f"{number}.png"], alone.activity[0])


def test_sizes_that_the_stride_does_not_divide_are_errors() -> None:
    images = [*differing(), np.ones((7, 8, 2))]
    with pytest.raises(ArgumentError, match=r"does not divide.*\n.*\n.*7 rows and 8 columns"):
        petabatch.encode(images, np.ones((2, 4, 4, 2)), 0.1, stride=2)
    with pytest.raises(ArgumentError, match=r"patches are larger than the images\n.*\n.*at most 6 rows"):
        petabatch.encode(images, np.ones((2, 8, 8, 2)), 0.1, stride=1)


@pytest.mark.parametrize("channels", ["last", "first"])
def test_codes_start_from_others_and_are_as_good_after_fewer_steps(channels: str) -> None:
    given = problem(stride=2, slices=3, signed=True)
    images, dictionary = given.data[:, 0], given.weights[0, 0] * 5
    if channels == "first":
        images = np.moveaxis(images, -1, 1)
    options = {"threshold": 0.2 * given.threshold, "stride": 2, "signed": True, "channels": channels}
    near = petabatch.encode(images, dictionary, gap=1e-5, steps=5000, **options)
    cold = petabatch.encode(images, dictionary, gap=1e-3, **options)
    for start in (near, near.activity):
        warm = petabatch.encode(images, dictionary, gap=1e-3, start=start, **options)
        assert (warm.gap <= 1e-3).all()
        assert (warm.steps == 10).all()  # when the gap is first looked at
        assert (cold.steps > 75).all()
    frames = images + 0.02 * np.random.default_rng(0).standard_normal(images.shape)
    film = petabatch.encode(frames, dictionary, gap=1e-3, start=near, **options)
    assert (film.steps < 0.8 * petabatch.encode(frames, dictionary, gap=1e-3, **options).steps).all()
    with pytest.raises(ArgumentError, match=r"start: these are not codes of the images\n.*\n.*\[3, "):
        petabatch.encode(images, dictionary, start=near.activity[:2], **options)


def test_images_that_differ_in_size_start_from_codes() -> None:
    images, dictionary = differing(), np.random.default_rng(9).standard_normal((5, 4, 4, 2)) / 4
    options = {"threshold": 0.3, "stride": 2, "gap": 1e-4}
    near = petabatch.encode(images, dictionary, 0.3, stride=2, gap=1e-5)
    assert (petabatch.encode(images, dictionary, start=near, **options).steps == 10).all()


def test_an_image_that_is_not_finite_is_named() -> None:
    images = pictures(5)
    images[3, 2, 2] = np.nan
    with pytest.raises(InputError, match=r"images\[3\]: some pixels are not finite"):
        petabatch.encode(images, np.ones((2, 8, 8)), 0.1, stride=8)


def test_what_takes_too_many_steps_says_how_far_it_got() -> None:
    given = problem(slices=2)
    found = petabatch.encode(given.data[:, 0], given.weights[0, 0], 0.4, stride=2, gap=1e-6, steps=10)
    np.testing.assert_array_equal(found.steps, [10, 10])
    assert (found.gap > 1e-6).all()


def test_the_hint_of_numbers_that_are_not_finite_is_for_images_and_dictionaries(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def diverge(sim: petabatch.Simulator, quiet: bool) -> None:
        raise NonFiniteError("layer error is no longer finite\n    found:    nan\n    hint:     lower run.dt")

    monkeypatch.setattr(petabatch.Simulator, "run", diverge)
    rng = np.random.default_rng(0)
    with pytest.raises(InputError, match=r"hint:     scale the images, or the dictionary") as error:
        petabatch.encode(rng.normal(size=(1, 8, 8)), rng.normal(size=(4, 4, 4)), 0.1, stride=2)
    assert "run.dt" not in str(error.value)


def test_pixels_of_eight_bits_are_from_zero_to_one() -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (1, 8, 12, 2), np.uint8)
    dictionary = problem().weights[0, 0]
    np.testing.assert_array_equal(
        petabatch.encode(pixels, dictionary, 0.1, stride=2).activity,
        petabatch.encode((pixels / 255).astype(np.float32), dictionary, 0.1, stride=2).activity,
    )


def test_shapes_that_do_not_fit_are_errors() -> None:
    given = problem()
    images, dictionary = given.data[:, 0], given.weights[0, 0]
    with pytest.raises(InputError, match=r"\[8, 12, 2\]"):
        petabatch.encode(images[0], dictionary, 0.4)
    with pytest.raises(InputError):
        petabatch.encode(images, dictionary[..., :1], 0.4, stride=2)
    with pytest.raises(InputError, match="stride"):
        petabatch.encode(images, dictionary, 0.4, stride=5)


# -- dictionaries and images from elsewhere


@pytest.fixture
def learned(small: Path) -> Path:
    """A run that learned from images normalised to unit deviation."""
    text = SMALL.replace('file = "images.npy"', 'file = "images.npy", normalize = "standard"')
    small.write_text(text)
    return alone(small, "learned", "run.displays=2")


def equal(found: coding.Codes, expected: coding.Codes) -> None:
    for name in ("activity", "gap", "steps"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name), err_msg=name)


def test_a_run_knows_how_its_dictionary_is_used(learned: Path) -> None:
    images = np.load(learned.parent / "images.npy")
    with petabatch.open(learned) as run:
        weights = run.weights("dictionary")[-1]
        expected = petabatch.encode(images, weights, 0.3, stride=2, normalize="standard", threads=1)
        equal(petabatch.encode(images, run, threads=1), expected)
    equal(petabatch.encode(images, learned, threads=1), expected)
    equal(petabatch.encode(str(learned.parent / "images.npy"), learned / "run.h5", threads=1), expected)
    plain = petabatch.encode(images, learned, 0.3, normalize="none", threads=1)
    assert (plain.activity != expected.activity).any()


RECORDED = "[output.connections]\ndictionary = {}\n"


def stopped_at(small: Path, step: int, out: str, recorded: str) -> Path:
    """Stop a run at a step, with checkpoints at steps 10, 20, ... up to it."""
    small.write_text(SMALL.replace(RECORDED, recorded))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunSession, "_out_of_time", lambda self: self.engine.step >= step)
        with pytest.raises(StoppedEarly):
            alone(small, out, "run.kernel=array")
    return small.parent / out


def dictionary_of(run: object) -> tuple[np.ndarray, str]:
    found = read(run, None, None, None)
    return found.weights.astype(np.float32), found.name


def test_weights_that_learn_are_recorded_at_the_end_by_default(small: Path) -> None:
    small.write_text(SMALL.replace(RECORDED, ""))
    out = alone(small, "out", "run.displays=3", "run.kernel=array")
    small.write_text(SMALL)
    always = alone(small, "always", "run.displays=3", "run.kernel=array")
    small.write_text(SMALL.replace("dictionary = {}", 'dictionary = { every = "never" }'))
    never = alone(small, "never", "run.displays=3", "run.kernel=array")
    with petabatch.open(out) as run, petabatch.open(always) as other, petabatch.open(never) as without:
        assert run.weights("dictionary").steps.tolist() == [30]
        assert other.weights("dictionary").steps.tolist() == [0, 10, 20, 30]
        last = other.weights("dictionary")[-1]
        assert run.weights("dictionary")[-1].tobytes() == last.tobytes()
        assert "connections/dictionary/weights" not in without
    for path in (out, always, never, merge(out, small.parent / "merged.h5")):
        weights, name = dictionary_of(path)
        assert weights.tobytes() == last.tobytes()
        assert "step_000000030.h5" in name if path == never else "of step 30" in name
    prune(never)
    with pytest.raises(InputError, match=r"no weights of dictionary have been recorded yet\n.*a checkpoint"):
        dictionary_of(never)


@pytest.mark.parametrize("recorded", ["", RECORDED.replace("{}", '{ every = "2 displays" }')])
def test_the_dictionary_of_a_run_that_is_not_done_is_that_of_its_newest_checkpoint(
    small: Path, recorded: str
) -> None:
    out = stopped_at(small, 30, "out", recorded)
    with petabatch.open(stopped_at(small, 30, "always", RECORDED)) as run:
        expected = run.weights("dictionary").at(step=30)
    weights, name = dictionary_of(out)
    assert weights.tobytes() == expected.tobytes()
    assert name == f"{out}/checkpoints/step_000000030.h5:connections/dictionary/weights"
    with petabatch.open(out) as run:
        assert dictionary_of(run)[1] == name
        assert max(run.weights("dictionary").steps, default=-1) == (20 if recorded else -1)
    assert petabatch.encode(np.ones((1, 12, 12, 3)), out, steps=2).activity.shape == (1, 6, 6, 8)


def test_a_table_of_a_source_is_coded_each_image_once_in_order(learned: Path) -> None:
    file = learned.parent / "images.npy"
    expected = petabatch.encode(np.load(file), learned, threads=1)
    table = {"type": "array", "file": str(file), "order": {"type": "random"}}
    equal(petabatch.encode(table, learned, threads=1), expected)
    text = f'{{ type = "array", file = "{file}", normalize = "none" }}'
    equal(petabatch.encode(text, learned, threads=1), petabatch.encode(file, learned, normalize="none"))


def test_a_part_of_each_image_is_coded(learned: Path) -> None:
    images = np.load(learned.parent / "images.npy")
    part = petabatch.encode(images, learned, size=(8, 10), threads=1)
    equal(part, petabatch.encode(images[:, 2:10, 1:11], learned, threads=1))


def test_grey_images_need_no_axis_of_channels(tmp_path: Path) -> None:
    given = problem(shape=(8, 12, 1), slices=2)
    images, dictionary = given.data[:, 0], given.weights[0, 0]
    expected = petabatch.encode(images, dictionary, 0.4, stride=2, threads=1)
    equal(petabatch.encode(images[..., 0], dictionary[..., 0], 0.4, stride=2, threads=1), expected)


@pytest.mark.parametrize("suffix", [".npy", ".mat", ".h5", "-v7.3.mat"])
def test_dictionaries_of_other_programs_are_named_by_their_axes(tmp_path: Path, suffix: str) -> None:
    given = problem(slices=1)
    images, dictionary = given.data[:, 0], given.weights[0, 0]
    file, torch = tmp_path / f"dictionary{suffix}", dictionary.transpose(0, 3, 1, 2)
    if suffix == ".npy":
        np.save(file, torch)
    elif suffix == ".mat":
        savemat(file, {"A": torch})
    else:
        with h5py.File(file, "w", userblock_size=512) as opened:
            opened["A"] = torch.T if suffix.endswith(".mat") else torch
        with open(file, "r+b") as raw:
            raw.write(b"MATLAB 7.3 MAT-file")
    found = petabatch.encode(
        images, file, 0.4, stride=2, axes="oihw", dataset=None if suffix == ".npy" else "A", threads=1
    )
    equal(found, petabatch.encode(images, dictionary, 0.4, stride=2, threads=1))
    init = WeightFile(path=str(file), axes="oihw", dataset=None if suffix == ".npy" else "A")
    np.testing.assert_array_equal(
        init.weights((1, 1, *dictionary.shape), np.random.default_rng())[0, 0], dictionary
    )


def test_no_code_of_a_run_is_executed(small: Path) -> None:
    plugin = small.parent / "mine.py"
    plugin.write_text("")
    small.write_text(f'plugins = ["mine.py"]\n{SMALL}')
    run = alone(small, "learned", "run.displays=1")
    plugin.write_text("raise SystemExit('executed')\n")
    done = subprocess.run(
        [sys.executable, "-c", f"import petabatch; print(petabatch.encode('images.npy', {str(run)!r}))"],
        cwd=small.parent,
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("<codes of 7 images, [6, 6, 8] each"), done.stderr


def test_the_verb_writes_the_codes_of_the_function(learned: Path, petabatch: Command) -> None:
    done = petabatch("encode", learned, "images.npy", "-o", "codes.h5", "--gap", "1e-3", "--threads", "1")
    assert done.returncode == 0, done.stderr
    assert "7 images of [12, 12, 3], transforms: crop, normalize" in done.stderr
    assert "threshold 0.3, stride 2" in done.stderr
    assert done.stdout.startswith("codes.h5: codes of 7 images, [6, 6, 8] each: ")
    expected = coding.encode(learned.parent / "images.npy", learned, gap=1e-3, threads=1)
    with xarray.open_dataset(learned.parent / "codes.h5", engine="h5netcdf") as found:
        assert found["activity"].dims == ("image", "y", "x", "feature")
        np.testing.assert_array_equal(found["activity"], expected.activity)
        np.testing.assert_array_equal(found["steps"], expected.steps)
        np.testing.assert_array_equal(found["active"], (expected.activity != 0).sum(axis=(1, 2, 3)))
        assert found["dictionary"].shape == (8, 4, 4, 3)
        assert str(found["name"][6].item()).endswith("images.npy[6]")
        assert (found.attrs["kind"], found.attrs["threshold"], found.attrs["stride"]) == ("codes", 0.3, 2)
    again = petabatch("encode", learned, "images.npy", "-o", "codes.h5")
    assert (again.returncode, "or replace it with --force" in again.stderr) == (1, True)
    forced = petabatch("encode", learned, "images.npy", "-o", "codes.h5", "--force", "--steps", "2")
    assert forced.returncode == 0, forced.stderr
    with xarray.open_dataset(learned.parent / "codes.h5", engine="h5netcdf") as found:
        assert found.attrs["most_steps"] == 2
    assert not list(learned.parent.glob(".*.tmp"))


def test_codes_in_a_file_are_described_without_reading_them(learned: Path, tmp_path: Path) -> None:
    found = coding.encode(learned.parent / "images.npy", learned, threads=1, out=tmp_path / "codes.h5")
    share = np.count_nonzero(found.activity[()]) / found.activity.size
    assert f"{share:.2%} active" in repr(found)
    found.activity.file.close()
    assert f"{share:.2%} active" in repr(dataclasses.replace(found, activity=Sized(found.active, (6, 6, 8))))


class Sized:
    """As an array that must not be read."""

    def __init__(self, numbers: np.ndarray, shape: tuple[int, ...]) -> None:
        self.shape = (len(numbers), *shape)
        self.size = int(np.prod(self.shape))


@pytest.mark.parametrize("what", ["text", "run", "link"])
def test_what_is_no_file_of_codes_is_not_replaced(learned: Path, tmp_path: Path, what: str) -> None:
    out = tmp_path / "out.h5"
    if what == "link":
        np.save(tmp_path / "D.npy", np.ones((2, 2, 2)))
        petabatch.encode(
            np.ones((1, 4, 4)), tmp_path / "D.npy", 0.3, stride=2, steps=2, out=tmp_path / "a.h5"
        )
        out.symlink_to(tmp_path / "a.h5")
    else:
        out.write_bytes(b"mine" if what == "text" else (learned / "run.h5").read_bytes())
    before = out.read_bytes()
    with pytest.raises(StorageError, match="already exists and is no file of codes; not replaced"):
        petabatch.encode(learned.parent / "images.npy", learned, out=out, force=True)
    assert out.read_bytes() == before


def test_paths_need_not_be_text(tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"d\xff")
    folder.mkdir()
    np.save(folder / "D.npy", np.random.default_rng(0).normal(size=(8, 4, 4, 1)))
    np.save(folder / "images.npy", np.random.default_rng(1).random((2, 8, 8)).astype(np.float32))
    out = tmp_path / "codes.h5"
    petabatch.encode(folder / "images.npy", folder / "D.npy", 0.3, stride=2, out=out, threads=1, steps=5)
    with h5py.File(out) as file:
        names = file["name"].asstr(errors="surrogateescape")[()]
        assert names.tolist() == [f"{folder}/images.npy[{number}]" for number in range(2)]
        assert file.attrs["threshold"] == 0.3


def test_runs_whose_codes_are_others_are_refused(learned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with petabatch.open(learned) as run:
        params = run.params
        images = np.zeros((1, 12, 12, 3), np.float32)
        for table, key, value, words in (
            ("layers.V1", "transfer", "hard", 'transfer = "hard"'),
            ("connections.dictionary", "mode", "shared", 'mode = "shared"'),
            ("connections.dictionary", "strength", 2.0, "a `strength` of the dictionary"),
            ("layers.V1", "minimum", 0.1, "`minimum` or `maximum`"),
            ("connections.dictionary", "type", "other", "this run has no dictionary"),
        ):
            kind, name = table.split(".")
            changed = {**params, kind: {**params[kind], name: {**params[kind][name], key: value}}}
            monkeypatch.setattr(type(run), "params", changed)
            with pytest.raises(InputError, match=words):
                petabatch.encode(images, run)
            monkeypatch.undo()
        with pytest.raises(InputError, match="did you mean dictionary"):
            petabatch.encode(images, run, connection="dictionry")


def test_a_run_whose_threshold_differs_among_slices_is_refused(small: Path) -> None:
    run = alone(small, "slices", "layers.V1.threshold={slices=[0.2, 0.3, 0.4]}", "run.displays=1")
    with pytest.raises(InputError, match=r"layers.V1.threshold: values per slice"):
        petabatch.encode(np.zeros((1, 12, 12, 3)), run)


def test_a_learning_rate_that_falls_makes_no_difference(small: Path) -> None:
    falls = "connections.dictionary.learn.rate={at=[1, 3], values=[0.5, 0.1]}"
    run = alone(small, "rates", falls, "run.displays=1", "run.kernel=array")
    assert petabatch.encode(np.ones((1, 12, 12, 3)), run, steps=2).activity.shape == (1, 6, 6, 8)


def test_transforms_that_differ_among_slices_are_refused_unless_they_are_random(small: Path) -> None:
    source = "layers.image.source={type='array', file='images.npy', transforms=[{type='crop'}, %s]}"
    for name, step in {
        "noise": "{type='noise', std={slices=[0.1, 0.2, 0.3]}}",
        "whiten": "{type='whiten', cutoff={slices=[0.2, 0.3, 0.4]}}",
    }.items():
        run = alone(small, name, source % step, "run.displays=1")
        if name == "noise":
            petabatch.encode(np.zeros((1, 12, 12, 3)), run, steps=10)
            continue
        with pytest.raises(InputError, match=r"layers.image.source.transforms.1.cutoff: values per slice"):
            petabatch.encode(np.zeros((1, 12, 12, 3)), run)


def test_images_that_cannot_be_read_are_all_named(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / f"{name}.png").write_bytes(b"garbage")
    with pytest.raises(InputError) as raised:
        petabatch.encode(tmp_path, np.ones((2, 4, 4, 3)), 0.5, stride=1)
    assert "a.png: this file cannot be read" in str(raised.value)
    assert "b.png: this file cannot be read" in str(raised.value)


def test_codes_are_indexed_by_numbers_and_names_and_iterated(tmp_path: Path) -> None:
    images, dictionary = pictures(3), np.ones((2, 4, 4), np.float32)
    dictionary[1, :2] = -1
    for out in (None, tmp_path / "codes.h5"):
        codes = petabatch.encode(images, dictionary, 0.1, stride=4, threads=1, out=out)
        whole = np.asarray(codes)
        assert len(codes) == len(whole) == 3
        np.testing.assert_array_equal(codes[1], whole[1])
        np.testing.assert_array_equal(codes[codes.names[2]], whole[2])
        np.testing.assert_array_equal(codes[-1], whole[2])
        np.testing.assert_array_equal(codes[1:], whole[1:])
        np.testing.assert_array_equal(list(codes), whole)
        assert codes.to_pandas().index.to_list() == list(codes.names)
        np.testing.assert_array_equal(codes.to_sparse().toarray(), np.asarray(codes).reshape(len(codes), -1))
        with pytest.raises(UnknownName, match=r"did you mean images\[1\]"):
            codes["image[1]"]
        with pytest.raises(NotRecorded, match=r"(?s)found:    3.*from 0 to 2"):
            codes[3]
        assert isinstance(NotRecorded(""), IndexError)


def test_images_of_a_folder_are_found_by_file_name_and_stem() -> None:
    names = ("ph/cat.png", "ph/dog.png", "more/dog.png", "more/dog", "ph/dog.png", "x.npy[0]")
    numbers = np.arange(len(names))
    codes = Codes(numbers, numbers, numbers, numbers, names)
    for name, number in {
        "ph/cat.png": 0, "cat.png": 0, "cat": 0, "ph/dog.png": 1, "more/dog.png": 2, "dog": 3, "x.npy[0]": 5
    }.items():  # fmt: skip
        assert name in codes, name
        assert codes[name] == number, name
    for other in ("cta.png", "png", "ph", 0, numbers, None):
        assert other not in codes
    with pytest.raises(UnknownName, match=r"there is no image cta.png\n(.|\n)*did you mean cat.png\?"):
        codes["cta.png"]
    with pytest.raises(
        ArgumentError, match=r"several images have this name\n(.|\n)*ph/dog.png, more/dog.png"
    ):
        codes["dog.png"]


def test_the_first_call_says_that_it_compiles(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", False)  # as in a program that configures no logging
    monkeypatch.setattr("petabatch.engine.warm_up.PATIENCE", 0.05)
    monkeypatch.setattr(ProgramStepper, "warm_up", lambda self: time.sleep(0.3))
    for quiet in (True, False):
        petabatch.encode(pictures(2), np.ones((1, 4, 4)), 0.1, stride=4, threads=1, quiet=quiet)
        assert ("compiling kernels, for up to a minute" in capsys.readouterr().err) == (not quiet)


def pictures(count: int) -> np.ndarray:
    return np.random.default_rng(5).random((count, 8, 8))


def test_arrays_of_other_channels_are_refused_where_they_differ_in_size_too() -> None:
    rng = np.random.default_rng(0)
    dictionary = rng.normal(size=(6, 4, 4, 1))
    with pytest.raises(InputError, match=r"images\[1\]: images and dictionary have different numbers"):
        petabatch.encode([rng.random((8, 8, 1)), rng.random((12, 8, 3))], dictionary, 0.1, stride=4)
