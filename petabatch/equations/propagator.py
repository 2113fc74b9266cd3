"""The exact solution of a linear system x' = A x + b + G xi over a step: x(dt) = P x(0) + Q b + noise.

P = exp(A dt) and Q is the integral of exp(A s) from 0 to dt, both parts of one matrix exponential (Van Loan
1978, "Computing integrals involving the matrix exponential"). It is computed by scaling and squaring of
the Taylor series (Moler and Van Loan 2003, "Nineteen dubious ways", method 3), where no eigenvalues are
divided by each other, so that equal time constants are nothing special.

Of white noise xi the noise is normal, and its covariance the integral of exp(A s) G G' exp(A' s) from 0 to
dt: a Taylor series over a short part of the step, which is doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

import numpy as np

Given = np.ndarray | float
Result = TypeVar("Result", np.ndarray, tuple[np.ndarray, np.ndarray])
_KEPT = 256
"""Results that are kept, of a few kB each. Most points of a sweep have the matrix of others, and units that
are never refractory that of those that are: without this it was 40 % of a sweep of 10,000 small points."""
_TERMS = 20
"""Of the series, with a norm of at most 1/2: the next one is below 1e-25."""
_DETERMINED = 1e-12
"""Share of a variance below which what is left of it, given the other variables, is rounding."""


def _kept(function: Callable[..., Result]) -> Callable[..., Result]:
    """Return a function of matrices and numbers that keeps its last results, which are not to be changed."""

    @lru_cache(_KEPT)
    def of(*given: tuple[bytes, tuple[int, ...]]) -> Result:
        matrices = [np.frombuffer(values).reshape(shape) for values, shape in given]
        found = function(*(one if one.shape else float(one) for one in matrices))
        for one in found if isinstance(found, tuple) else (found,):
            one.flags.writeable = False
        return found

    @wraps(function)
    def called(*given: Given) -> Result:
        return of(*((np.asarray(one, float).tobytes(), np.shape(one)) for one in given))

    return called


@_kept
def propagator(A: np.ndarray, dt: float) -> tuple[np.ndarray, np.ndarray]:
    """Return P and Q `[variables, variables]` of a step, float64."""
    n = len(A)
    if not np.isfinite(A).all():
        return np.full((n, n), np.nan), np.full((n, n), np.nan)
    whole = np.zeros((2 * n, 2 * n))
    whole[:n, :n], whole[:n, n:] = A * dt, np.eye(n) * dt
    norm = np.abs(whole).sum(axis=1).max()
    halvings = max(0, int(np.ceil(np.log2(max(norm, 1e-300)))) + 1)
    if halvings > 1000:
        return np.full((n, n), np.nan), np.full((n, n), np.nan)
    scaled = np.ldexp(whole, -halvings)
    found = term = np.eye(2 * n)
    for number in range(1, _TERMS + 1):
        term = _product(term, scaled) / number
        found = found + term
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(halvings):
            found = _product(found, found)
    return found[:n, :n], found[:n, n:]


@_kept
def covariance(A: np.ndarray, G: np.ndarray, dt: float) -> np.ndarray:
    """Return the covariance of the noise of a step `[variables, variables]`, float64.

    G is `[variables, noises]`, of independent white noises of unit intensity.
    """
    if not (np.isfinite(A).all() and np.isfinite(G).all()):
        return np.full_like(A, np.nan)
    norm = np.abs(A).sum(axis=1).max() * dt
    halvings = min(1000, max(0, int(np.ceil(np.log2(max(norm, 1e-300)))) + 2))
    short = np.ldexp(dt, -halvings)
    term = short * _product(G, G.T)
    found: np.ndarray = term
    for number in range(2, _TERMS + 2):
        product = _product(A, term)
        term = short / number * (product + product.T)
        found = found + term
    P, _ = propagator(A, float(short))
    with np.errstate(over="ignore", invalid="ignore"):
        for _ in range(halvings):
            found = found + _product(_product(P, found), P.T)
            P = _product(P, P)
    return found


def factor(covariance: np.ndarray) -> np.ndarray:
    """Return L, below its diagonal and on it, where L L' is a covariance; columns may be 0 (Cholesky)."""
    found = np.zeros_like(covariance)
    for row, whole in enumerate(covariance):
        for column in range(row + 1):
            left = whole[column] - sum(found[row, n] * found[column, n] for n in range(column))
            if column < row:
                found[row, column] = left / found[column, column] if found[column, column] else 0.0
            elif not left <= _DETERMINED * whole[row]:
                found[row, row] = np.sqrt(left)
    return found


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a matrix product with the same bits on every processor, as libraries' have not."""
    return sum((a[:, n, None] * b[n] for n in range(len(b))), np.zeros((len(a), b.shape[1])))
