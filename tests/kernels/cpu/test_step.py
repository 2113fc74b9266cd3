"""The compiled sparse-coding loop against the plain operators in float64, on random geometries."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from numba import njit

from petabatch import geometry
from petabatch.geometry import Patches
from petabatch.kernels.cpu.certificate import NO_LOOKS
from petabatch.kernels.cpu.gradient import dictionary_gradient, gradient_scratch
from petabatch.kernels.cpu.layout import StepSums, dictionary, pack, scratch, shape
from petabatch.kernels.cpu.simd import lowest_bit, operations
from petabatch.kernels.cpu.step import advance
from petabatch.kernels.cpu.threads import advance_rows
from petabatch.layers.transfer import Transfer
from support.loops import (
    NUMPY,
    RULES,
    TRANSFERS,
    Guards,
    assert_same_bits,
    geometries,
    many_chunks,
    many_tiles,
    many_tiles_non_shared,
    plain,
    problem,
)

some = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@some
@given(
    p=geometries(modes=(True, False)),
    curve=st.sampled_from(TRANSFERS),
    self_interaction=st.booleans(),
    seed=st.integers(0, 99),
)
def test_steps_agree_with_the_plain_operators_in_float64(
    p: Patches, curve: Transfer, self_interaction: bool, seed: int
) -> None:
    case = problem(p, curve, self_interaction, seed)
    found, sums = case.compiled([4], observe=True)
    expected, expected_sums, close = case.reference(4)
    # Rounding may decide either way where the transfer function jumps.
    assume(curve.shift == curve.threshold or not close.any())
    assume(max(abs(array).max() for array in expected) < 20)  # too large a step amplifies rounding too
    for mine, theirs in zip(found[:4], expected, strict=True):
        np.testing.assert_allclose(mine.reshape(-1), theirs.reshape(-1), rtol=2e-5, atol=2e-5)
    np.testing.assert_allclose(sums[:, :2], expected_sums[:, :2], rtol=1e-5, atol=1e-5)
    if not close.any():
        np.testing.assert_array_equal(sums[:, 2], expected_sums[:, 2])


@pytest.mark.parametrize(
    "p", [many_tiles, many_tiles_non_shared, many_chunks], ids=["tiles", "non_shared", "chunks"]
)
def test_layers_of_many_tiles_and_chunks_agree_with_float64(p: Patches) -> None:
    s = shape(p)
    assert s.ny > s.tile
    assert p is not many_chunks or s.tile * s.nx > s.chunk
    case = problem(p, TRANSFERS[1])
    for mine, theirs in zip(case.compiled([5])[0][:4], case.reference(5)[0], strict=True):
        np.testing.assert_allclose(mine.reshape(-1), theirs.reshape(-1), rtol=2e-5, atol=2e-5)


def test_four_hundred_steps_agree_with_float64() -> None:
    case = problem(plain(10, 12, 70, 8, 2, 3), Transfer(0.4, 0.4))
    case.decay = math.exp(-1 / 30)
    found, _ = case.compiled([400])
    for mine, theirs in zip(found[:4], case.reference(400)[0], strict=True):
        distance = np.linalg.norm(mine.reshape(-1) - theirs.reshape(-1))
        assert distance < 1e-5 * np.linalg.norm(theirs)


@some
@given(
    p=geometries(modes=(True, False)),
    curve=st.sampled_from(TRANSFERS),
    self_interaction=st.booleans(),
    cut=st.integers(0, 7),
    rule=st.sampled_from(RULES),
    adaptive=st.booleans(),
)
def test_cutting_a_run_in_two_changes_no_bit(
    p: Patches, curve: Transfer, self_interaction: bool, cut: int, rule: int, adaptive: bool
) -> None:
    case = problem(p, curve, self_interaction)
    case.rule, case.adaptive = rule, adaptive
    whole, parts = case.compiled([7])[0], case.compiled([cut, 7 - cut])[0]
    assert_same_bits(parts, whole)


@pytest.mark.parametrize("rule", RULES)
def test_observing_every_step_changes_no_bit(rule: int) -> None:
    case = problem(many_tiles, TRANSFERS[3])
    case.rule = rule
    seen, unseen = case.compiled([9], observe=True)[0], case.compiled([9])[0]
    assert_same_bits(seen, unseen)


def test_slices_on_many_threads_have_the_bits_of_one_thread() -> None:
    cases = [problem(many_tiles, TRANSFERS[1], seed=seed) for seed in range(6)]
    alone = [case.compiled([9])[0] for case in cases]
    with ThreadPoolExecutor(3) as pool:
        together = [state for state, _ in pool.map(lambda case: case.compiled([9]), cases)]
    for one, other in zip(alone, together, strict=True):
        assert_same_bits(other, one)


@pytest.mark.parametrize("threads", [1, 2, 3, 11])
@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(
    ("adaptive", "p"), [(False, many_tiles), (True, many_tiles), (True, many_tiles_non_shared)]
)
def test_rows_of_a_slice_on_many_threads_have_the_bits_of_one_thread(
    threads: int, rule: int, adaptive: bool, p: Patches
) -> None:
    case = problem(p, TRANSFERS[1])
    case.rule, case.adaptive = rule, adaptive
    state, sums = case.start(), np.zeros((6, 3))
    works = [case.scratch() for _ in range(threads)]
    with ThreadPoolExecutor(threads) as pool:
        for part in (slice(0, 2), slice(2, 6)):
            n = part.stop - part.start
            advance_rows(
                pool, *case.arguments(state, case.packed()), part.start == 0, works,
                StepSums(np.full(n, True), sums[part]), NO_LOOKS,
            )  # fmt: skip
    expected, expected_sums = case.compiled([6], observe=True)
    assert_same_bits([*state, sums], [*expected, expected_sums])


@some
@given(
    p=geometries(modes=(True, False)),
    curve=st.sampled_from(TRANSFERS),
    nan=st.booleans(),
    rule=st.sampled_from(RULES),
)
def test_nothing_is_written_beside_the_arrays(p: Patches, curve: Transfer, nan: bool, rule: int) -> None:
    case, guarded = problem(p, curve), Guards(165)
    case.rule = rule
    case.image[0, 0] = np.nan if nan else 0
    state = [guarded(array) for array in case.start()]
    packed, work = guarded.all_of(case.packed()), guarded.all_of(case.scratch())
    sums = guarded(np.zeros((3, 3)))
    advance(*case.arguments(state, packed), True, work, StepSums(np.full(3, True), sums), NO_LOOKS)
    assert guarded.untouched()


def test_a_used_scratch_space_leaves_no_trace() -> None:
    first, second = problem(many_tiles, TRANSFERS[0], seed=1), problem(many_tiles, TRANSFERS[0], seed=2)
    work, packed = scratch(many_tiles), dictionary(many_tiles)
    for case in (first, second):
        state = case.start()
        pack(case.weights, many_tiles, packed)
        record = StepSums(np.zeros(5, bool), np.zeros((5, 3)))
        advance(*case.arguments(state, packed), True, work, record, NO_LOOKS)
    assert_same_bits(state, second.compiled([5])[0])


def test_a_nan_in_the_image_reaches_the_activity() -> None:
    case = problem(plain(4, 4, 5, 3, 1, 1), TRANSFERS[0])
    case.image[1, 1] = np.nan
    (_, _, A, V, *_), _ = case.compiled([2])
    assert np.isnan(V).any()
    np.testing.assert_array_equal(np.isnan(A), np.isnan(V))


whole_vectors = geometry.make_link((5, 6, 7), (10, 12, 4), (8, 4), True).patches


@some
@example(p=whole_vectors, density=0.1)
@given(p=geometries(), density=st.sampled_from([0.0, 0.1, 1.0]))
def test_gradient_and_counts_agree_with_the_plain_operators(p: Patches, density: float) -> None:
    rng = np.random.default_rng(3)
    A = rng.standard_normal((p.positions, p.features)).astype("f4")
    A[rng.random(A.shape) >= density] = 0
    error = rng.standard_normal((p.y.fine, p.x.fine * p.channels)).astype("f4")
    product, alone = np.full((2, p.features, p.length), np.nan, "f4")
    counts = np.full((p.features, p.length // p.channels), np.nan, "f4")
    space = gradient_scratch(p)
    dictionary_gradient(A.reshape(-1), error, shape(p), scratch(p), space, alone, None)
    for _ in range(2):  # the second time after another
        dictionary_gradient(A.reshape(-1), error, shape(p), scratch(p), space, product, counts)
    code = A.astype("f8").reshape(1, p.y.coarse, p.x.coarse, p.features)
    fine = error.astype("f8").reshape(1, p.y.fine, p.x.fine, p.channels)
    np.testing.assert_allclose(product, NUMPY.outer(code, fine, p)[0, 0], rtol=2e-5, atol=2e-5)
    expected = NUMPY.outer((code != 0).astype("f8"), np.ones_like(fine), p)[0, 0]
    np.testing.assert_array_equal(np.repeat(counts, p.channels, axis=1), expected)
    np.testing.assert_array_equal(alone, product)


@pytest.mark.parametrize("lanes", [4, 8, 32])
def test_vector_operations_are_their_plain_twins(lanes: int) -> None:
    _, load, store, add_to, broadcast_fma, nonzero = operations(lanes)

    @njit
    def run(a: np.ndarray, b: np.ndarray, stored: np.ndarray, added: np.ndarray) -> tuple[int, int]:
        v = broadcast_fma(load(a, 1), b, 2, load(b, 3))
        store(stored, 1, v)
        add_to(added, 2, v)
        bits = nonzero(a, 1)
        return bits, lowest_bit(bits)

    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 9, (2, lanes + 4)).astype("f4")
    a[[1, 3]], a[4] = 0, np.nan
    stored, added = np.ones_like(a), np.ones_like(a)
    bits, lowest = run(a, b, stored, added)
    expected = a[1 : 1 + lanes] + b[2] * b[3 : 3 + lanes]
    np.testing.assert_array_equal(stored[1 : 1 + lanes], expected)
    np.testing.assert_array_equal(added[2 : 2 + lanes], 1 + expected)
    assert [stored[0], *stored[1 + lanes :], *added[:2], *added[2 + lanes :]] == [1] * 8
    assert bits == sum(1 << j for j in range(lanes) if a[1 + j] != 0)
    assert lowest == 1
