"""Products of matrices by cuBLAS: with a library of columns-first products on the host in its place."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from petabatch.engine.gpu.products import Products
from support.strict_arrays import far


class Module:
    """The array module, and what the products need of CuPy."""

    cuda = SimpleNamespace(get_current_stream=lambda: SimpleNamespace(ptr=7))

    def __getattr__(self, name: str) -> Any:
        return getattr(far, name)


class Library:
    """What of cuBLAS is called, with its conventions: columns first, leading dimensions, strides."""

    def __init__(self, status: int = 0) -> None:
        self.calls, self.computed, self._status = list[str](), set[int](), status
        self.batches: list[int] = []

    def __getattr__(self, name: str) -> Any:
        def call(*_: Any) -> int:
            self.calls.append(name)
            return 0

        return call

    def cublasGemmStridedBatchedEx(
        self, handle: Any, ta: Any, tb: Any, m: Any, n: Any, k: Any, alpha: Any, a: Any, kind: Any, lda: Any,
        jump_a: Any, b: Any, kind_b: Any, ldb: Any, jump_b: Any, beta: Any, c: Any, kind_c: Any, ldc: Any,
        jump_c: Any, batch: Any, compute: Any, algorithm: Any,
    ) -> int:  # fmt: skip
        assert kind.value == kind_b.value == kind_c.value
        self.computed.add(compute.value)
        self.batches.append(batch.value)
        number = np.dtype("f4" if kind.value == 0 else "f8")
        rows, columns, inner = m.value, n.value, k.value
        assert lda.value >= (inner if ta.value else rows)
        assert ldb.value >= (columns if tb.value else inner)
        assert ldc.value >= rows

        def matrix(place: int, down: int, across: int, ld: int, transposed: int) -> np.ndarray:
            stored = (across, down) if transposed else (down, across)
            length = (stored[1] - 1) * ld + stored[0]
            memory = (ctypes.c_char * (length * number.itemsize)).from_address(place)
            flat = np.frombuffer(memory, number)
            found = np.lib.stride_tricks.as_strided(flat, stored, (number.itemsize, ld * number.itemsize))
            return found.T if transposed else found

        for one in range(batch.value):
            at = [
                pointer.value + one * jump.value * number.itemsize
                for pointer, jump in ((a, jump_a), (b, jump_b), (c, jump_c))
            ]
            left = matrix(at[0], rows, inner, lda.value, ta.value)
            right = matrix(at[1], inner, columns, ldb.value, tb.value)
            matrix(at[2], rows, columns, ldc.value, 0)[...] = left @ right
        return self._status


def layouts(draw: st.DrawFn, lead: tuple[int, ...], rows: int, columns: int, dtype: str) -> np.ndarray:
    """Return matrices that are contiguous by rows, by columns, or not at all."""
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    kind = draw(st.sampled_from(["rows", "columns", "wider", "neither"]))
    if kind == "columns":
        return rng.standard_normal((*lead, columns, rows)).astype(dtype).swapaxes(-1, -2)
    if kind == "wider":
        return rng.standard_normal((*lead, rows, columns + 3)).astype(dtype)[..., 1 : columns + 1]
    if kind == "neither":
        return rng.standard_normal((*lead, 2 * rows, 2 * columns)).astype(dtype)[..., ::2, ::2]
    return rng.standard_normal((*lead, rows, columns)).astype(dtype)


@st.composite
def factors(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """Return factors as connections have them: weights of all, of each slice, of each position, of both."""
    size = st.integers(1, 4)
    lanes, groups, m, k, n = (draw(size) for _ in range(5))
    lead = draw(st.sampled_from([(1, 1), (lanes, 1), (1, groups), (lanes, groups), ()]))
    held = draw(st.sampled_from([1, lanes]))  # a layer that all slices have in common
    dtype = draw(st.sampled_from(["f4", "f8"]))
    return (
        layouts(draw, (held, groups if len(lead) and lead[1] > 1 else 1), m, k, dtype),
        layouts(draw, lead, k, n, dtype),
    )


@settings(deadline=None)
@given(both=factors())
def test_products_are_those_of_numpy_for_all_modes_and_layouts(both: tuple[np.ndarray, np.ndarray]) -> None:
    a, b = both
    found = Products(Module(), False, Library()).multiply(
        a.view(type(far.empty(0))), b.view(type(far.empty(0)))
    )
    expected = np.matmul(a, b)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(np.asarray(found), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("rows", "batch"), [(128, 3), (16, 1)])
def test_many_rows_of_a_history_are_not_copied(rows: int, batch: int) -> None:
    rng, library = np.random.default_rng(1), Library()
    history, weights = rng.standard_normal((3, 2, 1, rows, 4)), rng.standard_normal((1, 1, 4, 5))
    activity = far.asarray(history)[:, 1]
    found = Products(Module(), False, library).multiply(activity, far.asarray(weights))
    np.testing.assert_allclose(np.asarray(found), history[:, 1] @ weights, rtol=1e-12)
    assert library.batches == [batch]


def test_a_product_of_nothing_is_zero() -> None:
    products = Products(Module(), False, Library())
    assert products.multiply(far.ones((2, 3, 0)), far.ones((0, 4))).tolist() == np.zeros((2, 3, 4)).tolist()
    assert products.multiply(far.ones((0, 3, 2)), far.ones((2, 4))).shape == (0, 3, 4)


@pytest.mark.parametrize(
    ("tf32", "dtype", "compute"), [(False, "f4", 68), (True, "f4", 77), (True, "f8", 70)]
)
def test_tf32_rounds_factors_of_float32_alone(tf32: bool, dtype: str, compute: int) -> None:
    library = Library()
    Products(Module(), tf32, library).multiply(far.ones((2, 2), dtype), far.ones((2, 2), dtype))
    assert library.computed == {compute}


def test_a_stream_has_one_handle_with_a_workspace_set_after_its_stream() -> None:
    library = Library()
    products = Products(Module(), False, library)
    for _ in range(3):
        products.multiply(far.ones((2, 2), "f4"), far.ones((2, 2), "f4"))
    # Setting a stream would take the workspace back.
    assert library.calls == ["cublasCreate_v2", "cublasSetStream_v2", "cublasSetWorkspace_v2"]
    del products
    assert library.calls[-1] == "cublasDestroy_v2"


def test_a_failure_of_the_library_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="cublasGemmStridedBatchedEx of cuBLAS has failed with status 15"):
        Products(Module(), False, Library(15)).multiply(far.ones((2, 2), "f4"), far.ones((2, 2), "f4"))
