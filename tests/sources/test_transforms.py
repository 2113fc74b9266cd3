"""Transforms of images: what each does, in which order, and which random numbers it draws."""

from __future__ import annotations

import weakref
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from PIL import Image

from petabatch.errors import InputError, ParamsError, TableError
from petabatch.layers import Input
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.params import first_state, plan
from petabatch.report.explain import summary
from petabatch.sources import Gratings, ImageArray, Images, Noise
from petabatch.sources.transforms import ZCA, Crop, Draws, Flip, Normalize, Resize, Transform, Whiten
from petabatch.sources.transforms.picture import Picture
from petabatch.spec.load import parse
from petabatch.spec.network import Network, Run

RNG = np.random.default_rng(0)
RAMP = (np.arange(12)[:, None, None] * 100 + np.arange(10)[None, :, None]) * np.ones((1, 1, 1, 1))
"""One image whose pixels say their row and column."""
PHOTO = RNG.random((3, 40, 36, 3))


def source(data: np.ndarray, *transforms: dict[str, Any], **keys: Any) -> ImageArray:
    return ImageArray(data=data, transforms=transforms, **keys)


def shown(data: np.ndarray, shape: tuple[int, int, int], *transforms: dict[str, Any]) -> np.ndarray:
    """Return what slice 0 shows first of an array."""
    return source(data, *transforms).open(shape, 1, 1)(0, 0)


def where(read: Any, slice_: int = 0, display: int = 0) -> tuple[int, int]:
    """Return the row and column of the ramp that is shown first."""
    return divmod(int(read(slice_, display)[0, 0, 0]), 100)


# -- one mechanism


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ({"normalize": "standard"}, [{"type": "crop"}, {"type": "normalize"}]),
        ({"crop": "center", "offset": (1, -2)}, [{"type": "crop", "position": "center", "offset": (1, -2)}]),
        ({"contrast": 0.29, "order": "random"}, [{"type": "crop", "contrast": 0.29}]),
    ],
)
def test_short_keys_are_the_same_as_their_transforms(short: Any, full: Any) -> None:
    order = {key: short.pop(key) for key in ("order",) if key in short}
    one = ImageArray(data=PHOTO, **short, **order).stream((9, 8, 3), 2, 1)
    other = source(PHOTO, *full, **order).stream((9, 8, 3), 2, 1)
    for b in range(2):
        for display in range(5):
            assert np.array_equal(one(b, display), other(b, display))
            assert one.shown(b, display) == other.shown(b, display)


def test_transforms_and_short_keys_together_are_an_error() -> None:
    with pytest.raises(TableError, match=r"in full and in short(?s:.*)transforms and crop, normalize"):
        source(PHOTO, {"type": "grey"}, crop="top", normalize="range")
    with pytest.raises(TableError, match=r"in full and in short(?s:.*)transforms and crop"):
        source(PHOTO, {"type": "grey"}, crop="random")  # the default, but written
    one = source(PHOTO, {"type": "grey"})
    assert ImageArray(**{**dict(one), "order": "random"}).transforms == one.transforms  # a copy has all keys


def test_transforms_are_made_in_the_order_written() -> None:
    crop, standard = {"type": "crop", "position": "top_left"}, {"type": "normalize"}
    part = shown(PHOTO, (9, 8, 3), crop, standard)
    assert abs(part.mean()) < 1e-6
    whole = (PHOTO[0] - PHOTO[0].mean()) / PHOTO[0].std()
    assert np.array_equal(shown(PHOTO, (9, 8, 3), standard, crop), whole[:9, :8].astype(np.float32))


class Inverted(Transform):
    """A transform of a plug-in."""

    type: Literal["test_inverted"] = "test_inverted"

    def apply(self, pixels: np.ndarray, draws: Draws) -> np.ndarray:
        return 1 - pixels


def test_a_plug_in_can_define_a_transform() -> None:
    found = shown(PHOTO, (40, 36, 3), {"type": "test_inverted"})
    assert np.array_equal(found, (1 - PHOTO[0]).astype(np.float32))


# -- geometry


@pytest.mark.parametrize(
    ("position", "corner"),
    [
        ("top_left", (0, 0)), ("top", (0, 2)), ("top_right", (0, 5)), ("left", (4, 0)), ("center", (4, 2)),
        ("right", (4, 5)), ("bottom_left", (8, 0)), ("bottom", (8, 2)), ("bottom_right", (8, 5)),
    ],
)  # fmt: skip
def test_crops_and_padded_images_have_nine_anchors(position: str, corner: tuple[int, int]) -> None:
    stream = source(RAMP, {"type": "crop", "position": position}).stream((4, 5, 1), 1, 1)
    assert where(stream) == corner
    assert stream.shown(0, 0).crop == corner
    small = RAMP[:, :4, :5]
    stream = source(small, {"type": "pad", "position": position, "value": -1.0}).stream((12, 10, 1), 1, 1)
    y, x = corner
    assert np.array_equal(stream(0, 0)[y : y + 4, x : x + 5], small[0])
    assert (stream(0, 0) >= 0).sum() == 20
    assert stream.shown(0, 0).crop == (-y, -x)


def test_a_jittered_crop_moves_in_each_display_also_of_a_film() -> None:
    film = np.repeat(RAMP, 200, axis=0)
    crop = {"type": "crop", "position": "center", "jitter": (2, 1)}
    stream = source(film, crop, order="by_movie").stream((4, 6, 1), 2, 1)
    corners = {stream.shown(0, display).crop for display in range(200)}
    assert corners == {(y, x) for y in range(2, 7) for x in range(1, 4)}
    random = {**crop, "position": "random"}
    stream = source(film, random, order="by_movie").stream((4, 6, 1), 2, 1)
    rows, columns = zip(*(stream.shown(1, display).crop for display in range(200)), strict=True)
    assert (max(rows) - min(rows), max(columns) - min(columns)) == (4, 2)  # around one position
    assert where(stream, 1, 7) == stream.shown(1, 7).crop


def test_a_random_crop_as_large_as_the_image_makes_no_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("petabatch.random.stream", None)  # it takes longer than to show a small image
    stream = source(PHOTO, {"type": "crop"}).stream((40, 36, 3), 2, 1)
    assert np.array_equal(stream(1, 0), PHOTO[1].astype(np.float32))
    assert stream.shown(1, 0).crop == (0, 0)


def test_what_was_shown_is_the_same_whether_it_was_read_before_or_not() -> None:
    steps = {"type": "crop", "jitter": (2, 1)}, {"type": "flip"}
    read, fresh = (source(PHOTO, *steps, order="random").stream((9, 8, 3), 3, 1) for _ in range(2))
    for display in (0, 1, 5, 4):
        for slice_ in (2, 0, 1):
            read(slice_, display)
            assert read.shown(slice_, display) == fresh.shown(slice_, display)
            assert read.shown(slice_, display, (2, 1)) == fresh.shown(slice_, display, (2, 1))
        assert read.shown(1, display + 1) == fresh.shown(1, display + 1)


def test_small_images_are_reflected_at_their_edges() -> None:
    found = shown(RAMP, (16, 10, 1), {"type": "pad", "mode": "mirror"})
    assert np.array_equal(found, np.pad(RAMP[0], ((2, 2), (0, 0), (0, 0)), mode="symmetric"))
    assert shown(RAMP, (8, 8, 1), {"type": "pad"}, {"type": "crop"}).shape == (8, 8, 1)


@pytest.mark.parametrize("size", [(7, 50), (13, 9), (40, 36), (80, 70), (1, 1)])
def test_resizing_is_that_of_pillow_with_antialiasing(size: tuple[int, int]) -> None:
    found = shown(PHOTO[..., :1], (*size, 1), {"type": "resize"})
    image = Image.fromarray(PHOTO[0, ..., 0].astype(np.float32))
    expected = np.asarray(image.resize(size[::-1], Image.Resampling.BILINEAR))
    np.testing.assert_allclose(found[..., 0], expected, atol=2e-6)


def a_cubic(pixels: np.ndarray, size: int) -> np.ndarray:
    """Cubic convolution of a row with a = -1, its ends kept, as PetaVision's loops make it."""
    found = np.zeros((size, *pixels.shape[1:]))
    for k in range(size):
        place = k * (len(pixels) - 1) / (size - 1)
        for at in range(int(place) - 1, int(place) + 3):
            x = abs(place - at)
            weight = 1 - 2 * x**2 + x**3 if x < 1 else 4 - 8 * x + 5 * x**2 - x**3
            inside = -at if at < 0 else 2 * len(pixels) - at - 1 if at >= len(pixels) else at
            found[k] += weight * pixels[inside]
    return found


@pytest.mark.parametrize("size", [(5, 9), (24, 17), (3, 40)])
def test_resizing_as_petavision_does_keeps_the_corner_pixels(size: tuple[int, int]) -> None:
    image = np.random.default_rng(2).normal(size=(13, 17, 2)).astype(np.float32)
    found = shown(image[None], (*size, 2), {"type": "resize", "interpolation": "nearest"})
    rows, columns = (
        np.rint(np.arange(new) * np.float32((old - 1) / (new - 1))).astype(int)
        for new, old in zip(size, image.shape, strict=False)
    )
    np.testing.assert_array_equal(found, image[rows][:, columns])
    found = shown(image[None], (*size, 2), {"type": "resize", "interpolation": "cubic"})
    expected = a_cubic(a_cubic(image, size[0]).swapaxes(0, 1), size[1]).swapaxes(0, 1)
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(
        found[[0, 0, -1, -1], [0, -1, 0, -1]], image[[0, 0, -1, -1], [0, -1, 0, -1]], atol=1e-6
    )


def test_resizing_keeps_proportions_to_cover_or_fit_the_layer() -> None:
    assert Resize(fit="cover").result((40, 20, 3), (10, 10, 3)) == (20, 10, 3)
    assert Resize(fit="contain").result((40, 20, 3), (10, 10, 3)) == (10, 5, 3)
    stream = source(RAMP, {"type": "resize", "size": (24, 20)}, {"type": "crop", "position": "center"})
    # Rows 8 to 15 of the resized image are rows 4 to 7 of the stored one.
    opened = stream.stream((8, 20, 1), 1, 1)
    assert opened.shown(0, 0).crop == (4, 0)
    assert opened.shown(0, 0, margin=(2, 4)).crop == (5, 2)


def test_flips_are_of_some_images_but_of_all_frames_of_a_film() -> None:
    read = source(RAMP, {"type": "flip"}).open((12, 10, 1), 1, 1)
    flipped = [where(read, 0, display) == (0, 9) for display in range(400)]
    assert 150 < sum(flipped) < 250
    assert {where(read, 0, display) for display in range(400)} == {(0, 0), (0, 9)}
    always = {"type": "flip", "direction": "vertical", "probability": 1.0}
    stream = source(RAMP, always, {"type": "crop", "position": "top_left"}).stream((4, 5, 1), 1, 1)
    assert where(stream) == (11, 0)
    assert stream.shown(0, 0).crop == (8, 0)  # rows 8 to 11, from the last to the first
    film = source(np.repeat(RAMP, 40, axis=0), {"type": "flip"}, order="by_movie").open((12, 10, 1), 4, 1)
    corners = [{where(film, b, display) for display in range(20)} for b in range(4)]
    assert all(len(each) == 1 for each in corners)
    assert len(set.union(*corners)) == 2


# -- values


@pytest.mark.parametrize("method", ["mean", "standard", "norm", "range", "petavision"])
def test_each_normalisation_does_what_it_says(method: Any) -> None:
    found = shown(PHOTO, (40, 36, 3), {"type": "normalize", "method": method}).astype(float)
    expected = {
        "mean": (found.mean(), found.std() - PHOTO[0].std()),
        "standard": (found.mean(), found.std() - 1),
        "norm": (np.sqrt((found**2).sum()) - 1, found.min() / found.max() - PHOTO[0].min() / PHOTO[0].max()),
        "range": (found.min(), found.max() - 1),
        "petavision": (found.mean(), (found.std() - 1) / 20),
    }[method]
    assert expected == pytest.approx((0, 0), abs=2e-6)
    flat = np.full((1, 4, 4, 1), 0.1 * (method != "norm"))
    if method in ("standard", "range"):
        flat[0, 1] = np.nextafter(0.1, 1)
    assert not shown(flat, (4, 4, 1), {"type": "normalize", "method": method}).any()


def test_grey_and_colour_are_chosen_by_the_layer_or_by_a_transform() -> None:
    grey = (PHOTO[0] @ [0.30, 0.59, 0.11]).astype(np.float32)
    for transforms in ([{"type": "grey"}], [{"type": "flip", "probability": 0.0}]):
        np.testing.assert_allclose(shown(PHOTO, (40, 36, 1), *transforms)[..., 0], grey, rtol=1e-6)
    both = shown(PHOTO, (40, 36, 3), {"type": "grey"}, {"type": "colour"})
    np.testing.assert_allclose(both, np.repeat(grey[..., None], 3, axis=2), rtol=1e-6)


def test_the_whitening_filter_flattens_a_spectrum_of_1_over_f_up_to_its_cutoff() -> None:
    pink = np.stack([Noise().image((64, 64, 1), np.random.default_rng(n), 0) for n in range(20)])
    f = np.hypot(np.fft.fftfreq(64)[:, None], np.fft.fftfreq(64)[None, :])
    white = [Whiten().apply(one, Draws(0, (), ())) for one in pink]
    power = np.mean([abs(np.fft.fft2(one[..., 0])) ** 2 for one in white], axis=0)
    bands = [power[(f > low) & (f < low + 0.05)].mean() for low in (0.02, 0.07, 0.12, 0.17)]
    assert max(bands) / min(bands) < 1.25
    assert power[f > 0.6].mean() < 0.01 * bands[0]
    assert power[0, 0] < 1e-20


def test_a_crop_after_whitening_is_of_the_filtered_image_whose_result_is_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    whole = Whiten().apply(PHOTO[1], Draws(0, (), ()))
    calls = []
    apply = Whiten.apply
    monkeypatch.setattr(Whiten, "apply", lambda self, *given: calls.append(1) or apply(self, *given))
    stream = source(PHOTO[1:2], {"type": "whiten"}, {"type": "crop"}).stream((8, 8, 3), 2, 1)
    for display in range(9):
        y, x = stream.shown(1, display).crop
        assert np.array_equal(stream(1, display), whole[y : y + 8, x : x + 8].astype(np.float32))
    assert len(calls) == 1


def test_zca_makes_the_covariance_of_its_images_that_of_white_noise() -> None:
    pink = np.stack([Noise().image((8, 8, 1), np.random.default_rng(n), 0) for n in range(800)])
    zca = {"type": "zca", "epsilon": 1e-6, "samples": 800}
    read = source(pink, zca).open((8, 8, 1), 800, 1)
    white = np.stack([read(b, 0).ravel() for b in range(800)]).astype(float)
    # Noise has zero mean, so that one of the 64 components is missing.
    values = np.linalg.eigvalsh(np.cov(white.T, bias=True))
    assert values[0] < 1e-6
    np.testing.assert_allclose(values[1:], 1.0, atol=2e-4)
    again = source(pink, zca).fitted((8, 8, 1), 1)
    assert again.transforms[0] == source(pink, zca).fitted((8, 8, 1), 1).transforms[0]
    assert np.array_equal(again.open((8, 8, 1), 800, 1)(3, 0), read(3, 0))


def test_zca_is_fitted_to_what_the_transforms_before_it_leave() -> None:
    steps: list[Any] = [{"type": "crop", "size": (5, 5)}, {"type": "grey"}, {"type": "zca", "samples": 50}]
    fitted = source(PHOTO, *steps).fitted((5, 5, 1), 1).transforms[2]
    assert isinstance(fitted, ZCA)
    assert fitted.mean is not None
    assert fitted.mean.array.shape == (25,)
    assert 0.4 < fitted.mean.array.mean() < 0.6


def test_noise_is_another_one_in_each_display_and_slice() -> None:
    data = np.zeros((1, 30, 30, 1))
    read = source(data, {"type": "noise", "std": 0.5}).open((30, 30, 1), 2, 1)
    drawn = [read(b, display) for b in range(2) for display in range(3)]
    assert all(0.45 < one.std() < 0.55 for one in drawn)
    assert max(abs(np.corrcoef([one.ravel() for one in drawn]) - np.eye(6)).ravel()) < 0.15


def test_frames_are_stacked_as_channels_within_their_film() -> None:
    film = np.arange(10.0).reshape(10, 1, 1, 1) * np.ones((1, 4, 4, 1))
    frames = {"type": "frames", "count": 3, "every": 2}
    read = source(film, frames, order="by_movie").open((4, 4, 3), 2, 1)
    assert [read(0, display)[0, 0].tolist() for display in (0, 3, 4)] == [[0, 0, 0], [0, 1, 3], [0, 2, 4]]
    ramps = RAMP + 10_000 * np.arange(10).reshape(10, 1, 1, 1)
    steps: list[Any] = [{"type": "crop"}, {"type": "flip"}, {"type": "frames", "count": 2}]
    stream = source(ramps, *steps, order="by_movie").stream((4, 5, 2), 2, 1)
    for b in range(2):
        older, newer = np.moveaxis(stream(b, 3).astype(int), 2, 0)
        assert (newer - older == 10_000).all()  # one crop, one flip
        assert stream.shown(b, 3).crop == tuple(divmod(int(newer.min()) % 10_000, 100))
    noisy: list[Any] = [{"type": "noise", "std": 1.0}, {"type": "frames", "count": 2}]
    older, newer = np.moveaxis(source(film, *noisy, order="by_movie").open((4, 4, 2), 2, 1)(0, 0), 2, 0)
    assert not np.allclose(older, newer)


def test_a_stack_of_moving_gratings_is_what_their_displays_showed() -> None:
    plain = Gratings(frames=4).open((6, 6, 1), 1, 1)
    stack = Gratings(frames=4, transforms=({"type": "frames", "count": 2},)).open((6, 6, 2), 1, 1)
    for display, before in ((1, 0), (3, 2), (4, 4), (5, 4)):
        expected = [plain(0, before)[..., 0], plain(0, display)[..., 0]]
        assert np.array_equal(np.moveaxis(stack(0, display), 2, 0), expected)


# -- random choices

CHAIN: list[Any] = [
    {"type": "whiten"}, {"type": "crop", "size": (20, 20), "jitter": (1, 2)}, {"type": "flip"},
    {"type": "resize"}, {"type": "noise", "std": 0.1}, {"type": "normalize"},
]  # fmt: skip


def test_images_depend_on_seed_slice_and_display_whatever_the_batch_and_the_threads() -> None:
    keys = [(b, display) for b in range(3) for display in range(4)]
    alone = source(PHOTO, *CHAIN, order="random").open((12, 14, 3), 3, 7)
    expected = [alone(*key) for key in keys]
    many = source(PHOTO, *CHAIN, order="random").open((12, 14, 3), 9, 7)
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda key: many(*key), keys[::-1]))[::-1]
    assert all(np.array_equal(a, b) for a, b in zip(expected, found, strict=True))
    assert len({one.tobytes() for one in expected}) == len(keys)
    other = source(PHOTO, *CHAIN, order="random").open((12, 14, 3), 3, 8)
    assert not any(np.array_equal(other(*key), one) for key, one in zip(keys, expected, strict=True))


def test_same_slices_have_the_same_random_choices() -> None:
    alone = source(PHOTO, *CHAIN).open((12, 14, 3), 1, 7)
    same = source(PHOTO, *CHAIN, slices="same").open((12, 14, 3), 3, 7)
    drawn = Noise(slices="same", transforms=({"type": "noise", "std": 0.3},)).open((4, 4, 1), 3, 7)
    for display in range(3):
        assert all(np.array_equal(same(b, display), alone(0, display)) for b in range(3))
        assert all(np.array_equal(drawn(b, display), drawn(0, display)) for b in range(3))


# -- errors


def test_a_transform_that_suits_no_image_is_told_once(tmp_path: Path) -> None:
    for number in range(4):
        np.save(tmp_path / f"{number}.npy", PHOTO[0, : 20 + number])
    steps = [{"type": "crop", "size": (50, 50)}, {"type": "resize"}]
    with pytest.raises(InputError) as raised:
        Images(files=str(tmp_path), transforms=steps).open((8, 8, 3), 1, 1)
    told = str(raised.value)
    assert told.count("smaller than the crop") == 1
    assert "0.npy: " in told
    assert told.endswith("note:     so it is with all 4 images")
    assert raised.value.key == "transforms.0"
    steps[0]["size"] = (22, 22)  # which suits the others
    with pytest.raises(InputError) as raised:
        Images(files=str(tmp_path), transforms=steps).open((8, 8, 3), 1, 1)
    assert [str(raised.value).count(f"{number}.npy: ") for number in range(4)] == [1, 1, 0, 0]


def test_a_check_fits_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "a.npy", PHOTO[:, :8, :8])
    zca = "transforms = [{ type = 'zca', samples = 3 }]"
    text = (
        "[run]\nbatch = 1\nsteps = 1\n[layers.a]\ntype = 'input'\nshape = [8, 8, 3]\n"
        f"source = {{ type = 'array', file = 'a.npy', {zca} }}\n"
        f"[layers.b]\ntype = 'input'\nshape = [8, 8, 3]\nsource = {{ type = 'noise', {zca} }}\n"
    )
    monkeypatch.setattr(ZCA, "fitted", lambda self, read: pytest.fail("it is fitted"))
    loaded = parse(text, "x.toml", tmp_path)
    first_state(loaded, plan(loaded))
    np.save(tmp_path / "a.npy", PHOTO[:, :8, :7])
    with pytest.raises(ParamsError, match=r"layers\.a\.source"):
        first_state(loaded, plan(loaded))


@pytest.mark.parametrize(
    ("transforms", "key", "message"),
    [
        ("[{ type = 'crop', size = [9, 9] }]", "transforms", "do not make an image of the shape"),
        ("[{ type = 'grey' },\n{ type = 'crop', size = [50, 9] }]", "transforms.1", "smaller than the crop"),
        (
            "[{ type = 'crop', position = 'top', jitter = [1, 0] }]",
            "transforms.0",
            "jitter moves the crop out",
        ),
        ("[{ type = 'pad', size = [50, 50], offset = [9, 0] }]", "transforms.0", "moves the image out"),
        ("[{ type = 'frames', count = 3 }]", "transforms", "not frames of a film"),
        ("[{ type = 'frames', count = 2 }]", "transforms.0", "do not divide the features"),
    ],
)
def test_a_transform_that_does_not_suit_image_or_layer_is_named_with_its_line(
    tmp_path: Path, transforms: str, key: str, message: str
) -> None:
    np.save(tmp_path / "a.npy", PHOTO)
    text = (
        "[run]\nbatch = 2\nsteps = 1\n[layers.image]\ntype = 'input'\nshape = [8, 8, 3]\n"
        f"[layers.image.source]\ntype = 'array'\nfile = 'a.npy'\ntransforms = {transforms}\n"
    )
    loaded = parse(text, "x.toml", tmp_path)
    with pytest.raises(ParamsError) as raised:
        first_state(loaded, plan(loaded))
    (problem,) = raised.value.problems
    assert problem.key == f"layers.image.source.{key}"
    assert problem.line == (11 if key == "transforms.1" else 10)
    assert message in problem.message


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"type": "crops"}, "no transform of this type"),
        ({"type": "crop", "offset": (1, 0)}, "random crop cannot have an offset"),
        ({"type": "crop", "position": "top", "contrast": 0.1}, "only a random crop"),
        ({"type": "noise"}, "std"),
    ],
)
def test_values_that_a_transform_cannot_have_are_errors(table: Any, message: str) -> None:
    with pytest.raises(TableError, match=message):
        source(PHOTO, table)


def test_transforms_of_synthetic_images_keep_their_size() -> None:
    with pytest.raises(InputError, match="do not make an image of the shape"):
        Noise(transforms=(Crop(size=(3, 3)),)).open((4, 4, 1), 1, 1)
    shown = Noise(transforms=(Whiten(), Flip(), Normalize())).open((8, 8, 1), 1, 1)(0, 0)
    assert shown.std() == pytest.approx(1.0)


def test_what_transforms_keep_in_memory_is_known_before_the_run() -> None:
    shape = (16, 16, 3)
    assert source(PHOTO, {"type": "crop"}, {"type": "flip"}).nbytes(shape) == 0
    filtered = source(PHOTO, {"type": "whiten"}).nbytes(shape)
    assert filtered > 0
    zca = source(PHOTO, {"type": "zca"}).nbytes(shape)
    layer = Input(shape=shape, source=source(PHOTO, {"type": "whiten"}, {"type": "crop"}))
    told = summary(schedule(build(Network(run=Run(steps=1), layers={"image": layer}))))
    assert "image: whiten, crop; up to 128.0 MiB on each rank" in told
    assert zca >= filtered + 3 * 8 * 768**2  # covariance, its vectors, the matrix


def test_zca_is_fitted_whatever_the_order_of_each_slice() -> None:
    order = {"type": "specified", "start": [0, 2]}
    zca, shape = {"type": "zca", "samples": 3}, (4, 3, 1)
    small = PHOTO[:, :4, :3, :1]
    fitted = source(small, zca, order=order).fitted(shape, 1)
    assert fitted.transforms == source(small, zca).fitted(shape, 1).transforms
    fitted.open(shape, 2, 1)


def test_two_zca_are_taken_over_in_their_order() -> None:
    crop = {"type": "crop", "size": (2, 2), "position": "center"}
    chain = ({"type": "zca", "samples": 3}, crop, {"type": "zca", "samples": 3})
    held_out = source(PHOTO[:, :4, :3, :1], *chain)
    fitted = held_out.fitted((2, 2, 1), 1)
    assert held_out.fitted_as(fitted).transforms == fitted.transforms


def test_only_the_first_random_crop_can_require_contrast() -> None:
    crops = {"type": "crop", "size": (18, 18)}, {"type": "crop", "contrast": 0.2}
    with pytest.raises(InputError, match="only the first random crop can require contrast"):
        source(PHOTO, *crops).open((4, 4, 3), 1, 1)
    source(PHOTO, {**crops[0], "contrast": 0.2}, {"type": "crop"}).open((4, 4, 3), 1, 1)


def test_of_an_image_that_is_resized_only_the_result_is_kept() -> None:
    decoded: list[weakref.ref[np.ndarray]] = []

    def read(rows: slice, columns: slice) -> np.ndarray:
        pixels = RAMP[0, rows, columns].copy()
        decoded.append(weakref.ref(pixels))
        return pixels

    nowhere = Draws(0, (), ())
    small = Picture((12, 10, 1), read)
    for step in (Resize(size=(6, 5)), Normalize()):
        small = step.shows(small, (6, 5, 1), nowhere)
    assert small.pixels.shape == (6, 5, 1)
    assert [one() for one in decoded] == [None]
