"""The potentials that the lazy loop goes on from when weights change, against the plain operators."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from loops import NUMPY, geometries, many_chunks, many_tiles

from petabatch.geometry import Patches
from petabatch.kernels.cpu_layout import dictionary, pack, scratch, shape
from petabatch.kernels.cpu_lazy_settle import settle


def assert_dense_product(p: Patches, fade: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((p.features, p.length)).astype("f4")
    filtered = rng.standard_normal((p.y.fine, p.x.fine * p.channels)).astype("f4")
    history, V = rng.standard_normal((2, p.positions * p.features)).astype("f4")
    packed = dictionary(p)
    pack(weights, p, packed)
    settle(filtered, history, np.float32(fade), packed.panels, shape(p), scratch(p), V)
    image = filtered.astype("f8").reshape(1, p.y.fine, p.x.fine, p.channels)
    expected = NUMPY.project(image, weights.astype("f8").reshape(1, 1, p.features, p.length), p).ravel()
    expected += np.float32(fade) * history.astype("f8")
    np.testing.assert_allclose(V, expected, rtol=2e-5, atol=2e-6 * p.length)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(p=geometries(), fade=st.floats(2**-14, 1, width=32), seed=st.integers(0, 2**32 - 1))
def test_settled_potentials_are_the_dense_product_and_what_is_left_of_history(
    p: Patches, fade: float, seed: int
) -> None:
    assert_dense_product(p, fade, seed)


@pytest.mark.parametrize("p", [many_tiles, many_chunks])
def test_layers_of_many_tiles_and_chunks_settle(p: Patches) -> None:
    assert_dense_product(p, 0.5, 0)
