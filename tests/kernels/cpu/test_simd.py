"""Operations on vectors against the same number by number."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit

from petabatch.kernels.cpu.simd import lowest_bit, operations, pair_operations


@pytest.mark.parametrize("lanes", [4, 8, 32])
def test_vector_operations_are_their_plain_twins(lanes: int) -> None:
    _, load, store, add_to, broadcast_fma, scaled, nonzero = operations(lanes)

    @njit
    def lowest_bit_of(bits: int) -> int:
        return lowest_bit(bits)

    @njit
    def run(
        a: np.ndarray, b: np.ndarray, stored: np.ndarray, added: np.ndarray, product: np.ndarray
    ) -> tuple[int, int]:
        store(product, 0, scaled(b, 1, load(b, 3)))
        v = broadcast_fma(load(a, 1), b, 2, load(b, 3))
        store(stored, 1, v)
        add_to(added, 2, v)
        bits = nonzero(a, 1)
        return bits, lowest_bit(bits)

    rng = np.random.default_rng(0)
    a, b = rng.integers(1, 9, (2, lanes + 4)).astype("f4")
    a[[1, 3]], a[4] = 0, np.nan
    stored, added, product = (np.ones_like(a) for _ in range(3))
    bits, lowest = run(a, b, stored, added, product)
    np.testing.assert_array_equal(product[:lanes], b[1] * b[3 : 3 + lanes])
    expected = a[1 : 1 + lanes] + b[2] * b[3 : 3 + lanes]
    np.testing.assert_array_equal(stored[1 : 1 + lanes], expected)
    np.testing.assert_array_equal(added[2 : 2 + lanes], 1 + expected)
    assert [stored[0], *stored[1 + lanes :], *added[:2], *added[2 + lanes :]] == [1] * 8
    assert bits == sum(1 << j for j in range(lanes) if a[1 + j] != 0)
    assert lowest == 1
    assert lowest_bit_of(np.uint64(0)) == 64


@pytest.mark.parametrize("lanes", [4, 8, 64])
def test_operations_on_pairs_of_vectors_are_their_plain_twins(lanes: int) -> None:
    _, load, store, *_ = operations(lanes)
    fma, horizontal_sum, below_mask, add = pair_operations(lanes)

    @njit
    def run(a: np.ndarray, b: np.ndarray, out: np.ndarray) -> tuple[float, int]:
        store(out, 1, add(load(a, 0), fma(load(b, 1), load(a, 1), load(b, 2))))
        return horizontal_sum(load(a, 1)), below_mask(np.float32(-2), a, b, 1, b, 2)

    a, b = np.random.default_rng(0).integers(-9, 9, (2, lanes + 3)).astype("f4")
    out = np.zeros_like(a)
    total, bits = run(a, b, out)
    expected = a[:lanes] + b[1 : 1 + lanes] + a[1 : 1 + lanes] * b[2 : 2 + lanes]
    np.testing.assert_array_equal(out[1 : 1 + lanes], expected)
    assert total == a[1 : 1 + lanes].sum()
    assert bits == sum(1 << j for j in range(lanes) if b[1 + j] <= -2 * a[1 + j] + b[2 + j])
    for array, place in ((a, 1), (b, 1), (b, 2)):
        kept, array[place] = array[place], np.nan
        assert run(a, b, out)[1] & 1
        array[place] = kept
