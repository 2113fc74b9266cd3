"""The patch operators against PetaVision's rule, written as plain loops over pre units."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from petabatch.geometry import GeometryError, Link, make_link, weight_shape
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cpu.operators import CpuKernels
from petabatch.variable import Border

KERNELS = ArrayKernels(np)


@st.composite
def links(draw: st.DrawFn) -> tuple[Link, tuple[int, int, int], tuple[int, int, int], tuple[int, int]]:
    stride = draw(st.tuples(st.integers(1, 4), st.integers(1, 4)))
    coarse = draw(st.tuples(st.integers(1, 5), st.integers(1, 5)))
    patch = draw(st.tuples(st.integers(1, 6), st.integers(1, 6)))
    features, channels = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    pre = (*coarse, features)
    post = (coarse[0] * stride[0], coarse[1] * stride[1], channels)
    if draw(st.booleans()):
        pre, post = post, pre
    try:
        return make_link(pre, post, patch, draw(st.booleans())), pre, post, patch
    except GeometryError:
        assume(False)
        raise


def deliver_by_loops(
    activity: np.ndarray, weights: np.ndarray, post: tuple[int, int, int], patch: tuple[int, int]
) -> np.ndarray:
    """Every pre unit adds its patch, cut at the edge (PetaVision's `PatchGeometry.cpp:334-453`)."""
    out = np.zeros((len(activity), *post))
    pre = activity.shape[1:]

    def start(unit: int, n_pre: int, n_post: int, size: int) -> int:
        if n_pre > n_post:  # each axis for itself
            s = n_pre // n_post
            return math.floor((unit - (s / 2) * (size - 1)) / s)
        r = n_post // n_pre
        return unit * r - (size - r) // 2

    for y in range(pre[0]):
        for x in range(pre[1]):
            kernel = weights[:, y % weights.shape[1], x % weights.shape[2]]
            y0, x0 = start(y, pre[0], post[0], patch[0]), start(x, pre[1], post[1], patch[1])
            for dy in range(patch[0]):
                for dx in range(patch[1]):
                    if 0 <= y0 + dy < post[0] and 0 <= x0 + dx < post[1]:
                        out[:, y0 + dy, x0 + dx] += np.einsum(
                            "lf,lfg->lg", activity[:, y, x], kernel[:, :, dy, dx]
                        )
    return out


@settings(max_examples=150, deadline=None)
@given(links(), st.integers(0, 2**32 - 1))
def test_delivery_equals_loops_over_pre_units(case: tuple, seed: int) -> None:
    way, pre, post, patch = case
    rng = np.random.default_rng(seed)
    weights, activity = rng.normal(size=(2, *weight_shape(way))), rng.normal(size=(2, *pre))
    patches = KERNELS.to_patches(weights, way)
    operator = KERNELS.synthesize if way.scatter else KERNELS.project
    np.testing.assert_allclose(
        operator(activity, patches, way.patches),
        deliver_by_loops(activity, weights, post, patch),
        atol=1e-12,
    )


@settings(max_examples=100, deadline=None)
@given(links(), st.integers(0, 2**32 - 1))
def test_transpose_is_the_adjoint_and_outer_its_gradient(case: tuple, seed: int) -> None:
    way = case[0]
    p = way.patches
    rng = np.random.default_rng(seed)
    patches = KERNELS.to_patches(rng.normal(size=(2, *weight_shape(way))), way)
    coarse = rng.normal(size=(2, p.y.coarse, p.x.coarse, p.features))
    fine = rng.normal(size=(2, p.y.fine, p.x.fine, p.channels))
    there = (KERNELS.synthesize(coarse, patches, p) * fine).sum()
    back = (KERNELS.project(fine, patches, p) * coarse).sum()
    slope = (KERNELS.outer(coarse, fine, p) * patches).sum()
    np.testing.assert_allclose([back, slope], there, rtol=1e-9, atol=1e-9)


@settings(max_examples=100, deadline=None)
@given(links(), st.integers(0, 2**32 - 1))
def test_both_perspectives_hold_the_same_weights(case: tuple, seed: int) -> None:
    way = case[0]
    shape = weight_shape(way)
    weights = np.random.default_rng(seed).normal(size=(2, *shape))
    back = KERNELS.from_patches(KERNELS.to_patches(weights, way), way, shape)
    if way.scatter or way.patches.shared:
        np.testing.assert_array_equal(back, weights)
    else:  # weights that point outside the post layer are in no patch
        assert np.all((back == weights) | (back == 0))


@pytest.mark.parametrize("border", ["zero", "mirror", 1.5])
def test_units_beyond_the_edge_deliver_what_the_border_says(border: str | float) -> None:
    rng = np.random.default_rng(1)
    way = make_link((4, 5, 2), (8, 10, 3), (6, 6), shared=True, margin=True)
    weights, activity = rng.normal(size=(1, *weight_shape(way))), rng.normal(size=(1, 4, 5, 2))
    out = KERNELS.synthesize(activity, KERNELS.to_patches(weights, way), way.patches, border)
    wide = ((0, 0), (4, 4), (4, 4), (0, 0))
    grown = (
        np.pad(activity, wide, mode="symmetric")
        if border == "mirror"
        else np.pad(activity, wide, constant_values=0 if border == "zero" else border)
    )
    large = make_link((12, 13, 2), (24, 26, 3), (6, 6), shared=True)
    expected = KERNELS.synthesize(grown, KERNELS.to_patches(weights, large), large.patches)
    np.testing.assert_allclose(out, expected[:, 8:16, 8:18], atol=1e-12)


@pytest.mark.parametrize(
    ("pre", "post", "patch", "words"),
    [
        ((4, 4, 1), (6, 6, 1), (3, 3), "whole multiples"),
        ((4, 4, 1), (8, 8, 1), (16, 16), "does not fit"),
        ((4, 8, 1), (8, 4, 1), (2, 2), "larger than the post layer along one axis"),
    ],
)
def test_impossible_geometry_is_refused(pre: tuple, post: tuple, patch: tuple, words: str) -> None:
    with pytest.raises(GeometryError, match=words):
        make_link(pre, post, patch, shared=True)


@settings(deadline=None)
@given(
    found=links(),
    lanes=st.integers(1, 3),
    per_slice=st.booleans(),
    activity=st.sampled_from([0.0, 0.1, 0.9]),
    border=st.sampled_from(["zero", "mirror", 0.5]),
    seed=st.integers(0, 99),
)
def test_compiled_operators_agree_with_the_plain_ones(
    found: tuple[Link, tuple[int, int, int], tuple[int, int, int], tuple[int, int]],
    lanes: int,
    per_slice: bool,
    activity: float,
    border: Border,
    seed: int,
) -> None:
    way, rng = found[0], np.random.default_rng(seed)
    p = way.with_margin(border != "zero").patches if way.patches.shared else way.patches
    coarse, fine = sorted(found[1:3], key=lambda shape: shape[0] * shape[1])
    if not found[0].scatter and coarse[:2] == fine[:2]:
        coarse, fine = fine, coarse
    code, image = (rng.standard_normal((lanes, *shape)).astype("f4") for shape in (coarse, fine))
    code *= rng.random(code.shape) < activity
    patches = rng.standard_normal((lanes if per_slice else 1, p.groups, p.features, p.length)).astype("f4")
    fast = CpuKernels(np)
    exact = code.astype(float), image.astype(float), patches.astype(float)
    for mine, reference in (
        (fast.synthesize(code, patches, p, border), KERNELS.synthesize(exact[0], exact[2], p, border)),
        (fast.project(image, patches, p, border), KERNELS.project(exact[1], exact[2], p, border)),
    ):
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, reference, rtol=1e-4, atol=1e-4)


def test_the_reconstruction_of_a_slice_does_not_depend_on_the_slices_beside_it() -> None:
    rng = np.random.default_rng(0)
    way = make_link((5, 4, 9), (10, 8, 3), (6, 6), True)
    codes = rng.standard_normal((3, 5, 4, 9)).astype("f4")
    codes *= rng.random(codes.shape) < np.array([0.05, 0.9, 0.3]).reshape(3, 1, 1, 1)
    patches = rng.standard_normal((1, 1, 9, way.patches.length)).astype("f4")
    together = CpuKernels(np).synthesize(codes, patches, way.patches)
    for lane in range(3):
        alone = CpuKernels(np).synthesize(codes[lane : lane + 1], patches, way.patches)
        np.testing.assert_array_equal(together[lane], alone[0])
