"""The exact sum: the same bits for any split and order, a bounded error, no overflow, NaN found."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petabatch.errors import NonFiniteError, ResourceError
from petabatch.parallel.comm import Serial, share
from petabatch.parallel.reduce import exact_sum


class Pretend(Serial):
    """Ranks that take turns in one process: each leaves its part for the next to add."""

    def __init__(self, others: list[np.ndarray]) -> None:
        self.others = others

    def max_int32(self, array: np.ndarray) -> None:
        for part in self.others:
            largest = np.abs(part).max(axis=(0, *range(4, part.ndim))).reshape(-1)
            np.maximum(array, np.frexp(largest)[1], out=array)
        self.top = array.copy()

    def sum_int64(self, array: np.ndarray) -> None:
        slices = sum(len(part) for part in self.others) + self.own
        shift = 62 - (slices - 1).bit_length() - self.top.astype(np.int64)
        for part in self.others:
            flat = part.reshape(len(part), len(shift), -1).astype(float)
            array += np.rint(np.ldexp(flat, shift[:, None])).astype(np.int64).sum(axis=0)


def split_sum(values: np.ndarray, lo: int, hi: int) -> np.ndarray:
    """Return what the rank that owns lo..hi finds when the rest is elsewhere."""
    comm = Pretend([values[:lo], values[hi:]] if lo else [values[hi:]])
    comm.others = [part for part in comm.others if len(part)]
    comm.own = hi - lo
    return exact_sum(values[lo:hi], comm, len(values), lo, "connection d")


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 40), st.integers(0, 2**32 - 1), st.floats(-30, 30), st.data())
def test_any_split_and_order_gives_the_same_bits(
    slices: int, seed: int, log: float, data: st.DataObject
) -> None:
    rng = np.random.default_rng(seed)
    values = (
        rng.normal(size=(slices, 1, 1, 3, 2, 2, 1)) * 10.0 ** (log * rng.random((slices, *[1] * 6)))
    ).astype("f4")
    whole = exact_sum(values, Serial(), slices, 0, "connection d")
    shuffled = exact_sum(values[rng.permutation(slices)], Serial(), slices, 0, "connection d")
    np.testing.assert_array_equal(shuffled, whole)
    lo = data.draw(st.integers(0, slices - 1))
    hi = data.draw(st.integers(lo + 1, slices))
    np.testing.assert_array_equal(split_sum(values, lo, hi), whole)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 64), st.integers(0, 2**32 - 1))
def test_error_stays_below_the_bound(slices: int, seed: int) -> None:
    values = np.random.default_rng(seed).normal(size=(slices, 1, 1, 2, 1, 5, 1))
    found = exact_sum(values, Serial(), slices, 0, "connection d")[0]
    bits = 2 * (slices - 1).bit_length() - 62
    for f in range(2):
        largest = np.abs(values[:, :, :, f]).max()
        for i in range(5):
            exact = math.fsum(values[:, 0, 0, f, 0, i, 0])
            # one more rounding to float64 on the way out
            assert abs(found[0, 0, f, 0, i, 0] - exact) <= math.ldexp(largest, bits) + abs(exact) * 2**-52


@pytest.mark.parametrize("slices", [1, 2, 3, 1023, 1024, 1025])
@pytest.mark.parametrize("value", [1.0, 0.99999994, -1.0, 3.4e38, 1e-45])
def test_equal_extreme_values_do_not_overflow(slices: int, value: float) -> None:
    values = np.full((slices, 1, 1, 1, 1, 1, 1), value, np.float32).astype(np.float64)
    found = exact_sum(values, Serial(), slices, 0, "connection d").item()
    assert found == pytest.approx(slices * float(np.float32(value)), rel=1e-12)


def test_zeros_sum_to_zero() -> None:
    assert not exact_sum(np.zeros((3, 1, 1, 2, 2, 2, 1), np.float32), Serial(), 3, 0, "connection d").any()


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_by_slice_and_connection(bad: float) -> None:
    values = np.ones((4, 1, 1, 2, 2, 2, 1), np.float32)
    values[2, 0, 0, 1, 0, 1, 0] = bad
    with pytest.raises(NonFiniteError, match="connection d: the weight change of slice 7 is not finite"):
        exact_sum(values, Serial(), 9, 5, "connection d")


def test_shares_cover_the_batch_once_and_evenly() -> None:
    for batch in range(1, 20):
        for size in range(1, batch + 1):
            shares = [share(batch, rank, size) for rank in range(size)]
            assert [lo for lo, _ in shares] == [0, *(hi for _, hi in shares[:-1])]
            assert shares[-1][1] == batch
            assert max(hi - lo for lo, hi in shares) - min(hi - lo for lo, hi in shares) <= 1


def test_more_ranks_than_slices_are_refused() -> None:
    with pytest.raises(ResourceError, match="4 ranks are more than the batch of 3"):
        share(3, 0, 4)
