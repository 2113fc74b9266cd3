"""The gap as compiled steps evaluate it: that of the probe, wherever it begins."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from petabatch.geometry import Patches
from petabatch.kernels.cpu import layout
from petabatch.kernels.cpu.certificate import Looks, blocks, look
from petabatch.kernels.cpu.layout import Dictionary, Images, scratch, shape
from petabatch.probes import Optimality
from support.loops import NUMPY, geometries, many_tiles, many_tiles_non_shared

some = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
COEFFICIENT = 0.3


class Coded(NamedTuple):
    """An image, and its code after some steps, in float32."""

    p: Patches
    image: np.ndarray
    recon: np.ndarray
    A: np.ndarray
    weights: np.ndarray
    """`[groups, nf, K]`."""


def coded(p: Patches, signed: bool, seed: int = 0) -> Coded:
    rng = np.random.default_rng(seed)
    image = rng.standard_normal((1, p.y.fine, p.x.fine, p.channels))
    weights = rng.standard_normal((1, p.groups, p.features, p.length))
    weights /= np.linalg.norm(weights, axis=3, keepdims=True)
    recon, V = np.zeros_like(image), np.zeros((1, p.y.coarse, p.x.coarse, p.features))
    A = V
    for _ in range(6):
        V = 0.9 * V + 0.1 * (NUMPY.project(image - recon, weights, p) + A)
        A = np.sign(V) * np.maximum(abs(V) - COEFFICIENT, 0) if signed else np.maximum(V - COEFFICIENT, 0)
        recon = NUMPY.synthesize(A, weights, p)
    return Coded(p, *(array[0].astype("f4") for array in (image, recon, A, weights)))


def looks(target: float, signed: bool, block: int = 0) -> Looks:
    return Looks(target, COEFFICIENT, signed, np.zeros(1), np.array([block]))


def measured(case: Coded, signed: bool) -> float:
    """Return the gap by the probe, in float64."""
    layers = {"image": case.image, "recon": case.recon, "code": case.A}

    class Read:
        def __call__(self, layer: str, _: str) -> np.ndarray:
            return layers[layer][None].astype("f8")

        def through(self, _: str, residual: np.ndarray) -> np.ndarray:
            return NUMPY.project(residual, case.weights[None].astype("f8"), case.p)

    probe = Optimality(
        image="image", reconstruction="recon", code="code", drive="drive", coefficient=COEFFICIENT,
        signed=signed,
    )  # fmt: skip
    return float(probe.measure(Read(), np)["relative_gap"][0])


def found(case: Coded, mine: Looks, whole: bool) -> tuple[bool, float]:
    """Look at the gap; return whether the slice stops, and the gap."""
    p = case.p
    panels = np.zeros((0, p.length, layout.PANEL), "f4")
    if p.shared:
        panels = layout.room_for_panels(p)
        layout.pack_panels(case.weights[0], panels)
    weights = Dictionary(panels, case.weights[:0] if p.shared else case.weights)
    rows = (p.y.fine, -1)
    images = Images(case.image.reshape(rows), np.float32(1), case.recon.reshape(rows))
    size = float(np.abs(case.A).sum(dtype="f8"))
    stops = look(whole, size, case.A.reshape(-1), images, mine, weights, shape(p), scratch(p))
    return stops, float(mine.gap[0])


@some
@given(p=geometries(modes=(True, False)), signed=st.booleans(), seed=st.integers(0, 99))
def test_the_gap_is_that_of_the_probe_and_is_told_if_it_is_small_enough_or_asked_for(
    p: Patches, signed: bool, seed: int
) -> None:
    case = coded(p, signed, seed)
    stops, gap = found(case, looks(0.0, signed), True)
    assert gap == pytest.approx(measured(case, signed), rel=1e-5, abs=1e-5)
    assert stops == (gap <= 0)
    for block in range(min(4, blocks(shape(p), len(scratch(p).strips)))):
        assert found(case, looks(gap, signed, block), False) == (True, gap)
        stops, told = found(case, looks(gap - 1e-6, signed, block), False)
        assert not stops
        assert told in (gap, np.inf)


def test_an_unsigned_code_with_a_negative_activity_has_no_gap() -> None:
    case = coded(many_tiles, False)
    _, gap = found(case, looks(0.0, False), True)
    case.A[-1, -1, -1] = -1e-6
    assert found(case, looks(2 * gap, False), False) == (False, np.inf)
    assert found(case, looks(2 * gap, False), True) == (False, np.inf)


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("p", [many_tiles, many_tiles_non_shared], ids=["shared", "non_shared"])
@pytest.mark.parametrize("bad", [np.nan, -np.nan, np.inf])
def test_a_dictionary_that_is_not_finite_has_no_gap_even_if_its_features_are_silent(
    p: Patches, signed: bool, whole: bool, bad: float
) -> None:
    case = coded(p, signed)
    _, gap = found(case, looks(0.0, signed), True)
    silent = case.A[0, 0] == 0
    case.weights[0, np.flatnonzero(silent)[-1], p.length // 2] = bad
    case.A[..., silent] = 0
    assert found(case, looks(max(2 * gap, 2.0), signed), whole) == (False, np.inf)
    with np.errstate(invalid="ignore"):
        assert measured(case, signed) == np.inf


@pytest.mark.sampled(6)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("signed", [False, True])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("where", ["image", "A"])
def test_an_image_or_code_that_is_not_finite_has_no_gap(
    where: str, signed: bool, whole: bool, bad: float
) -> None:
    case = coded(many_tiles, signed)
    array: Any = getattr(case, where)
    array.reshape(-1)[array.size // 2] = bad
    with np.errstate(invalid="ignore"):
        assert found(case, looks(2.0, signed), whole) == (False, np.inf)
        assert measured(case, signed) == np.inf


def test_a_look_ends_at_the_first_block_that_is_too_steep_where_the_next_begins() -> None:
    case = coded(many_tiles, False)
    count = blocks(shape(many_tiles), len(scratch(many_tiles).strips))
    gap = found(case, looks(0.0, False), True)[1]
    first, again = looks(0.99 * gap, False), looks(0.99 * gap, False, count - 1)
    for mine in (first, again):
        assert found(case, mine, False) == (False, np.inf)
        at = int(mine.block[0])
        assert found(case, mine, False) == (False, np.inf)
        assert mine.block[0] == at
    assert again.block[0] == count - 1 or again.block[0] <= first.block[0]
