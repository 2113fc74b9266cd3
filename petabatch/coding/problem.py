"""The problem that codes solve: images, a dictionary, a penalty; and the network that solves it."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from petabatch.coding.codes import Codes, number_of_images
from petabatch.coding.dictionary import Dictionary
from petabatch.coding.images import Stack
from petabatch.connections import Conv
from petabatch.engine.warm_up import WarmUp
from petabatch.errors import ArgumentError, InputError, NonFiniteError
from petabatch.geometry import make_link
from petabatch.kernels.array import ArrayKernels
from petabatch.lasso import Lasso, fits
from petabatch.layers import FISTA, Input
from petabatch.logs import log
from petabatch.network.sparse_coding import sparse_coding
from petabatch.network.until import GAP, STEPS
from petabatch.probes import Optimality
from petabatch.simulator import Simulator
from petabatch.sources import ImageArray
from petabatch.sources.transforms import Transform
from petabatch.spec.network import LayerOutput, Network, Output, Run, Until
from petabatch.spec.parts import DISPLAY, NEVER
from petabatch.weights import Unchanged, WeightArray

_BYTES = 2**27
"""Bytes of the codes of images that are coded together."""

_RECORDED = ("layers/code/A", f"probes/{GAP}", f"probes/{STEPS}")


@dataclass(frozen=True)
class Problem:
    """What is minimised for each image, how far, and from where."""

    images: Stack
    dictionary: Dictionary
    threshold: float
    stride: int
    signed: bool
    gap: float
    steps: int
    threads: int | None
    device: Literal["cpu", "gpu"] | None
    start: np.ndarray | None = None
    """Codes to begin with, float32 `[images, *units]`; by default 0."""

    @property
    def units(self) -> tuple[int, int, int]:
        """Shape of a code, of images that differ in size that of the largest."""
        rows, columns, _ = self.images.shape
        return rows // self.stride, columns // self.stride, len(self.dictionary.weights)

    @property
    def attributes(self) -> dict[str, object]:
        """What a file of the codes says about them."""
        return {
            "dictionary_from": self.dictionary.name,
            "threshold": self.threshold,
            "stride": self.stride,
            "signed": int(self.signed),
            "transforms": json.dumps([_short(step) for step in self.images.view.steps]),
            "factor": self.dictionary.factor,
            "gap_wanted": self.gap,
            "most_steps": self.steps,
        }

    def __str__(self) -> str:
        steps = ", ".join(step.type for step in self.images.view.steps)
        of = "of" if self.images.one_size else "of up to"
        return (
            f"{number_of_images(len(self.images))} {of} {list(self.images.shape)}, transforms: {steps}; "
            f"dictionary: {self.dictionary.name}, threshold {self.threshold}, "
            f"stride {self.stride}{', signed' if self.signed else ''}"
        )

    @property
    def together(self) -> int:
        """Number of images that are coded together."""
        return max(1, _BYTES // (4 * int(np.prod(self.units))))

    @property
    def parts(self) -> int:
        """Number of such parts."""
        return -(-len(self.images) // self.together)

    @property
    def one_position(self) -> bool:
        """Whether each patch is a whole image, so that a code is that of a vector."""
        whole = self.dictionary.weights.shape[1:] == self.images.shape and self.units[:2] == (1, 1)
        return whole and self.images.one_size and self.device != "gpu" and fits(self.units[2])

    def solved(self) -> Iterator[Codes]:
        """Yield the codes of the images in order, of some at a time; warn of those that did not converge.

        Raises InputError if numbers are too large or too small for float32.
        """
        unconverged = []
        for codes in self._coded():
            unconverged.append(codes.gap[codes.gap > self.gap])
            yield codes
        gaps = np.concatenate(unconverged)
        if len(gaps):
            log.warning(
                "gap: %s of %s above %g after %s steps, at most %.2g: more `steps`, or a larger threshold",
                f"{len(gaps):,}",
                number_of_images(len(self.images)),
                self.gap,
                f"{self.steps:,}",
                gaps.max(),
            )

    def _coded(self) -> Iterator[Codes]:
        code = self._lasso() if self.one_position else self._part
        for first in range(0, len(self.images), self.together):
            last = min(first + self.together, len(self.images))
            if not self.images.one_size:
                yield self._sizes_apart(first, last)
                continue
            images = self.images.read(first, last)
            if self.dictionary.factor != 1:
                images = images * np.float32(self.dictionary.factor)
            yield code(first, images)

    def _sizes_apart(self, first: int, last: int) -> Codes:
        """Return the codes of images that differ in size, made for each size, in an array of the largest."""
        count = last - first
        found = Codes(
            np.zeros((count, *self.units), np.float32),
            np.zeros(count),
            np.zeros(count, np.int64),
            np.zeros(count, np.int64),
            sizes=np.zeros((count, 2), np.int64),
        )
        for numbers, images in self.images.by_size(first, last):
            own = replace(self, images=images)
            rows, columns, _ = own.units
            if self.start is not None:
                own = replace(own, start=self.start[numbers, :rows, :columns])
            begin = 0
            for codes in own._coded():
                places = np.array(numbers[begin : begin + len(codes)]) - first
                begin += len(codes)
                found.activity[places, :rows, :columns] = codes.activity
                found.sizes[places] = rows, columns
                for name in ("gap", "steps", "active"):
                    getattr(found, name)[places] = getattr(codes, name)
        return found

    def _lasso(self) -> Callable[[int, np.ndarray], Codes]:
        """Return the function that codes images of one position, without a network."""
        weights, threshold, exponent = _scaled(self)
        dictionary, warm_up = weights.reshape(self.units[2], -1).astype(np.float32), WarmUp()
        with warm_up.watched():
            lasso = Lasso(dictionary, threshold, signed=self.signed, gap=self.gap, steps=self.steps)

        def code(first: int, images: np.ndarray) -> Codes:
            try:
                with warm_up.watched():
                    found = lasso.solve(images.reshape(len(images), -1), self.threads)
            except ArgumentError as error:  # pixels are finite, but sums of them
                raise self._beyond(first, images, [np.abs(images).max(axis=(1, 2, 3)).argmax()]) from error
            warm_up.report()
            codes = Codes(found.code.reshape(-1, *self.units), found.gap, found.steps, found.active)
            return self._unscaled(first, images, codes, exponent) if exponent else codes

        return code

    def _part(self, first: int, images: np.ndarray) -> Codes:
        run = Run(
            batch=len(images),
            display=self.steps,
            displays=1,
            until=Until(gap=self.gap),
            threads=self.threads,
        )
        weights, threshold, exponent = _scaled(self)
        network = _network(self, run, images, weights, threshold)
        with Simulator(network, device=self.device, mpi=False) as sim:
            sim._live.undo = None  # after an error there are no codes
            if self.start is not None:
                self._begin(sim, np.ldexp(self.start[first : first + len(images)], exponent), weights)
            try:
                sim.run(quiet=True)
            except NonFiniteError as error:
                raise self._beyond(first, images, error.slices) from error
            code, gap, steps = (sim.recorded[path][0] for path in _RECORDED)
        active = np.count_nonzero(code, axis=(1, 2, 3)).astype(np.int64)
        return self._unscaled(first, images, Codes(code, gap, steps.astype(np.int64), active), exponent)

    def _begin(self, sim: Simulator, code: np.ndarray, weights: np.ndarray) -> None:
        """Start from codes of the dictionary divided by 2^exponent, at rest, and what they show."""
        rows, columns, features = self.units
        link = make_link((rows, columns, features), self.images.shape, weights.shape[1:3], shared=True)
        patches = weights.astype(np.float32).reshape(1, 1, features, -1)
        sim["code"]["A"] = sim["code"]["A_before"] = code
        sim["recon"]["A"] = ArrayKernels(np).synthesize(code, patches, link.patches)

    def _unscaled(self, first: int, images: np.ndarray, codes: Codes, exponent: int) -> Codes:
        """Return codes of the dictionary itself, of those of it divided by 2^exponent."""
        with np.errstate(over="ignore", under="ignore"):
            activity = np.ldexp(codes.activity, -exponent)
        lost = np.flatnonzero(
            ~np.isfinite(activity).all(axis=(1, 2, 3))
            | (codes.active != np.count_nonzero(activity, axis=(1, 2, 3)))
        )
        if len(lost):
            raise self._beyond(first, images, lost)
        return replace(codes, activity=activity)

    def _beyond(self, first: int, images: np.ndarray, slices: Iterable[int]) -> InputError:
        """Return the error about images whose codes are not numbers of float32."""
        number = int(next(iter(slices), 0))
        name = self.images.gallery.name(first + number)
        return InputError(
            f"{name}: its code is beyond the range of float32\n"
            f"    found:    pixels up to {np.abs(images[number]).max():.3g}, "
            f"weights of the dictionary up to {np.abs(self.dictionary.weights).max():.3g}\n"
            "    hint:     scale the images, or the dictionary and the threshold"
        )


def _short(step: Transform) -> dict[str, Any]:
    return {"type": step.type, **step.model_dump(mode="json", exclude_defaults=True)}


def check(problem: Problem) -> None:
    """Raise an error if the dictionary does not fit on the images."""
    high, wide = problem.dictionary.weights.shape[1:3]
    for rows, columns in sorted(set(problem.images.sizes)):
        if high > rows or wide > columns:
            expected = f"at most {rows} rows and {columns} columns"
            raise ArgumentError(
                "dictionary", "its patches are larger than the images", (high, wide), expected
            )
        if rows % problem.stride or columns % problem.stride:
            expected = f"a divisor of {rows} rows and {columns} columns"
            inner = tuple(length - length % problem.stride for length in (rows, columns))
            hint = "code a part of each image with `size`"
            if all(own >= length for own, length in zip(inner, (high, wide), strict=True)):
                hint += f", as size={inner}"
            raise ArgumentError(
                "stride", "the stride does not divide the images", problem.stride, expected, hint
            )


def _scaled(problem: Problem) -> tuple[np.ndarray, float, int]:
    """Return the dictionary and the threshold divided by 2^e, and e.

    The largest weight becomes at least 0.5 and below 1. This multiplies codes by 2^e and changes nothing
    else: drives and their squares are within float32, whatever the dictionary.
    """
    exponent = int(np.frexp(np.abs(problem.dictionary.weights).max())[1])
    weights = np.ldexp(problem.dictionary.weights, -exponent)
    return weights, math.ldexp(problem.threshold, -exponent), exponent


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


def _network(
    problem: Problem, run: Run, images: np.ndarray, weights: np.ndarray, threshold: float
) -> Network:
    """Return image -> error -> code -> recon -> error, one image for each slice.

    FISTA halves its step size at the first step, where the image is new: it begins at 1 / L.
    """
    step = 2 / (curvature(weights, problem.stride) or 1.0)
    return sparse_coding(
        Input(shape=problem.images.shape, source=ImageArray(data=images, crop="top_left"), every=NEVER),
        FISTA(shape=problem.units, threshold=threshold, signed=problem.signed, step=step),
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
                signed=problem.signed,
                every=NEVER,
            )
        },
        output=Output(layers={"code": LayerOutput(every=DISPLAY)}),
    )
