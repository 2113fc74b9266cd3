"""The exact solution of a linear system x' = A x + b over a step: x(dt) = P x(0) + Q b.

P = exp(A dt) and Q is the integral of exp(A s) from 0 to dt, both parts of one matrix exponential (Van Loan
1978, "Computing integrals involving the matrix exponential"). It is computed by scaling and squaring of
the Taylor series (Moler and Van Loan 2003, "Nineteen dubious ways", method 3), where no eigenvalues are
divided by each other, so that equal time constants are nothing special.
"""

from __future__ import annotations

import numpy as np

_TERMS = 20
"""Of the series, with a norm of at most 1/2: the next one is below 1e-25."""


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


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Return a matrix product with the same bits on every processor, as libraries' have not."""
    return sum((a[:, n, None] * b[n] for n in range(len(b))), np.zeros_like(a))
