"""The Hebbian product of a code with an error, from the active units alone."""

from __future__ import annotations

import numpy as np
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from petabatch import geometry
from petabatch.geometry import Patches
from petabatch.kernels.cpu.gradient import dictionary_gradient, gradient_scratch
from petabatch.kernels.cpu.layout import scratch, shape
from support.loops import NUMPY, geometries

whole_vectors = geometry.make_link((5, 6, 7), (10, 12, 4), (8, 4), True).patches


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@example(p=whole_vectors, density=0.1, real="float32")
@given(p=geometries(), density=st.sampled_from([0.0, 0.1, 1.0]), real=st.sampled_from(["float32", "float64"]))
def test_gradient_and_counts_agree_with_the_plain_operators(p: Patches, density: float, real: str) -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((p.positions, p.features)).astype(real)
    A[rng.random(A.shape) >= density] = 0
    error = rng.standard_normal((p.y.fine, p.x.fine * p.channels)).astype(real)
    product, alone = np.full((2, p.features, p.length), np.nan, real)
    counts = np.full((p.features, p.length // p.channels), np.nan, real)
    space, apart = gradient_scratch(p, real), {"float32": 2e-5, "float64": 1e-13}[real]
    dictionary_gradient(A.reshape(-1), error, shape(p), scratch(p, real), space, alone, None)
    for _ in range(2):  # the second time after another
        dictionary_gradient(A.reshape(-1), error, shape(p), scratch(p, real), space, product, counts)
    code = A.astype("f8").reshape(1, p.y.coarse, p.x.coarse, p.features)
    fine = error.astype("f8").reshape(1, p.y.fine, p.x.fine, p.channels)
    np.testing.assert_allclose(product, NUMPY.outer(code, fine, p)[0, 0], rtol=apart, atol=apart)
    expected = NUMPY.outer((code != 0).astype("f8"), np.ones_like(fine), p)[0, 0]
    np.testing.assert_array_equal(np.repeat(counts, p.channels, axis=1), expected)
    np.testing.assert_array_equal(alone, product)
