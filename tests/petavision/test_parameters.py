"""Meaning of PetaVision's parameters, where it can be tested without stored states."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, openpv
from petabatch.errors import InputError, ParamsError
from petabatch.layers import LCA, LogTimeScale
from petabatch.openpv.input import chosen, prepared
from petabatch.spec.network import Network

SMALL = {"nx": 8, "ny": 8, "nfin": 1, "nbatch": 2, "patch": 4, "stride": 2, "nfeat": 5, "D": 6, "nsteps": 18}
RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(size=(5, 4, 4, 1))
IMAGES = RNG.integers(0, 256, (3, 10, 9, 1)).astype(np.uint8)


def small(**params: Any) -> Network:
    return openpv.network({**SMALL, **params}, WEIGHTS, images=IMAGES, kernel="array")


def code(**params: Any) -> LCA:
    found = small(**params).layers["V1"]
    assert isinstance(found, LCA)
    return found


@pytest.mark.parametrize("trigger", [0, 1, 2])
def test_updates_fall_where_the_trigger_says(trigger: int) -> None:
    net = small(plastic=True, trigOffset=trigger, VThresh=0.1, AShift=0.1, tau=5.0)
    weights = in_memory.run(net, range(19)).states["connections/V1ToRecon/weights"]
    changed = [t for t in range(1, 19) if (weights[t] != weights[t - 1]).any()]
    assert changed == [t for t in range(1, 19) if (t - 1 + trigger) % 6 == 0]


@pytest.mark.parametrize(
    ("adaptive", "decay"), [(False, math.exp(-0.5 * 0.5 / 20)), (True, math.exp(-0.5 / 20))]
)
def test_without_a_time_scale_the_step_counts_twice(adaptive: bool, decay: float) -> None:
    layer = code(dt=0.5, tau=20.0, adaptive=adaptive, D=3.0)
    assert layer.decay(0.5, np.dtype(float))[0] == pytest.approx(decay, rel=1e-7)
    assert small(dt=0.5, D=3.0).run.display == 6


@pytest.mark.parametrize(
    ("params", "threshold", "width", "shift"),
    [
        ({"AShift": 0.2}, 0.55, 0, 0.2),
        ({"VWidth": 0.4, "AShift": 0.0}, 0.55, 0.4, 0),
        ({"VWidth": -0.1}, 0.45, 0.1, 0.55),
    ],
)
def test_transfer_functions_keep_every_parameter(
    params: Any, threshold: float, width: float, shift: float
) -> None:
    curve: Any = code(**params, AMax=3.0, AMin=-0.5).curve
    assert (curve.width, curve.shift, curve.maximum, curve.minimum) == (width, shift, 3.0, -0.5)
    assert curve.threshold == pytest.approx(threshold)


def test_initial_potentials() -> None:
    assert (code().initial, code(initV="ZeroV").initial, code(valueV=0.2).initial) == (0.55, 0.0, 0.2)


def test_the_logarithmic_controller_takes_its_own_parameters() -> None:
    control = {"baseMin": 0.1, "baseMax": 0.2, "logThresh": 7.0, "logSlope": 0.3, "kneeSlope": 0.5}
    scale = code(adaptive=True, adaptType="LogTimeScaleProbe", knee=control).time_scale
    assert isinstance(scale, LogTimeScale)
    assert (scale.minimum, scale.maximum, scale.threshold, scale.slope) == (0.1, 0.2, 7.0, 0.3)


@pytest.mark.parametrize(
    ("method", "start", "skip", "expected"),
    [
        ("byImage", None, None, [[0, 1], [2, 3], [4, 0]]),
        ("byList", None, None, [[0, 2], [1, 3], [2, 4]]),
        ("bySpecified", [1, 4], [2, 0], [[1, 4], [3, 0], [0, 1]]),
        ("byImage", [3, 1], None, [[3, 2], [0, 4], [2, 1]]),
    ],
)
def test_each_element_shows_the_images_of_its_batch_method(
    method: str, start: Any, skip: Any, expected: Any
) -> None:
    p = {
        **openpv.DEFAULTS,
        "nbatch": 2,
        "batchMethod": method,
        "start_frame_index": start,
        "skip_frame_index": skip,
    }
    np.testing.assert_array_equal(chosen(p, 5, 3), expected)


def test_images_are_cut_and_normalised() -> None:
    def shown(**params: Any) -> np.ndarray:
        return prepared({**openpv.DEFAULTS, "offsetY": 2, "offsetX": 1, **params}, IMAGES[0], (8, 8, 1))

    raw = IMAGES[0, 2:10, 1:9] / 255
    np.testing.assert_allclose(shown(normLum=False), raw, atol=1e-7)
    np.testing.assert_allclose(shown(), (raw - raw.mean()) / raw.std(), atol=1e-5)
    np.testing.assert_allclose(shown(normStd=False), (raw - raw.min()) / np.ptp(raw), atol=1e-6)
    np.testing.assert_allclose(shown(inverse=True), -shown(), atol=0)
    np.testing.assert_allclose(shown(normLum=False, inverse=True), raw.max() + raw.min() - raw, atol=1e-6)


@pytest.mark.parametrize(
    ("anchor", "offset", "rows"),
    [
        ("tl", 0, [0, 1, 2, 3]),
        ("tl", -1, [None, 0, 1, 2]),
        ("bl", 0, [2, 3, 4, 5]),
        ("cl", 1, [2, 3, 4, 5]),
        ("cr", -2, [None, 0, 1, 2]),
        ("br", 2, [4, 5, None, None]),
    ],
)
def test_images_are_placed_by_anchor_and_offset_and_padded_after_normalisation(
    anchor: str, offset: int, rows: list[int | None]
) -> None:
    image = IMAGES[0, :6, :4]
    p = {**openpv.DEFAULTS, "offsetAnchor": anchor, "offsetY": offset, "padValue": 7.0, "normStd": False}
    expected = np.full((4, 4, 1), 7.0)
    there = [i for i, row in enumerate(rows) if row is not None]
    pixels = image[[row for row in rows if row is not None]].astype(float)
    expected[there] = (pixels - pixels.min()) / np.ptp(pixels)
    np.testing.assert_allclose(prepared(p, image, (4, 4, 1)), expected, atol=1e-6)


def test_colours_are_weighted_into_grey_and_grey_is_repeated() -> None:
    p = {**openpv.DEFAULTS, "normLum": False}
    colours = RNG.integers(0, 256, (4, 4, 3)).astype(np.uint8)
    grey = colours / 255 @ [0.30, 0.59, 0.11]
    np.testing.assert_allclose(prepared(p, colours, (4, 4, 1))[..., 0], grey, atol=1e-6)
    np.testing.assert_array_equal(
        prepared(p, IMAGES[0], (4, 4, 3))[..., 2], IMAGES[0, :4, :4, 0] / np.float32(255)
    )


def test_weights_of_another_number_of_features_are_an_error_before_the_run() -> None:
    with pytest.raises(
        ParamsError, match=r"(?s)weights of V1ToRecon.*found: +\[16, 8, 8, 1\].*\[64, 8, 8, 1\]: features"
    ):
        openpv.network({"nfeat": 64, "nfin": 1}, np.zeros((16, 8, 8, 1)), np.zeros((1, 1, 32, 32, 1)))


def test_an_image_that_misses_the_layer_is_an_error() -> None:
    with pytest.raises(InputError, match="does not fit"):
        small(offsetX=20)


def test_a_list_may_begin_again_at_its_start() -> None:
    p = {**openpv.DEFAULTS, "nbatch": 2, "batchMethod": "bySpecified", "resetToStartOnLoop": True}
    p |= {"start_frame_index": [1, 3], "skip_frame_index": [2, 1]}
    np.testing.assert_array_equal(chosen(p, 5, 4), [[1, 3], [3, 4], [1, 3], [3, 4]])


@pytest.mark.parametrize(
    ("params", "named"),
    [
        ({"VTresh": 1}, "did you mean VThresh"),
        ({"v1type": "SpikingLayer"}, "HyPerLCALayer"),
        ({"initV": "UniformRandomV"}, "ZeroV"),
        ({"normMethod": "normalizeGroup"}, "normalizeL2"),
        ({"batchMethod": "random"}, "byImage"),
        ({"offsetAnchor": "top"}, "tl"),
        ({"adaptive": True, "knee": {"kneeTresh": 1}}, "did you mean kneeThresh"),
        ({"adaptive": True, "adaptType": "QuotientProbe"}, "KneeTimeScaleProbe"),
    ],
)
def test_what_is_not_supported_is_an_error_that_says_what_is(params: Any, named: str) -> None:
    with pytest.raises(ParamsError, match=named):
        small(**params)


@pytest.mark.parametrize("key", ["plastic", "err_mirror", "adaptive"])
def test_a_table_of_the_two_layer_network_takes_only_what_it_uses(key: str) -> None:
    with pytest.raises(ParamsError, match=f"V2.{key}"):
        openpv.network({"V1": {}, "V2": {key: True}}, {}, input=np.zeros((1, 1, 32, 32, 3)))


def test_a_polyline_wins_over_the_thresholds() -> None:
    layer = code(verticesV=[-1, 1], verticesA=[0, 1], slopePosInf=0.5)
    assert (layer.vertices, layer.slopes) == (((-1, 0), (1, 1)), (1.0, 0.5))


def test_a_negative_width_lowers_the_threshold_of_layer_and_price() -> None:
    net = small(VWidth=-0.1, l1="FirmThresholdCostFnLCAProbe")
    energy: Any = net.probes["energy"]
    assert (energy.coefficient, energy.corner) == pytest.approx((0.45, 0.55))


def test_a_run_goes_on_to_the_last_step_that_is_asked_for() -> None:
    found = openpv.simulate(small(nsteps=3), [0, 8])
    assert (len(found["V1_V"]), len(found["energy"])) == (2, 8)


def test_patches_of_the_extended_grid_are_cut_to_the_layer() -> None:
    """With a mirror border the patches beyond the edge are used, without it they are dropped."""
    grid = RNG.normal(size=(6, 6, 5, 4, 4, 1))
    p = {**SMALL, "shared": False, "normMethod": "none"}
    for mirror, expected in ((False, grid[1:-1, 1:-1]), (True, grid)):
        net = openpv.network({**p, "v1_mirror": mirror}, grid.reshape(-1, 4, 4, 1), images=IMAGES)
        np.testing.assert_allclose(openpv.simulate(net, [0])["W"][0], expected, rtol=1e-6)
