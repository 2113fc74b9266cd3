"""Functions of numbers that are not finite, and of zeros, in kernels of updates: as on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from typing import Any

import numba
import numpy as np
import pytest

from petabatch.kernels.cuda.units.kernel import UnitKernel
from petabatch.kernels.cuda.units.rows import row_body
from petabatch.kernels.cuda.units.source import Body, Term
from petabatch.kernels.cuda.units.traced import traced
from petabatch.kernels.rows import Form
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
NUMBERS = (np.nan, -np.inf, -0.7, -0.0, 0.0, 0.1, 0.5, 2.0, 9e6, np.inf)
PAIRS = np.array(list(product(NUMBERS, repeat=2)), "f").T
A_AND_B = [row.reshape(1, 1, 1, -1) for row in PAIRS]
"""Two inputs of one slice: each pair of these numbers."""


def on_device(body: Body, constants: Any) -> np.ndarray:
    """Return the activity that a body makes of both inputs."""
    device = EmulatedGpu()
    device.enter()
    xp = device.xp
    table = xp.asarray(np.array([constants], "f").reshape(1, -1))
    kernel = UnitKernel(device, body, [Term(0, False), Term(1, False)], 2, table, np.empty((1, 0)))
    found = xp.zeros(A_AND_B[0].shape, "f")
    kernel([xp.asarray(one) for one in A_AND_B], [], found, found, 1)
    return np.asarray(found)


ON_ARRAYS: dict[str, Callable[..., Any]] = {
    "minimum": lambda xp, a, b: xp.minimum(a, b),
    "maximum": lambda xp, a, b: xp.maximum(a, b),
    "clip": lambda xp, a, b: xp.clip(a, 0, 1),
    "clip by arrays": lambda xp, a, b: xp.clip(a, b, 1),
    "sign": lambda xp, a, b: xp.sign(a),
    "abs": lambda xp, a, b: abs(a),
    "where": lambda xp, a, b: xp.where(a < b, a, b),
    "where of numbers": lambda xp, a, b: xp.where(a, b, 3),
}


def signs(found: np.ndarray) -> np.ndarray:
    """Return where a number, or a zero, is negative; NaN is not."""
    return np.signbit(found) & ~np.isnan(found)


@pytest.mark.parametrize("name", ["sign", "abs"])
def test_zeros_of_arrays_have_the_sign_of_those_of_numpy(name: str) -> None:
    def update(xp: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        activity[...] = getattr(xp, name)(drive[0])

    expected = np.zeros_like(A_AND_B[0])
    update(np, {}, A_AND_B, expected, expected)
    found = on_device(*traced(update, [], 2, True, "float"))
    np.testing.assert_array_equal(signs(found), signs(expected))


def magnitude(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = abs(drive[0][i])


def test_magnitudes_of_rows_are_not_negative() -> None:
    found = on_device(row_body(magnitude, Form((), (), 2, ()), "float"), [])
    assert not signs(found).any()


@pytest.mark.parametrize("made", ON_ARRAYS.values(), ids=ON_ARRAYS)
def test_functions_of_arrays_keep_what_is_no_number_as_numpy_does(made: Callable[..., Any]) -> None:
    def update(xp: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        activity[...] = made(xp, *drive)

    expected = np.zeros_like(A_AND_B[0])
    update(np, {}, A_AND_B, expected, expected)
    np.testing.assert_array_equal(on_device(*traced(update, [], 2, True, "float")), expected)


def smaller(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = min(drive[0][i], drive[1][i])


def larger(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = max(drive[0][i], drive[1][i])


def between(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = min(max(drive[0][i], 0.0, drive[1][i]), 1)


def minimum(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = np.minimum(drive[0][i], drive[1][i])


def maximum(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = np.maximum(drive[0][i], drive[1][i])


def sign(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = np.sign(drive[0][i])


def remainder(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = drive[0][i] % drive[1][i]


def quotient(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(len(A)):
        A[i] = drive[0][i] // drive[1][i]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("row", [smaller, larger, between, minimum, maximum, sign, remainder, quotient])
def test_functions_of_rows_keep_what_is_no_number_as_compiled_rows_do(row: Callable[..., None]) -> None:
    expected = np.zeros_like(PAIRS[0])
    numba.njit(error_model="numpy")(row)(0, 0, tuple(PAIRS), 0, expected)
    found = on_device(row_body(row, Form((), (), 2, ()), "float"), [])
    np.testing.assert_array_equal(found.reshape(-1), expected)
