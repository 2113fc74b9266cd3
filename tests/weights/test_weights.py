"""Weight initialisers and normalisers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from petabatch import in_memory
from petabatch.connections import Conv
from petabatch.errors import InputError, ParamsError, TableError
from petabatch.layers import Linear, Neurons
from petabatch.network.build import build
from petabatch.random import stream
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.weights import Initial, Normalize
from petabatch.weights import (
    L2,
    ContrastZeroMean,
    Gabor,
    Gaussian,
    Gaussian2D,
    IdentityWeights,
    ImagePatches,
    L2Ball,
    Max,
    Sum,
    Unchanged,
    Uniform,
    WeightArray,
    WeightFile,
)
from petabatch.weights.petavision import PetaVisionOneToOne, PetaVisionSectors
from support.networks import images, lca_network

SHAPE = (1, 1, 5, 4, 3, 2)
PRE, POST = (-3, -2, -1), (-6, -5, -4, -3, -2)


def random_weights(shape: tuple[int, ...], seed: int = 0, dtype: Any = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).normal(0.1, 1.0, shape).astype(dtype)


# -- initialisers


def test_gaussian_and_uniform_have_the_moments_they_are_given() -> None:
    shape = (1, 1, 100, 10, 10, 2)
    normal = Gaussian(mean=2.0, std=0.5).weights(shape, stream(1, "w"))
    assert (normal.shape, normal.dtype) == (shape, np.float64)
    assert normal.mean() == pytest.approx(2.0, abs=0.02)
    assert normal.std() == pytest.approx(0.5, abs=0.02)
    flat = Uniform(low=-1.0, high=3.0).weights(shape, stream(1, "w"))
    assert -1.0 <= flat.min() < -0.99
    assert 2.99 < flat.max() <= 3.0
    assert flat.mean() == pytest.approx(1.0, abs=0.05)


def test_uniform_sparsity_is_the_fraction_of_zeros_and_leaves_the_others() -> None:
    shape = (1, 1, 100, 10, 10, 2)
    dense = Uniform(low=1.0, high=2.0).weights(shape, stream(1, "w"))
    sparse = Uniform(low=1.0, high=2.0, sparsity=0.7).weights(shape, stream(1, "w"))
    assert (sparse == 0).mean() == pytest.approx(0.7, abs=0.02)
    assert np.array_equal(sparse[sparse != 0], dense[sparse != 0])
    assert not Uniform(sparsity=1.0).weights(SHAPE, stream(1, "w")).any()
    assert (Uniform(low=0.3, high=0.3).weights(SHAPE, stream(1, "w")) == 0.3).all()
    with pytest.raises(TableError, match="above"):
        Uniform(low=1.0, high=0.0)


def test_patches_are_cut_from_the_images_and_centred() -> None:
    images = np.random.default_rng(0).random((2, 8, 9, 2)).astype(np.float32)
    raw = ImagePatches(source=ImageArray(data=images), zero_mean=False).weights(SHAPE, stream(1, "w"))
    views = np.lib.stride_tricks.sliding_window_view(images, (4, 3), axis=(1, 2))
    windows = {np.moveaxis(view, 0, -1).tobytes() for view in views.reshape(-1, 2, 4, 3)}
    patches = raw.reshape(5, 4, 3, 2).astype(np.float32)
    assert all(np.ascontiguousarray(patch).tobytes() in windows for patch in patches)
    assert len({patch.tobytes() for patch in patches}) == 5
    centred = ImagePatches(source=ImageArray(data=images)).weights(SHAPE, stream(1, "w"))
    np.testing.assert_allclose(centred, raw - raw.mean(axis=PRE, keepdims=True), atol=1e-12)
    other = ImagePatches(source=ImageArray(data=images)).weights(SHAPE, stream(2, "w"))
    assert not np.array_equal(centred, other)


def test_flat_patches_are_passed_over_and_flat_images_an_error() -> None:
    images = np.zeros((1, 12, 12, 2), np.float32)
    images[0, 6, 6] = 1.0
    found = ImagePatches(source=ImageArray(data=images)).weights(SHAPE, stream(1, "w"))
    assert (np.square(found).sum(axis=PRE) > 0).all()
    with pytest.raises(InputError, match="were constant"):
        ImagePatches(source=ImageArray(data=0 * images)).weights(SHAPE, stream(1, "w"))


def test_patches_need_images_with_a_channel_for_each_post_feature() -> None:
    source = ImageArray(data=np.zeros((1, 12, 12, 4), np.float32))
    with pytest.raises(InputError, match="numbers of channels"):
        ImagePatches(source=source).weights(SHAPE, stream(1, "w"))


def test_gaussians_have_their_widths_and_directions() -> None:
    weights = Gaussian2D(sigma=4.0, aspect=2.0, strength=3.0).weights((1, 1, 4, 41, 45, 2), stream(1, "w"))
    assert weights.max() == 3.0
    assert np.array_equal(weights[..., 0], weights[..., 1])
    y, x = np.mgrid[-20:21, -22:23]
    for feature, angle in enumerate((0, 45, 90, 135)):
        mass = weights[0, 0, feature, :, :, 0] / weights[0, 0, feature, :, :, 0].sum()
        covariance = [[(mass * a * b).sum() for a in (x, y)] for b in (x, y)]
        sizes, axes = np.linalg.eigh(covariance)
        np.testing.assert_allclose(sizes, [4, 16], rtol=1e-3)
        along = np.deg2rad(angle)
        assert abs(axes[:, 1] @ [np.cos(along), np.sin(along)]) == pytest.approx(1)
    cut = Gaussian2D(sigma=4.0, reach=5.0).weights((1, 1, 1, 41, 45, 1), stream(1, "w"))[0, 0, 0, ..., 0]
    assert np.array_equal(cut > 0, x**2 + y**2 <= 25)


def test_sectors_share_weights_by_their_angle() -> None:
    """Together they are the same everywhere; each has all at its own angle, none from the next one on."""
    shape = (1, 1, 1, 9, 9, 2)
    several = [
        PetaVisionSectors(sectors=3, sector=number, value=6.0).weights(shape, stream(1, "w"))[0, 0, 0]
        for number in range(3)
    ]
    np.testing.assert_allclose(sum(several), 6.0)
    y, x = np.mgrid[-4:5, -4:5]
    for feature in range(2):  # of directions 0 and a quarter turn
        angle = (np.arctan2(y, x) - feature * np.pi / 2) / (2 * np.pi) % 1
        for number, weights in enumerate(several):
            far = abs(angle - number / 3)
            expected = 6 * np.maximum(0, 1 - 3 * np.minimum(far, 1 - far))
            expected[4, 4] = 2
            np.testing.assert_allclose(weights[..., feature], expected, atol=1e-9)
    with pytest.raises(ParamsError, match="there is no such sector"):
        PetaVisionSectors(sectors=3, sector=3)


def test_one_to_one_weights_spread_each_feature_over_several() -> None:
    several = [
        PetaVisionOneToOne(connections=3, number=number, value=2.0).weights(
            (1, 1, 2, 3, 1, 5), stream(1, "w")
        )
        for number in range(3)
    ]
    for number, weights in enumerate(several):
        expected = np.zeros((1, 1, 2, 3, 1, 5))
        for pre in range(2):
            if 3 * pre + number < 5:
                expected[0, 0, pre, 1, 0, 3 * pre + number] = 2
        np.testing.assert_array_equal(weights, expected)


def test_a_gabor_bank_has_as_many_directions_as_its_features_ask_for() -> None:
    weights = Gabor().weights((1, 1, 5, 8, 8, 3), stream(1, "w"))
    assert len(np.unique(weights.reshape(5, -1).round(9), axis=0)) == 5
    np.testing.assert_allclose(
        weights[:, :, ::2][:, :, :1], Gabor().weights((1, 1, 1, 8, 8, 3), stream(1, "w"))
    )


def test_identity_carries_each_feature_to_its_like() -> None:
    weights = IdentityWeights().weights((1, 1, 3, 3, 1, 2), stream(1, "w"))
    assert weights.sum() == 2
    assert weights[0, 0, 0, 1, 0, 0] == weights[0, 0, 1, 1, 0, 1] == 1
    with pytest.raises(InputError, match="no centre"):
        IdentityWeights().weights((1, 1, 3, 2, 1, 2), stream(1, "w"))


@pytest.mark.parametrize("missing", [0, 1, 2])
@pytest.mark.parametrize("kind", ["npy", "hdf5", "memory"])
def test_given_weights_come_back_with_or_without_leading_axes(
    tmp_path: Path, kind: str, missing: int
) -> None:
    stored = random_weights(SHAPE[missing:])
    init: Initial
    if kind == "npy":
        np.save(tmp_path / "w.npy", stored)
        init = WeightFile(path=str(tmp_path / "w.npy"))
    elif kind == "hdf5":
        with h5py.File(tmp_path / "w.h5", "w") as file:
            file["a/w"] = stored
        init = WeightFile(path=str(tmp_path / "w.h5"), dataset="a/w")
    else:
        init = WeightArray(data=stored)
    found = init.weights(SHAPE, stream(1, "w"))
    assert (found.shape, found.dtype) == (SHAPE, np.float64)
    assert np.array_equal(found, stored.reshape(SHAPE))


def test_the_newest_weights_of_a_run_are_taken(tmp_path: Path) -> None:
    history = random_weights((3, *SHAPE[2:]))
    with h5py.File(tmp_path / "run.h5", "w") as file:
        file["connections/dictionary/weights"] = history
        file["connections/empty/weights"] = history[:0]
    for path in (tmp_path, tmp_path / "run.h5"):
        found = WeightFile(path=str(path), connection="dictionary").weights(SHAPE, stream(1, "w"))
        assert np.array_equal(found[0, 0], history[2])
    with pytest.raises(InputError, match=r"(?s)no dataset.*nothing.*connections/dictionary/weights"):
        WeightFile(path=str(tmp_path), connection="nothing").weights(SHAPE, stream(1, "w"))
    with pytest.raises(InputError, match="no weights have been recorded"):
        WeightFile(path=str(tmp_path), connection="empty").weights(SHAPE, stream(1, "w"))


def test_a_folder_without_a_run_is_not_called_one_in_another_format(tmp_path: Path) -> None:
    (tmp_path / "run.sh").touch()
    file = WeightFile(path=str(tmp_path), connection="c")
    with pytest.raises(InputError, match=r"run\.h5: there is no such file"):
        file.stored()
    (tmp_path / "run.zarr").mkdir()
    with pytest.raises(InputError, match="this run is in Zarr, not in HDF5"):
        file.stored()


def test_weights_that_do_not_fit_are_an_error_that_shows_both_shapes(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", random_weights((5, 4, 3, 1)))
    with pytest.raises(InputError, match=r"(?s)w\.npy.*found: .*\[5, 4, 3, 1\].*\[1, 1, 5, 4, 3, 2\]"):
        WeightFile(path=str(tmp_path / "w.npy")).weights(SHAPE, stream(1, "w"))
    with pytest.raises(InputError, match="not finite"):
        WeightArray(data=np.full(SHAPE, np.inf)).weights(SHAPE, stream(1, "w"))
    with pytest.raises(InputError, match="no such file"):
        WeightFile(path=str(tmp_path / "gone.npy")).weights(SHAPE, stream(1, "w"))


@pytest.mark.parametrize(
    "table",
    [
        {"path": "w.h5"},
        {"path": "w.npy", "dataset": "w"},
        {"path": "w.h5", "dataset": "w", "connection": "c"},
    ],
)
def test_where_in_a_file_the_weights_are_must_be_clear(table: dict[str, str]) -> None:
    with pytest.raises(ValidationError, match="ambiguous"):
        WeightFile.model_validate(table)


# -- normalisers


shapes = st.tuples(
    st.integers(1, 3), st.integers(1, 2), st.integers(1, 2),
    st.integers(1, 5), st.integers(1, 4), st.integers(1, 4), st.integers(1, 3),
)  # fmt: skip


@settings(max_examples=30, deadline=None)
@given(
    shape=shapes, by=st.sampled_from(["pre", "post"]), strength=st.floats(0.1, 10), seed=st.integers(0, 99)
)
def test_each_unit_gets_the_size_asked_for_and_keeps_its_direction(
    shape: tuple[int, ...], by: Any, strength: float, seed: int
) -> None:
    axes = PRE if by == "pre" else POST
    start = random_weights(shape, seed, float)
    measures = {
        L2: lambda w: np.sqrt(np.square(w).sum(axis=axes)),
        Sum: lambda w: w.sum(axis=axes),
        Max: lambda w: w.max(axis=axes),
    }
    for normaliser, measure in measures.items():
        if normaliser is Sum and np.abs(measure(start)).min() < 1e-3:
            continue
        weights = start.copy()
        normaliser(strength=strength, by=by).apply(weights, np)
        fit_for_it = measure(start) > 0 if normaliser is Max else measure(start) != 0
        np.testing.assert_allclose(measure(weights)[fit_for_it], strength, rtol=1e-9)
        ratio = weights / start
        np.testing.assert_allclose(
            ratio, np.broadcast_to(ratio.mean(axis=axes, keepdims=True), shape), rtol=1e-9
        )


def test_l2_ball_shortens_long_units_only() -> None:
    weights = random_weights((1, 1, 1, 4, 3, 3, 2), dtype=float)
    weights[0, 0, 0, 0] *= 1e-3
    start = weights.copy()
    L2Ball(strength=1.0).apply(weights, np)
    assert np.array_equal(weights[0, 0, 0, 0], start[0, 0, 0, 0])
    np.testing.assert_allclose(np.sqrt(np.square(weights).sum(axis=PRE))[0, 0, 0, 1:], 1.0)


@pytest.mark.parametrize("by", ["pre", "post"])
def test_contrast_zero_mean_gives_mean_zero_and_the_deviation_asked_for(by: Any) -> None:
    axes = PRE if by == "pre" else POST
    weights = random_weights((2, 1, 1, 4, 3, 3, 2), dtype=float)
    ContrastZeroMean(strength=2.0, by=by).apply(weights, np)
    np.testing.assert_allclose(weights.mean(axis=axes), 0, atol=1e-12)
    np.testing.assert_allclose(weights.std(axis=axes), 2.0)


@pytest.mark.parametrize("normaliser", [L2(), L2Ball(), Sum(), Max(), ContrastZeroMean(), Unchanged()])
def test_units_of_zeros_are_left_alone(normaliser: Normalize) -> None:
    weights = random_weights((1, 1, 1, 3, 2, 2, 2))
    weights[0, 0, 0, 1] = 0
    normaliser.apply(weights, np)
    assert not weights[0, 0, 0, 1].any()
    assert np.isfinite(weights).all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rounding_of_weights_is_not_taken_for_their_contrast_or_their_sum(dtype: str) -> None:
    weights = np.full((1, 1, 1, 2, 3, 3, 2), 0.7, dtype)
    weights[0, 0, 0, 0, 0] = np.nextafter(weights[0, 0, 0, 0, 0], 1)
    weights[0, 0, 0, 1, 0, 0, 0] = 0.8
    start = weights.copy()
    ContrastZeroMean().apply(weights, np)
    assert np.array_equal(weights[0, 0, 0, 0], start[0, 0, 0, 0])
    np.testing.assert_allclose(weights[0, 0, 0, 1].std(), 1, rtol=1e-5)
    weights = random_weights((1, 1, 1, 2, 3, 3, 2)).astype(dtype)
    weights[..., 1] = -weights[..., 0]
    weights[0, 0, 0, 0, 0, 0, 0] = np.nextafter(weights[0, 0, 0, 0, 0, 0, 0], 9)
    weights[0, 0, 0, 1, 0, 0, 0] += 0.1
    start = weights.copy()
    Sum().apply(weights, np)
    assert np.array_equal(weights[0, 0, 0, 0], start[0, 0, 0, 0])
    np.testing.assert_allclose(weights[0, 0, 0, 1].sum(), 1, rtol=1e-4)


def test_max_leaves_units_without_a_positive_weight_alone() -> None:
    weights = -np.abs(random_weights((1, 1, 1, 2, 2, 2, 2)))
    start = weights.copy()
    Max().apply(weights, np)
    assert np.array_equal(weights, start)


def test_no_normalisation_changes_nothing() -> None:
    weights = random_weights((1, *SHAPE))
    start = weights.copy()
    Unchanged().apply(weights, np)
    assert np.array_equal(weights, start)


@settings(max_examples=40, deadline=None)
@given(shape=shapes, by=st.sampled_from(["pre", "post"]), seed=st.integers(0, 99))
@example(shape=(3, 1, 1, 33, 12, 12, 3), by="pre", seed=0)
@example(shape=(3, 2, 2, 17, 9, 8, 16), by="post", seed=0)
@example(shape=(3, 2, 2, 17, 9, 8, 1), by="post", seed=0)
def test_lanes_together_get_the_bits_of_lanes_alone(shape: tuple[int, ...], by: Any, seed: int) -> None:
    for normaliser in (L2(by=by), L2Ball(by=by), Sum(by=by), Max(by=by), ContrastZeroMean(by=by)):
        together = random_weights(shape, seed)
        alone = together.copy()
        normaliser.apply(together, np)
        for lane in range(shape[0]):
            normaliser.apply(alone[lane : lane + 1], np)
        assert np.array_equal(together, alone)


def test_float32_weights_stay_float32_and_reach_unit_length_to_its_precision() -> None:
    weights = random_weights((1, 1, 1, 128, 8, 8, 3))
    L2().apply(weights, np)
    assert weights.dtype == np.float32
    np.testing.assert_allclose(np.sqrt(np.square(weights, dtype=float).sum(axis=PRE)), 1.0, rtol=2e-7)


def test_every_initialiser_and_normaliser_can_be_named_in_a_params_file() -> None:
    assert {"array", "file", "gabor", "gaussian", "gaussian_2d", "identity", "patches", "uniform"} <= set(
        Initial.choices()
    )
    assert {"contrast_zero_mean", "l2", "l2_ball", "max", "none", "sum"} <= set(Normalize.choices())


# -- several connections as one


def grouped(together: tuple[str, ...] = ("up",), learn: bool = True, **keys: Any) -> Network:
    """Return a code that is joined to two layers, with patches of different size."""
    net = lca_network(images(2, 2), displays=2, learn=learn)
    down = net.connections["dictionary"].model_copy(update={"normalize": L2(together=together, **keys)})
    layers = {**net.layers, "far": Linear(shape=(12, 16, 2))}
    up = Conv(pre="V1", post="far", patch=(4, 2), init=Gaussian(std=0.5))
    return net.model_copy(
        update={"layers": layers, "connections": {**net.connections, "dictionary": down, "up": up}}
    )


@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_connections_normalised_together_are_as_one_array(mode: str) -> None:
    net = grouped()
    connections = {
        name: c.model_copy(update={"mode": mode}) if isinstance(c, Conv) else c
        for name, c in net.connections.items()
    }
    done = in_memory.run(net.model_copy(update={"connections": connections}), [0, 20])
    for step in range(2):
        down, up = (
            done.states[f"connections/{name}/weights"][step].reshape(-1, 12, size)
            for name, size in (("dictionary", 108), ("up", 16))
        )
        np.testing.assert_allclose(np.linalg.norm(np.concatenate([down, up], axis=2), axis=2), 1, rtol=1e-6)
    start, later = done.states["connections/up/weights"]
    assert not np.allclose(start, later)  # it does not learn, but shares its length with one that does
    ratio = later / start
    np.testing.assert_allclose(ratio, np.broadcast_to(ratio[..., :1, :1, :1], ratio.shape), rtol=1e-4)


@pytest.mark.parametrize("kind", [L2, Max])
def test_weights_are_set_to_0_before_they_are_normalised(kind: Any) -> None:
    """The middle of patches, then what is negative, then what is small beside the largest that is left."""
    start = random_weights((2, 1, 1, 3, 5, 4, 2), 4, np.float32)
    start[0, 0, 0, 1, 2, 1, 0] = 50  # in the hole: it does not decide what is small
    weights = start.copy()
    kind(strength=2.0, hole=(1, 2), nonnegative=True, cutoff=0.3).apply(weights, np)
    expected = start.copy()
    expected[..., 2, 1:3, :] = 0
    expected[expected < 0] = 0
    for one in expected:
        one[one < 0.3 * one.max()] = 0
    assert 0 < (expected == 0).mean() < 0.9
    kind(strength=2.0).apply(expected, np)
    np.testing.assert_array_equal(weights, expected)
    assert kind(cutoff=0.1).featurewise is False
    with pytest.raises(TableError, match="no common patch"):
        kind(hole=(1, 1), together=("up",))


def test_normalising_only_at_the_start_or_only_at_updates() -> None:
    def lengths(**keys: Any) -> np.ndarray:
        done = in_memory.run(grouped((), **keys), [0, 20])
        return np.linalg.norm(done.states["connections/dictionary/weights"].reshape(2, 12, -1), axis=2)

    start, later = lengths(at_updates=False)
    np.testing.assert_allclose(start, 1, rtol=1e-6)
    assert np.abs(later - 1).max() > 1e-3
    start, later = lengths(at_start=False)
    assert np.abs(start - 1).max() > 1
    np.testing.assert_allclose(later, 1, rtol=1e-6)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"normalize": L2()}, "normalised twice"),
        ({"mode": "shared"}, "differ in mode"),
    ],
)
def test_connections_that_cannot_be_normalised_together_are_refused(
    changes: dict[str, Any], words: str
) -> None:
    net = grouped()
    up = net.connections["up"].model_copy(update=changes)
    with pytest.raises(ParamsError, match=words):
        build(net.model_copy(update={"connections": {**net.connections, "up": up}}))
    for wrong in ("dictionary", "unknown", "drive"):
        with pytest.raises(ParamsError, match=r"normalize\.together"):
            build(grouped((wrong,)))
    with pytest.raises(TableError, match="patch by patch"):
        L2(by="post", together=("up",))


def test_an_array_is_an_initialiser() -> None:
    tau, start = np.linspace(5, 20, 10), np.linspace(0, 1, 10)
    layer = Neurons(
        shape=(1, 1, 10), equations="dv/dt = (2 - v) / tau", parameters={"tau": tau}, start={"v": start}
    )
    network = Network(
        run=Run(batch=1, steps=10), layers={"n": layer},
        output=Output(layers={"n": LayerOutput(every="10 steps", variables=("v",))}),
    )  # fmt: skip
    found = in_memory.run(network).recorded["layers/n/v"][0].ravel()
    np.testing.assert_allclose(found, 2 + (start - 2) * np.exp(-10 / tau), rtol=1e-6)
    kernel = np.ones((10, 1, 1, 10))
    init = Conv(pre="a", post="b", patch=(1, 1), init=kernel).init
    assert isinstance(init, WeightArray)
    np.testing.assert_array_equal(init.data.array, kernel)
