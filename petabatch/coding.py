"""Sparse coding of images in memory to a certified duality gap: `petabatch.encode`."""

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
"""Bytes of the codes of images that are coded together."""

_RECORDED = ("layers/code/A", "probes/until/gap", "probes/until/steps")


@dataclass(frozen=True)
class Codes:
    """The result of `encode`."""

    activity: np.ndarray
    """float32 `[n, ny / stride, nx / stride, features]`."""
    gap: np.ndarray
    """float64 `[n]`, relative duality gap: each energy is at most this fraction above its minimum."""
    steps: np.ndarray
    """int64 `[n]`: number of steps for each image."""


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

    `images` is `[n, ny, nx, channels]`; integers are scaled to the range from 0 to 1, floats used as given.
    `dictionary` is `[features, rows, columns, channels]`, used as given and applied at every `stride` pixels.
    Codes are non-negative unless `signed`. Each image stops on its own when its relative duality gap is at
    most `gap`, or after `steps` steps, so its code does not depend on the other images. Raises InputError
    when the shapes do not match.
    """
    shown, features = np.asarray(images), np.asarray(dictionary)
    if shown.ndim != 4 or features.ndim != 4 or not len(shown):
        raise InputError(
            f"the shapes of images and dictionary are not supported\n"
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
