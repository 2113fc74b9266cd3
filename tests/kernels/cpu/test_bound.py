"""The bound of lazy evaluation, `kernels/cpu/program/lazy/__init__.py`, in plain float64."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from support.loops import NUMPY, plain


@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize(
    ("taken", "more"), [((), 1), ((20,), 0.68), (range(5, 150, 8), 0.06)], ids=["never", "once", "often"]
)
def test_units_above_threshold_are_due_whatever_snapshots_are_taken(
    taken: Sequence[int], more: float, signed: bool
) -> None:
    p, threshold, e, rng = plain(6, 7, 30, 5, 2, 2), 0.35, 0.97, np.random.default_rng(0)
    W = rng.standard_normal((p.features, p.length)) * rng.uniform(0.5, 1, (p.features, 1)) / p.length**0.5
    norms = np.linalg.norm(W, axis=1)
    image = rng.standard_normal((1, p.y.fine, p.x.fine, p.channels))
    F, S = np.zeros_like(image), np.zeros((2, *image.shape))
    H, A = np.zeros((2, p.positions, p.features))
    V, products, woken, active = np.zeros_like(H), np.zeros((2, *H.shape)), 0.0, 0.0

    def patches(image: np.ndarray) -> np.ndarray:
        return np.asarray(NUMPY.windows(image, p, "zero")).reshape(p.positions, -1)

    for step in range(150):
        if step == 90:
            image = rng.standard_normal(image.shape)
        error = image - NUMPY.synthesize(A.reshape(1, p.y.coarse, p.x.coarse, -1), W[None, None], p)
        if step in taken:
            S = np.stack([S[1], F])
            products = np.stack([products[1], patches(F) @ W.T])
        drive = NUMPY.project(error, W[None, None], p).reshape(H.shape)
        V, F, H = e * V + (1 - e) * (drive + A), e * F + (1 - e) * error, e * H
        factors = np.linalg.lstsq(S.reshape(2, -1).T, F.reshape(-1), rcond=None)[0]
        rest = np.linalg.norm(patches(F - np.tensordot(factors, S, 1)), axis=1)
        known = np.tensordot(factors, products, 1) + H
        bound = (abs(known) if signed else known) + norms * rest[:, None]
        due = (threshold - 1e-12 <= bound) | (A != 0)
        H += (1 - e) * A
        np.testing.assert_allclose(patches(F) @ W.T + H, V, atol=1e-12)
        size = abs(V) if signed else V
        assert due[threshold <= size].all()
        A = np.where(threshold <= size, V - np.copysign(threshold, V), 0)
        woken, active = woken + due.mean() / 150, active + (A != 0).mean() / 150
    assert 0.1 < active < woken < active + more
