"""The sparse-coding loop on random geometries: what the tests of its kernels share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from petabatch import geometry
from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.cpu.certificate import NO_LOOKS
from petabatch.kernels.cpu.controllers import StepControl
from petabatch.kernels.cpu.layout import Dictionary, Images, Model, Scratch, StepSums, packed, scratch, shape
from petabatch.kernels.cpu.step import advance
from petabatch.kernels.rules import (
    ACCELERATED,
    GRADIENT,
    HEAVY_BALL,
    LEAKY,
    MOMENTUM,
    Cell,
    Units,
    cell,
)  # fmt: skip
from petabatch.kernels.timescale import KNEE, Growth
from petabatch.layers.transfer import Transfer

NUMPY = ArrayKernels(np)
RULES = [LEAKY, HEAVY_BALL, MOMENTUM, GRADIENT, ACCELERATED]
TRANSFERS = [
    Transfer(0.3, 0.3),
    Transfer(0.3, 0.3, signed=True),
    Transfer(0.3, 0.0),
    Transfer(0.2, 0.1, width=0.4, signed=True),
    Transfer(0.2, 0.0, width=0.3, minimum=0.05, maximum=0.6),
    Transfer(0.1, 0.1, maximum=0.25),
]


@dataclass
class Problem:
    """A slice in the middle of a run."""

    p: Patches
    image: np.ndarray
    weights: np.ndarray
    curve: Transfer
    self_interaction: bool = True
    factor: float = 0.75
    decay: float = 0.9
    rule: int = LEAKY
    adaptive: bool = False

    def start(self) -> list[np.ndarray]:
        """Return recon, error, A, V, V before and the step control, in the middle of a run."""
        rng = np.random.default_rng(7)
        p = self.p
        fine, units = (p.y.fine, p.x.fine * p.channels), p.positions * p.features
        V = rng.standard_normal(units).astype("f4")
        A = np.zeros_like(V)
        self.curve(V, A, np)
        before = np.zeros_like(V) if self.rule == LEAKY else 0.1 * V
        image = rng.standard_normal(fine).astype("f4")
        return [image, np.zeros(fine, "f4"), A, V, before, np.array([0.05, 1.5, 90.0])]

    def cell(self) -> Cell:
        t = self.curve
        return cell(
            self.rule, self.self_interaction, 0.7, t.threshold, t.shift, t.width, t.minimum, t.maximum,
            t.signed,
        )  # fmt: skip

    def control(self, now: np.ndarray) -> StepControl:
        growth, e = Growth(KNEE, 0.05, 0.06, 0.03, 0.025, 3.4, 0.01), np.float32(self.decay)
        weights = (0.5, self.curve.threshold, 0.0)
        return StepControl(e, 1 - e, self.adaptive, 1.0, 10.0, weights, growth, now[:1], now[1:2], now[2:])

    def arguments(self, state: list[np.ndarray], packed: Dictionary) -> tuple[Any, ...]:
        """Return what `advance` and `advance_rows` begin with."""
        recon, error, *units, now = state
        images = Images(self.image, np.float32(self.factor), recon, error)
        return images, Units(*units), Model(packed, self.cell(), shape(self.p)), self.control(now)

    def scratch(self) -> Scratch:
        return scratch(self.p, self.rule == ACCELERATED)

    def packed(self) -> Dictionary:
        return packed(self.weights, self.p)

    def compiled(self, parts: list[int], observe: bool = False) -> tuple[list[np.ndarray], np.ndarray]:
        state, work = self.start(), self.scratch()
        arguments, found = self.arguments(state, self.packed()), []
        new_image = True
        for n in parts:
            found.append(np.zeros((n, 3)))
            advance(*arguments, new_image, work, StepSums(np.full(n, observe), found[-1]), NO_LOOKS)
            new_image = new_image and n == 0
        return state, np.concatenate(found)

    def reference(self, steps: int) -> tuple[list[np.ndarray], np.ndarray, np.ndarray]:
        """Return the state in float64, three sums of each step, and where rounding may decide a threshold."""
        p, e = self.p, float(np.float32(self.decay))
        fine, coarse = (1, p.y.fine, p.x.fine, p.channels), (1, p.y.coarse, p.x.coarse, p.features)
        recon, error, A, V = (x.astype("f8") for x in self.start()[:4])
        recon, V, A = recon.reshape(fine), V.reshape(coarse), A.reshape(coarse)
        W = self.weights.astype("f8").reshape(1, p.groups, p.features, p.length)
        image, sums, close = self.image.astype("f8").reshape(fine), [], np.zeros(coarse, bool)
        for _ in range(steps):
            error = self.factor * image - recon
            drive = NUMPY.project(error, W, p) + (A if self.self_interaction else 0)
            V = e * V + (1 - e) * drive
            self.curve(V, A, np)
            recon = NUMPY.synthesize(A, W, p)
            close |= abs(abs(V) - self.curve.threshold) < 1e-5
            sums.append([(error**2).sum(), abs(A).sum(), np.count_nonzero(A)])
        return [recon, error, A, V], np.array(sums), close


@st.composite
def geometries(draw: st.DrawFn, most: int = 40, modes: tuple[bool, ...] = (True,)) -> Patches:
    """Draw a coarse layer of up to `most` features on a finer one; `modes`: whether weights are shared."""
    down, across = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    ny, nx = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    rows, columns = draw(st.integers(1, min(9, ny * down))), draw(st.integers(1, min(9, nx * across)))
    features, channels = draw(st.integers(1, most)), draw(st.integers(1, 4))
    fine = (ny * down, nx * across, channels)
    return geometry.make_link((ny, nx, features), fine, (rows, columns), draw(st.sampled_from(modes))).patches


def problem(p: Patches, curve: Transfer, self_interaction: bool = True, seed: int = 0) -> Problem:
    rng = np.random.default_rng(seed)
    weights = rng.standard_normal((p.groups * p.features, p.length)).astype("f4")
    weights /= np.linalg.norm(weights, axis=1, keepdims=True)
    image = rng.standard_normal((p.y.fine, p.x.fine * p.channels)).astype("f4")
    return Problem(p, image, weights, curve, self_interaction)


def plain(
    ny: int, nx: int, features: int, patch: int, stride: int, channels: int, shared: bool = True
) -> Patches:
    fine = (ny * stride, nx * stride, channels)
    return geometry.make_link((ny, nx, features), fine, (patch, patch), shared).patches


many_tiles = plain(40, 60, 20, 6, 2, 1)
many_tiles_non_shared = plain(40, 60, 20, 6, 2, 1, shared=False)
many_chunks = plain(14, 60, 5, 12, 1, 1)


class Guards:
    """Copies of arrays, each with bytes around it that nothing may write to."""

    AROUND = 512

    def __init__(self, byte: int) -> None:
        self.byte = byte
        self.buffers: list[np.ndarray] = []

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """Return a guarded copy; with 255 as the byte, floats around it are NaN."""
        buffer = np.full(array.nbytes + 2 * self.AROUND, self.byte, np.uint8)
        self.buffers.append(buffer)
        inside = buffer[self.AROUND : -self.AROUND].view(array.dtype).reshape(array.shape)
        inside[...] = array
        return inside

    def all_of(self, parts: Any) -> Any:
        """Return a named tuple of arrays, or of such tuples, with guarded copies in their place."""
        return type(parts)(*(self(p) if isinstance(p, np.ndarray) else self.all_of(p) for p in parts))

    def untouched(self) -> bool:
        """Return whether nothing was written around the arrays."""
        ends = ((buffer[: self.AROUND], buffer[-self.AROUND :]) for buffer in self.buffers)
        return all((end == self.byte).all() for pair in ends for end in pair)


def assert_same_bits(found: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> None:
    """Compare arrays one by one, so that a NaN is equal to itself and 0 is not -0."""
    for mine, theirs in zip(found, expected, strict=True):
        assert mine.tobytes() == theirs.tobytes()
