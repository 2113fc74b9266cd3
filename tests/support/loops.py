"""Sparse-coding loops of random geometries: as networks, and what tests of compiled kernels share."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from petabatch import geometry
from petabatch.connections import Conv
from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.transfer import Curve
from petabatch.layers import LCA, Input
from petabatch.network.sparse_coding import sparse_coding
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP
from support.networks import GivenImages, GivenWeights

NUMPY = ArrayKernels(np)
TRANSFERS = [
    Curve.of("soft", 0.3),
    Curve.of("soft", 0.3, signed=True),
    Curve.of("firm", 0.3, 0.0),
    Curve.of("firm", 0.2, 0.1, width=0.4, signed=True),
    Curve.of("firm", 0.2, 0.0, width=0.3, minimum=0.05, maximum=0.6),
    Curve.of("soft", 0.1, maximum=0.25),
]


@dataclass
class Problem:
    """One slice of a sparse-coding loop, from random potentials."""

    p: Patches
    images: np.ndarray
    """`[items, NY, NX, C]`, one for each display."""
    weights: np.ndarray
    """`[groups * nf, K]`, of unit length."""
    curve: Curve
    potentials: np.ndarray
    """`[ny, nx, nf]` at the start."""
    self_interaction: bool = True
    decay: float = 0.9

    def network(self, kernel: str, display: int, record: bool = False, **run: Any) -> Network:
        """Return the network; with `record`, the potentials of all steps are recorded."""
        p, t, shared = self.p, self.curve, self.p.shared
        places = (1, 1) if shared else (p.y.coarse, p.x.coarse)
        code = LCA(
            shape=(p.y.coarse, p.x.coarse, p.features), tau=-1 / math.log(self.decay),
            threshold=t.threshold, transfer="firm", width=t.top - t.threshold, shift=t.shift,
            minimum=t.minimum, maximum=t.maximum, signed=t.signed, self_interact=self.self_interaction,
            start={"V": GivenWeights(data=self.potentials)},
        )  # fmt: skip
        data = GivenWeights(data=self.weights.reshape(*places, p.features, p.y.size, p.x.size, p.channels))
        one = sparse_coding(
            Input(shape=(p.y.fine, p.x.fine, p.channels), source=GivenImages(data=self.images[None])),
            code,
            Conv(
                pre="V1", post="recon", patch=(p.y.size, p.x.size), init=data,
                mode="extra_shared" if shared else "extra_non_shared",
            ),
            run=Run(batch=1, display=display, kernel=kernel, **{"displays": len(self.images), **run}),
            output=Output(layers={"V1": LayerOutput(every=STEP, variables=("V",))} if record else {}),
        )  # fmt: skip
        seen = one.connections["image_to_error"].model_copy(update={"strength": 0.75})
        return one.model_copy(update={"connections": {**one.connections, "image_to_error": seen}})


@st.composite
def geometries(draw: st.DrawFn, most: int = 40, modes: tuple[bool, ...] = (True,)) -> Patches:
    """Draw a coarse layer of up to `most` features on a finer one; `modes`: whether weights are shared."""
    down, across = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    ny, nx = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rows, columns = draw(st.integers(1, min(9, ny * down))), draw(st.integers(1, min(9, nx * across)))
    features, channels = draw(st.integers(1, most)), draw(st.integers(1, 4))
    fine = (ny * down, nx * across, channels)
    return geometry.make_link((ny, nx, features), fine, (rows, columns), draw(st.sampled_from(modes))).patches


def problem(p: Patches, curve: Curve, seed: int = 0, items: int = 1, **keys: Any) -> Problem:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((p.groups * p.features, p.length)).astype("f4")
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    images = rng.standard_normal((items, p.y.fine, p.x.fine, p.channels)).astype("f4")
    potentials = rng.standard_normal((p.y.coarse, p.x.coarse, p.features)).astype("f4")
    return Problem(p, images, weights, curve, potentials, **keys)


def plain(
    ny: int, nx: int, features: int, patch: int, stride: int, channels: int, shared: bool = True
) -> Patches:
    fine = (ny * stride, nx * stride, channels)
    return geometry.make_link((ny, nx, features), fine, (patch, patch), shared).patches


many_tiles = plain(40, 60, 20, 6, 2, 1)
many_tiles_non_shared = plain(40, 60, 20, 6, 2, 1, shared=False)


class Guards:
    """Arrays, each with bytes around it that nothing may write to."""

    AROUND = 512

    def __init__(self, byte: int) -> None:
        self.byte = byte
        self.buffers: list[np.ndarray] = []

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Return a guarded copy; with 255 as the byte, floats around it are NaN."""
        inside = self.empty(array.shape, array.dtype)
        inside[...] = array
        return inside

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Return a guarded array that is not initialised."""
        size = math.prod(shape) * dtype.itemsize
        buffer = np.full(size + 2 * self.AROUND, self.byte, np.uint8)
        self.buffers.append(buffer)
        return buffer[self.AROUND : self.AROUND + size].view(dtype).reshape(shape)

    def untouched(self) -> bool:
        """Return whether nothing was written around the arrays."""
        ends = ((buffer[: self.AROUND], buffer[-self.AROUND :]) for buffer in self.buffers)
        return all((end == self.byte).all() for pair in ends for end in pair)


def assert_same_bits(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Compare arrays one by one, so that a NaN is equal to itself and 0 is not -0."""
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.tobytes() == theirs.tobytes()
