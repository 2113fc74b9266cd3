"""Sparse codes of images in memory, each to a certified distance from its optimum: `petabatch.encode`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petabatch import in_memory
from petabatch.connections import Conv
from petabatch.errors import InputError
from petabatch.layers import FISTA, Input
from petabatch.network.sparse_coding import sparse_coding
from petabatch.probes import Optimality
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run, Until
from petabatch.spec.parts import DISPLAY, NEVER
from petabatch.weights import Unchanged, WeightArray

_BYTES = 2**27
"""Images are coded together as long as their codes take less memory than this."""

_RECORDED = ("layers/code/A", "probes/until/gap", "probes/until/steps")


@dataclass(frozen=True)
class Codes:
    """What `encode` found."""

    activity: np.ndarray
    """float32 `[n, ny / stride, nx / stride, features]`."""
    gap: np.ndarray
    """float64 `[n]`: each energy is at most this fraction above its minimum."""
    steps: np.ndarray
    """int64 `[n]`: steps made for each image."""


def encode(
    images: np.ndarray,
    dictionary: np.ndarray,
    threshold: float,
    *,
    stride: int = 1,
    gap: float = 1e-2,
    steps: int = 1000,
    signed: bool = False,
    threads: int | None = None,
) -> Codes:
    """Return the codes A of images I that minimise 0.5 |I - dictionary A|^2 + threshold |A|_1, by FISTA.

    `images` are `[n, ny, nx, channels]`, taken as they are if in floating point, else from 0 to 1;
    `dictionary` `[features, rows, columns, channels]`, one feature at each `stride` pixels, taken as it is.
    Codes are not negative unless `signed`. Each image ends by itself when its relative duality gap is at most
    `gap`, or after `steps` steps: its code depends on no other image. Raises InputError where shapes do
    not fit.
    """
    shown, features = np.asarray(images), np.asarray(dictionary)
    if shown.ndim != 4 or features.ndim != 4 or not len(shown):
        raise InputError(
            f"these are not images and a dictionary\n"
            f"    found:    {list(shown.shape)}, {list(features.shape)}\n"
            f"    expected: [n, ny, nx, channels], [features, rows, columns, channels]"
        )
    if shown.shape[1] % stride or shown.shape[2] % stride:
        raise InputError(
            f"the stride does not divide the images\n    found:    {stride}\n"
            f"    expected: a divisor of {shown.shape[1]} rows and {shown.shape[2]} columns"
        )
    units = (shown.shape[1] // stride, shown.shape[2] // stride, len(features))
    most = max(1, _BYTES // (4 * int(np.prod(units))))
    run = Run(display=steps, displays=1, until=Until(gap=gap), threads=threads)
    found = []
    for first in range(0, len(shown), most):
        part = shown[first : first + most]
        size = run.model_copy(update={"batch": len(part)})
        done = in_memory.run(_network(size, part, features, units, threshold, signed))
        found.append([done.recorded[path][0] for path in _RECORDED])
    activity, reached, made = (np.concatenate(column) for column in zip(*found, strict=True))
    return Codes(activity, reached, made.astype(np.int64))


def _network(
    run: Run,
    images: np.ndarray,
    dictionary: np.ndarray,
    units: tuple[int, int, int],
    threshold: float,
    signed: bool,
) -> Network:
    """Return image -> error -> code -> recon -> error, one image for each slice."""
    _, ny, nx, channels = images.shape
    return sparse_coding(
        Input(shape=(ny, nx, channels), source=ImageArray(data=images, crop="top_left"), every=NEVER),
        FISTA(shape=units, threshold=threshold, signed=signed),
        Conv(
            pre="code",
            post="recon",
            patch=dictionary.shape[1:3],
            init=WeightArray(data=dictionary),
            normalize=Unchanged(),
        ),
        run=run,
        probes={
            "optimality": Optimality(
                image="image",
                reconstruction="recon",
                code="code",
                drive="drive",
                coefficient=threshold,
                signed=signed,
                every=NEVER,
            )
        },
        output=Output(layers={"code": LayerOutput(every=DISPLAY)}),
    )
