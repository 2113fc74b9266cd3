"""Decorrelation of features."""

from __future__ import annotations

from collections.abc import Callable

from petabatch.variable import Array


def decorrelate(weights: Array, rate: float, multiply: Callable[[Array, Array], Array]) -> None:
    """W_i -= rate * sum over j != i of (W_i . W_j) W_j, in place: descent on (W_i . W_j)^2 / 2.

    W_i is the whole patch of feature i; shifted copies of patches are not compared. The rule is W -= rate (G
    - 1) W, with G the Gram matrix, without its diagonal, which is left to the normaliser. `weights` is
    `[lanes or 1, ky, kx, nf_pre, nyp, nxp, nf_post]`; the features of each kernel are decorrelated
    independently. `multiply` returns the product of matrices.
    """
    units = weights.reshape(*weights.shape[:4], -1)
    others, same = multiply(units, units.swapaxes(-1, -2)), range(units.shape[-2])
    others[..., same, same] = 0
    weights -= (rate * multiply(others, units)).reshape(weights.shape)
