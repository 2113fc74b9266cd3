"""Elementary functions: errors, special values, and the same bits for every processor."""

from __future__ import annotations

import math
import os
import re
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest

from petabatch.kernels.cpu.elementary import MATH, logistic
from petabatch.kernels.cpu.target import LEVELS, target

NAMES = ("exp", "expm1", "log", "log1p", "sin", "cos", "tan", "sinh", "cosh", "tanh", "atan")
REFERENCE: dict[str, Callable[..., np.ndarray]] = {
    name: getattr(np, "arctan" if name == "atan" else name) for name in NAMES
}
SPECIAL = [0.0, -0.0, math.inf, -math.inf, math.nan, 1.0, -1.0, 1e-45, -1e-45, 1e-38, 3.4e38, -3.4e38]
SPECIAL64 = [5e-324, -5e-324, 1e-308, 1.7e308, -1.7e308]
PRECISIONS = [np.float32, np.float64]
EXACT = {np.float32: np.float64, np.float64: np.longdouble}
"""What the exact values are computed in."""


def applied(name: str, *arguments: np.ndarray) -> np.ndarray:
    """Return a function of arrays, computed in a compiled loop over them."""
    target()
    function = logistic if name == "logistic" else getattr(MATH, name)
    if len(arguments) == 1:

        @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
        def loop(x: Any, out: Any) -> None:
            for i in range(out.size):
                out[i] = function(x[i])
    else:

        @numba.njit(error_model="numpy")  # type: ignore[untyped-decorator]
        def loop(x: Any, y: Any, out: Any) -> None:
            for i in range(out.size):
                out[i] = function(x[i], y[i])

    out = np.empty_like(arguments[0])
    loop(*arguments, out)
    return out


def units(found: np.ndarray, exact: np.ndarray) -> float:
    """Return the largest error in units in the last place; inf where one alone is no finite number."""
    with np.errstate(over="ignore", invalid="ignore"):
        nearest = exact.astype(found.dtype)
        least = np.maximum(abs(nearest), np.finfo(found.dtype).tiny)
        apart = abs(found.astype(exact.dtype) - exact) / np.spacing(least).astype(float)
    same = (np.isnan(found) & np.isnan(exact)) | (np.isinf(nearest) & (found == nearest))
    return float(np.where(same, 0, np.where(np.isnan(apart), np.inf, apart)).max())


def numbers(real: Any = np.float32) -> np.ndarray:
    """Return numbers of all magnitudes, more of usual ones, and special ones."""
    rng = np.random.default_rng(0)
    if real == np.float64:
        every = rng.integers(0, 2**64, 200_000, dtype=np.uint64).view(np.float64)
        usual = [rng.uniform(-most, most, 100_000) for most in (2, 20, 760, 1e5)]
        return np.concatenate([every[np.isfinite(every)], *usual, SPECIAL, SPECIAL64])
    every = rng.integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32).view(np.float32)
    usual = [rng.uniform(-most, most, 100_000).astype(np.float32) for most in (2, 20, 110)]
    return np.concatenate([every[np.isfinite(every)], *usual, np.array(SPECIAL, np.float32)])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("real", PRECISIONS)
def test_functions_are_within_two_units_in_the_last_place(name: str, real: Any) -> None:
    x = numbers(real)
    if name in ("sin", "cos", "tan"):
        x = x[(abs(x) < 1e15) | ~np.isfinite(x)]
    with np.errstate(all="ignore"):
        exact = REFERENCE[name](x.astype(EXACT[real]))
    assert units(applied(name, x), exact) < (2 if real == np.float32 else 1.6)


def test_the_logistic_function_is_within_two_and_a_half_units_in_the_last_place() -> None:
    x = numbers()
    with np.errstate(all="ignore"):
        exact = 1 / (1 + np.exp(-x.astype(float)))
    found, tiny = applied("logistic", x), x < -88
    assert units(found[~tiny], exact[~tiny]) < 2.5
    assert ((found[tiny] >= 0) & (found[tiny] < 1e-38)).all()
    assert applied("logistic", np.array([-np.inf], np.float32)) == 0


@pytest.mark.parametrize("real", PRECISIONS)
def test_powers_are_within_two_units_in_the_last_place(real: Any) -> None:
    rng, x = np.random.default_rng(1), numbers(real)
    whole = np.round(rng.uniform(-9, 9, x.size))
    special = np.array([*SPECIAL, 2, -2, 0.5, -0.5, 3, 4194303.5, 8388609, -8388609, 16777217])
    if real == np.float64:
        special = np.array([*special, *SPECIAL64, 2.0**53 - 1, 2.0**53 + 2, -(2.0**52) - 1, 2.0**51 + 0.5])
    grid = [values.ravel() for values in np.meshgrid(special, special)]
    for base, power in ((x, rng.permutation(x)), (x, whole), (abs(x), rng.uniform(-3, 3, x.size)), grid):
        a, b = base.astype(real), power.astype(real)
        with np.errstate(all="ignore"):
            exact = np.power(a.astype(EXACT[real]), b.astype(EXACT[real]))
        found = applied("pow", a, b)
        assert units(found, exact) < (2 if real == np.float32 else 1)
        signs = ~np.isnan(exact)
        np.testing.assert_array_equal(np.signbit(found[signs]), np.signbit(exact[signs]))


def test_remainders_are_exact() -> None:
    rng, x = np.random.default_rng(2), numbers()
    special = np.array([*SPECIAL, 0.1, 2.5, 16777215, 1e20])
    grid = [values.ravel() for values in np.meshgrid(special, special)]
    whole = rng.integers(1, 2**24, x.size) * np.float32(0.1)
    for a, b in ((x, rng.permutation(x)), (x, np.full_like(x, 0.1)), (whole, np.full_like(x, 0.1)), grid):
        a, b = a.astype(np.float32), b.astype(np.float32)
        with np.errstate(all="ignore"):
            exact = np.fmod(a, b)
        found = applied("fmod", a, b)
        np.testing.assert_array_equal(found, exact)
        signs = ~np.isnan(exact)
        np.testing.assert_array_equal(np.signbit(found[signs]), np.signbit(exact[signs]))


def test_second_arguments_of_float64_are_not_rounded() -> None:
    x = np.array([-2.0, -2.0, 3.0, 9e6], "f")
    y = np.array([16777217.5, 3.0, 1 / 3, 0.3])
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(applied("pow", x, y), np.power(x.astype(float), y).astype("f"), rtol=1e-6)
    np.testing.assert_array_equal(applied("fmod", x, y), np.fmod(x.astype(float), y).astype("f"))


def test_large_angles_give_no_number() -> None:
    for name, real in product(("sin", "cos", "tan"), PRECISIONS):
        assert np.isnan(applied(name, np.array([1e16, -1e30], real))).all()


_BITS = """
from zlib import crc32
import numpy as np
from kernels.cpu.test_elementary import NAMES, applied, numbers
for real in (np.float32, np.float64):
    x = numbers(real)
    print([crc32(applied(n, x).tobytes()) for n in (*NAMES, "logistic")])
    print([crc32(applied(n, x, x[::-1].copy()).tobytes()) for n in ("pow", "fmod")])
"""


@pytest.mark.long  # compiles for other processors
def test_all_levels_of_processors_have_the_same_bits() -> None:
    mine = target()
    if mine not in LEVELS:
        pytest.skip(f"kernels are compiled for {mine}, none of {', '.join(LEVELS)}")
    levels = list(LEVELS)[list(LEVELS).index(mine) :]
    found = {}
    for level in levels:
        environment = {**os.environ, "NUMBA_CPU_NAME": level, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(
            [sys.executable, "-c", _BITS], env=environment, capture_output=True, text=True, check=True
        )
        found[level] = re.sub(r"\s", "", done.stdout)
    assert len(set(found.values())) == 1, found
