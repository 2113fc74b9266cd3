"""The solvers of codes: of images of one position by homotopy, of others by FISTA in a network."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Self

import numpy as np

from petabatch.coding.codes import Codes
from petabatch.connections import Conv
from petabatch.engine.warm_up import WarmUp
from petabatch.geometry import make_link
from petabatch.kernels.array import ArrayKernels
from petabatch.lasso import Lasso, fits
from petabatch.layers import FISTA, Input
from petabatch.network.sparse_coding import sparse_coding
from petabatch.network.until import GAP, STEPS
from petabatch.probes import Optimality
from petabatch.simulator import Simulator
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run, Until
from petabatch.spec.parts import DISPLAY, NEVER
from petabatch.weights import Unchanged, WeightArray

Shape = tuple[int, int, int]
Solver = Callable[[np.ndarray, np.ndarray | None], Codes]
"""Returns the codes of images `[n, ny, nx, channels]`, optionally from a warm start.

Raises NonFiniteError or ArgumentError for numbers beyond float32.
"""
_BYTES, _SLICES = 2**27, 256
"""Bytes of the codes of images that are coded together, and images on the CPU: their slices are made once and
used for all images of a stream, and starting a part costs less than 1 % of 256 small images."""
_EVERY = 10
"""Steps between looks at the gap, which cost at most a drive each: small images come to 1 % in 12 steps on
average, and took 25 with looks as rare as those of `run.until`."""
_RECORDED = ("layers/code/A", f"probes/{GAP}", f"probes/{STEPS}")


@dataclass(eq=False)
class Solvers:
    """What images are coded with, and how far; the last solver is kept for further images of its shape."""

    dictionary: np.ndarray
    """`[features, rows, columns, channels]`."""
    threshold: float
    stride: int
    signed: bool
    gap: float
    steps: int
    threads: int | None
    device: Literal["cpu", "gpu"] | None
    _kept: _VectorSolver | _ImageSolver | None = field(default=None, init=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the solver that is kept."""
        if self._kept is not None:
            self._kept.close()

    def units(self, shape: Shape) -> Shape:
        """Return the shape of the code of an image."""
        return shape[0] // self.stride, shape[1] // self.stride, len(self.dictionary)

    def together(self, shape: Shape) -> int:
        """Return how many images are coded together at most."""
        most = max(1, _BYTES // (4 * math.prod(self.units(shape))))
        return most if self.device == "gpu" or self._one_position(shape) else min(most, _SLICES)

    def _one_position(self, shape: Shape) -> bool:
        """Return whether a patch is a whole image, so that a code is that of a vector."""
        whole = self.dictionary.shape[1:] == shape and self.units(shape)[:2] == (1, 1)
        return whole and self.device != "gpu" and fits(len(self.dictionary))

    def of(self, shape: Shape, count: int) -> Solver:
        """Return the solver of at most `count` images of a shape."""
        if self._kept is None or not self._kept.fits(shape, count):
            self.close()
            alone = self._one_position(shape)
            self._kept = _VectorSolver(self, shape) if alone else _ImageSolver(self, shape, count)
        return self._kept

    @property
    def scaled(self) -> tuple[np.ndarray, float, int]:
        """The dictionary and the threshold divided by 2^e, and e.

        The largest weight becomes at least 0.5 and below 1. This multiplies codes by 2^e and changes nothing
        else: drives and their squares are within float32, whatever the dictionary.
        """
        exponent = int(np.frexp(np.abs(self.dictionary).max())[1])
        return np.ldexp(self.dictionary, -exponent), math.ldexp(self.threshold, -exponent), exponent


class _VectorSolver:
    """Codes of images of one position, without a network."""

    def __init__(self, given: Solvers, shape: Shape) -> None:
        self._shape = shape
        weights, threshold, self._exponent = given.scaled
        dictionary, self._warm_up = weights.reshape(len(weights), -1).astype(np.float32), WarmUp()
        self._threads = given.threads
        with self._warm_up.watched():
            self._lasso = Lasso(dictionary, threshold, signed=given.signed, gap=given.gap, steps=given.steps)

    def __call__(self, images: np.ndarray, start: np.ndarray | None) -> Codes:
        with self._warm_up.watched():
            found = self._lasso.solve(images.reshape(len(images), -1), self._threads)
        self._warm_up.report()
        codes = found.code.reshape(len(images), 1, 1, -1)
        return Codes(_unscaled(codes, self._exponent), found.gap, found.steps, found.active)

    def fits(self, shape: Shape, count: int) -> bool:
        """Return whether it can code images of this shape."""
        return shape == self._shape

    def close(self) -> None:
        """Nothing is open."""


class _ImageSolver:
    """Codes of images in a network whose slices show one image each, all in one display."""

    def __init__(self, given: Solvers, shape: Shape, count: int) -> None:
        self._weights, threshold, self._exponent = given.scaled
        self._units, self._shape = given.units(shape), shape
        run = Run(
            batch=count,
            display=given.steps,
            displays=1,
            until=Until(gap=given.gap, every=_EVERY),
            threads=given.threads,
        )
        network = _network(given, run, shape, self._weights, threshold)
        self._sim = Simulator(network, device=given.device, mpi=False)
        self._sim._live.undo = None  # after an error there are no codes
        self._begin = self._sim.save()

    def __call__(self, images: np.ndarray, start: np.ndarray | None) -> Codes:
        count, slices = len(images), self._sim.network.batch
        if count < slices:  # an image of zeros ends at the first look
            images = np.concatenate([images, np.zeros((slices - count, *self._shape), np.float32)])
        self._sim.load(self._begin)
        self._sim.show("image", images)
        if start is not None:
            self._warm(start)
        self._sim.run(quiet=True)
        code, gap, steps = (self._sim.recorded[path][0][:count] for path in _RECORDED)
        active = np.count_nonzero(code, axis=(1, 2, 3)).astype(np.int64)
        return Codes(_unscaled(code, self._exponent), gap, steps.astype(np.int64), active)

    def fits(self, shape: Shape, count: int) -> bool:
        """Return whether it can code `count` images of this shape."""
        return shape == self._shape and count <= self._sim.network.batch

    def close(self) -> None:
        """Close the network."""
        self._sim.close()

    def _warm(self, start: np.ndarray) -> None:
        """Begin with codes, at rest, and what they show."""
        code = np.zeros((self._sim.network.batch, *self._units), np.float32)
        code[: len(start)] = np.ldexp(start, self._exponent)
        link = make_link(self._units, self._shape, self._weights.shape[1:3], shared=True)
        patches = self._weights.astype(np.float32).reshape(1, 1, self._units[2], -1)
        self._sim["code"]["A"] = self._sim["code"]["A_before"] = code
        self._sim["recon"]["A"] = ArrayKernels(np).synthesize(code, patches, link.patches)


def _unscaled(code: np.ndarray, exponent: int) -> np.ndarray:
    """Return codes of a dictionary, of those of it divided by 2^exponent."""
    with np.errstate(over="ignore", under="ignore"):
        return np.ldexp(code, -exponent) if exponent else code


def curvature(dictionary: np.ndarray, stride: int) -> float:
    """Return the largest eigenvalue of dictionary^T dictionary on an unbounded image, to about 10 %.

    There the operator is a matrix `[features, pixels of a stride]` at each frequency.
    """
    features, *size, channels = dictionary.shape
    rows, columns = (-(-length // stride) for length in size)
    padded = np.zeros((rows * stride, columns * stride, channels, features), np.float32)
    padded[: size[0], : size[1]] = dictionary.transpose(1, 2, 3, 0)
    phases = padded.reshape(rows, stride, columns, stride, channels, features).swapaxes(1, 2)
    grid = [2 * rows, 2 * columns]
    at = np.fft.rfft2(phases.reshape(rows, columns, -1, features), grid, axes=(0, 1))
    if at.shape[2] > features:
        at = at.swapaxes(2, 3)
    return float(np.linalg.eigvalsh(at @ at.conj().swapaxes(2, 3)).max())


def _network(given: Solvers, run: Run, shape: Shape, weights: np.ndarray, threshold: float) -> Network:
    """Return image -> error -> code -> recon -> error, one image for each slice.

    FISTA halves its step size at the first step, where the image is new: it begins at 1 / L.
    """
    step = 2 / (curvature(weights, given.stride) or 1.0)
    nothing = ImageArray(data=np.zeros((1, *shape), np.float32), crop="top_left")
    return sparse_coding(
        Input(shape=shape, source=nothing, every=NEVER),
        FISTA(shape=given.units(shape), threshold=threshold, signed=given.signed, step=step),
        Conv(
            pre="code",
            post="recon",
            patch=weights.shape[1:3],
            init=WeightArray(data=weights),
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
                signed=given.signed,
                every=NEVER,
            )
        },
        output=Output(layers={"code": LayerOutput(every=DISPLAY)}),
    )
