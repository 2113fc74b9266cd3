"""Correlations of images with all atoms, compiled: the same bits for an image at any place of any block."""

from __future__ import annotations

from typing import Any

from petabatch.kernels.cpu.jit import FAST, njit

ABREAST = 4
"""Images that are read together, and pixels; blocks of images and rows of pixels are padded to multiples."""


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def drive(images: Any, columns: Any, out: Any) -> None:
    """Write images `[n, pixels]` times `columns` `[pixels, atoms]` to `out` `[n, atoms]`.

    Sums are over pixels in order. `n` and `pixels` are multiples of `ABREAST`.
    """
    for i in range(0, images.shape[0], ABREAST):
        x0, x1, x2, x3 = images[i], images[i + 1], images[i + 2], images[i + 3]
        o0, o1, o2, o3 = out[i], out[i + 1], out[i + 2], out[i + 3]
        for j in range(out.shape[1]):
            o0[j] = o1[j] = o2[j] = o3[j] = 0
        for k in range(0, images.shape[1], ABREAST):
            d0, d1, d2, d3 = columns[k], columns[k + 1], columns[k + 2], columns[k + 3]
            x00, x01, x02, x03 = x0[k], x0[k + 1], x0[k + 2], x0[k + 3]
            x10, x11, x12, x13 = x1[k], x1[k + 1], x1[k + 2], x1[k + 3]
            x20, x21, x22, x23 = x2[k], x2[k + 1], x2[k + 2], x2[k + 3]
            x30, x31, x32, x33 = x3[k], x3[k + 1], x3[k + 2], x3[k + 3]
            for j in range(out.shape[1]):
                o0[j] = (((o0[j] + x00 * d0[j]) + x01 * d1[j]) + x02 * d2[j]) + x03 * d3[j]
                o1[j] = (((o1[j] + x10 * d0[j]) + x11 * d1[j]) + x12 * d2[j]) + x13 * d3[j]
                o2[j] = (((o2[j] + x20 * d0[j]) + x21 * d1[j]) + x22 * d2[j]) + x23 * d3[j]
                o3[j] = (((o3[j] + x30 * d0[j]) + x31 * d1[j]) + x32 * d2[j]) + x33 * d3[j]
