"""The exact sum: the same bits for any split and order, a bounded error, no overflow, NaN found."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petabatch.errors import NonFiniteError
from petabatch.kernels.cpu import exact_sum as integers
from petabatch.parallel.comm import Pending, Serial, shares
from petabatch.parallel.reduce import ExactSum
from support.weight_changes import changes, exact_sum


class Operation:
    """One collective operation of a group in one process: done when every rank has given its array."""

    def __init__(self, size: int, operation: np.ufunc) -> None:
        self.size, self.operation = size, operation
        self.arrays: list[np.ndarray] = []

    def join(self, array: np.ndarray) -> None:
        self.arrays.append(array)
        if self.test():
            result = self.operation.reduce([a.copy() for a in self.arrays])
            for one in self.arrays:
                one[...] = result

    def test(self) -> bool:
        return len(self.arrays) == self.size

    def wait(self) -> None:
        assert self.test(), "a rank waits for ever"


class Ranks(Serial):
    """One of several ranks that take turns in one process; `tape` is what the group has begun so far."""

    def __init__(self, size: int, tape: list[Operation]) -> None:
        super().__init__()
        self.size, self.tape, self.begun = size, tape, 0

    def _join(self, array: np.ndarray, operation: np.ufunc) -> Pending:
        if self.begun == len(self.tape):
            self.tape.append(Operation(self.size, operation))
        self.begun += 1
        here = self.tape[self.begun - 1]
        assert here.operation is operation, "ranks call different operations"
        here.join(array)
        return here

    def start_sum(self, array: np.ndarray) -> Pending:
        return self._join(array, np.add)

    def start_max(self, array: np.ndarray) -> Pending:
        return self._join(array, np.maximum)


def on_ranks(parts: dict[str, np.ndarray], size: int, order: list[int] | None = None) -> list[ExactSum]:
    """Return the finished or refused sums of all ranks of a group, which begin in the given order."""
    tape: list[Operation] = []
    slices = len(next(iter(parts.values())))
    shares_of = shares(slices, size)
    sums = {}
    for rank in order or range(size):
        lo, hi = shares_of[rank]
        mine = {name: values[lo:hi] for name, values in parts.items()}
        sums[rank] = ExactSum(mine, Ranks(size, tape), slices, lo)
    for rank in order or range(size):
        sums[rank].test()
    return [sums[rank] for rank in range(size)]


def bits(array: np.ndarray) -> bytes:
    return array.tobytes()


@settings(max_examples=150, deadline=None)
@given(
    slices=st.integers(1, 40),
    seed=st.integers(0, 2**32 - 1),
    spread=st.floats(0, 60),
    dtype=st.sampled_from(["f4", "f8"]),
    data=st.data(),
)
def test_any_number_of_ranks_and_any_order_gives_the_same_bits(
    slices: int, seed: int, spread: float, dtype: str, data: st.DataObject
) -> None:
    parts = {
        "connection d": changes(slices, seed, spread, dtype),
        "connection e": changes(slices, seed + 1, spread, dtype, features=5),
    }
    size = data.draw(st.integers(1, min(slices, 7)))
    ranks = data.draw(st.permutations(range(size)))
    order = np.array(data.draw(st.permutations(range(slices))))
    found = [one.wait() for one in on_ranks({n: v[order] for n, v in parts.items()}, size, list(ranks))]
    for name, values in parts.items():
        alone = exact_sum(values)
        assert alone.shape == (1, *values.shape[1:])
        assert alone.dtype == values.dtype
        assert all(bits(one[name]) == bits(alone) for one in found)


@settings(max_examples=150, deadline=None)
@given(
    slices=st.integers(1, 70),
    seed=st.integers(0, 2**32 - 1),
    spread=st.floats(0, 40),
    scale=st.integers(-900, 900),
)
def test_error_stays_below_the_bound(slices: int, seed: int, spread: float, scale: int) -> None:
    values = np.ldexp(changes(slices, seed, spread, "f8"), scale)
    found = exact_sum(values)[0]
    bound = 2 * (slices - 1).bit_length() - 63
    for feature in range(values.shape[3]):
        ours, theirs = found[:, :, feature].ravel(), values[:, :, :, feature].reshape(slices, -1)
        largest = Fraction(np.abs(theirs).max())
        for i, one in enumerate(ours):
            exact = sum(Fraction(x) for x in theirs[:, i])
            # and one rounding of the sum to float64
            assert abs(Fraction(one) - exact) <= largest * Fraction(2) ** bound + abs(exact) / 2**53


def test_float32_sums_of_a_few_slices_are_correctly_rounded() -> None:
    values = changes(16, 3, 10)
    found = exact_sum(values).ravel()
    exact = [math.fsum(column) for column in values.reshape(16, -1).astype("f8").T]
    np.testing.assert_array_equal(found, np.array(exact).astype("f4"))


@pytest.mark.parametrize("slices", [1, 2, 3, 1023, 1024, 1025, 2048, 8192])
@pytest.mark.parametrize("value", [1.0, 1 - 2**-24, 1 - 2**-53, 2**-149, 5e-324, 2.0**1000 * (1 - 2**-53)])
@pytest.mark.parametrize("sign", [1, -1])
def test_equal_extreme_values_do_not_overflow(slices: int, value: float, sign: int) -> None:
    values = np.full((slices, 1, 1, 1, 1, 1, 1), sign * value)
    found = exact_sum(values).item()
    exact = slices * Fraction(sign * value)
    bound = Fraction(2) ** (2 * (slices - 1).bit_length() - 63) * Fraction(value)
    absolute = slices * Fraction(2) ** -1024 if value < 2**-900 else 0
    assert abs(Fraction(found) - exact) <= bound + abs(exact) / 2**53 + absolute


@settings(max_examples=100, deadline=None)
@given(
    shape=st.tuples(st.integers(1, 20), st.integers(1, 6), st.integers(1, 40)),
    seed=st.integers(0, 2**32 - 1),
    dtype=st.sampled_from(["f4", "f8"]),
    bits=st.integers(40, 62),
    bad=st.sampled_from([None, np.nan, -np.nan, np.inf, -np.inf]),
)
def test_compiled_passes_give_the_bits_of_the_plain_ones(
    shape: tuple[int, int, int], seed: int, dtype: str, bits: int, bad: float | None
) -> None:
    rng = np.random.default_rng(seed)
    values = (rng.uniform(-1, 1, shape) * np.exp2(-rng.integers(0, 60, shape))).astype(dtype)
    values[rng.random(shape) < 0.1] = rng.choice([0.0, -0.0, 1.0, -1.0])  # 1 is clipped
    scale = np.full((shape[1], 1), 2.0**bits)
    totals = np.zeros((2, *shape[1:]), np.int64)
    integers.add_integers(values, scale, bits, totals[0])
    integers.plain_add_integers(values, scale, bits, totals[1])
    if bits < 62 - 5:  # beyond, so many slices may overflow
        exact = [sum(_kept(float(x), bits) for x in column) for column in values.reshape(shape[0], -1).T]
        np.testing.assert_array_equal(totals[0].ravel(), exact)
    np.testing.assert_array_equal(*totals)
    if bad is not None:
        values[rng.integers(shape[0]), rng.integers(shape[1]), rng.integers(shape[2])] = bad
    sizes = [integers.largest(values), integers.plain_largest(values)]
    np.testing.assert_array_equal(*(np.where(np.isfinite(size), size, np.nan) for size in sizes))


def _kept(x: float, bits: int) -> int:
    """Return round(x 2^bits), ties to even, of no more than 2^bits - 1 where that is a float64."""
    q = round(Fraction(x) * 2**bits)
    return max(1 - 2**bits, min(q, 2**bits - 1)) if bits < 53 else q


def test_rounding_is_to_nearest() -> None:
    # 1 - 1 leaves sixty-two changes of 0.75 units of the fixed point, near the worst case of the bound
    values = np.array([1, -1, *[0.75 * 2.0**-56] * 62]).reshape(64, 1, 1, 1, 1, 1, 1)
    found = exact_sum(values).item()
    assert found == 62 * 2.0**-56
    assert abs(found - math.fsum(values.flat)) <= 2.0 ** (2 * 6 - 63)


def test_a_slice_of_zeros_takes_no_bits_from_small_changes() -> None:
    values = np.zeros((2, 1, 1, 1, 1, 2, 1), np.float64)
    values[1].flat = [1e-30, 1e-30 / 3]
    np.testing.assert_array_equal(exact_sum(values)[0], values[1])


def test_zeros_sum_to_zero() -> None:
    assert not exact_sum(np.zeros((3, 1, 1, 2, 2, 2, 1), np.float32)).any()


def test_whole_numbers_are_summed_exactly() -> None:
    counts = np.random.default_rng(0).integers(0, 5000, (100, 1, 1, 2, 2, 2, 1)).astype(np.float32)
    np.testing.assert_array_equal(exact_sum(counts)[0], counts.sum(axis=0))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_not_finite_is_named_by_slice_and_connection_on_all_ranks(bad: float) -> None:
    parts = {"connection d": changes(9, 0, 1), "connection e": changes(9, 1, 1)}
    parts["connection e"][7, 0, 0, 1, 0, 1, 0] = bad
    parts["connection e"][8, 0, 0, 0, 0, 1, 0] = bad
    for one in on_ranks(parts, 3):
        with pytest.raises(NonFiniteError, match="connection e: not finite in slice 7"):
            one.wait()


def test_a_sum_too_large_for_the_precision_is_an_error() -> None:
    values = np.full((2, 1, 1, 1, 1, 1, 1), 3e38, np.float32)
    with pytest.raises(NonFiniteError, match=r"connection d: .* too large for float32"):
        exact_sum(values)


def test_a_pending_sum_is_done_only_when_all_ranks_take_part() -> None:
    tape: list[Operation] = []
    values = changes(4, 0, 1)
    first = ExactSum({"d": values[:2]}, Ranks(2, tape), 4, 0)
    assert not first.test()
    second = ExactSum({"d": values[2:]}, Ranks(2, tape), 4, 2)
    assert not second.test()  # the scale is known, the first rank has not yet given its integers
    assert first.test()
    assert second.test()
    assert bits(first.wait()["d"]) == bits(second.wait()["d"])
