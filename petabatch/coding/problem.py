"""The problem that codes solve: images, a dictionary, a penalty."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from petabatch.coding.codes import Codes, number_of_images
from petabatch.coding.dictionary import Dictionary
from petabatch.coding.images import Stack
from petabatch.coding.solvers import Shape, Solvers
from petabatch.errors import ArgumentError, InputError, NonFiniteError
from petabatch.logs import log
from petabatch.sources.transforms import Transform


@dataclass(frozen=True)
class Problem:
    """What is minimised for each image, how far, and from where."""

    images: Stack
    dictionary: Dictionary
    solvers: Solvers
    start: np.ndarray | None = None
    """Codes to begin with, float32 `[images, *units]`; by default 0."""

    @property
    def units(self) -> Shape:
        """Shape of a code, of images that differ in size that of the largest."""
        return self.solvers.units(self.images.shape)

    @property
    def attributes(self) -> dict[str, object]:
        """What a file of the codes says about them."""
        return {
            "dictionary_from": self.dictionary.name,
            "threshold": self.solvers.threshold,
            "stride": self.solvers.stride,
            "signed": int(self.solvers.signed),
            "transforms": json.dumps([_short(step) for step in self.images.view.steps]),
            "factor": self.dictionary.factor,
            "gap_wanted": self.solvers.gap,
            "most_steps": self.solvers.steps,
        }

    def __str__(self) -> str:
        steps = ", ".join(step.type for step in self.images.view.steps)
        of = "of" if self.images.one_size else "of up to"
        return (
            f"{number_of_images(len(self.images))} {of} {list(self.images.shape)}, transforms: {steps}; "
            f"dictionary: {self.dictionary.name}, threshold {self.solvers.threshold}, "
            f"stride {self.solvers.stride}{', signed' if self.solvers.signed else ''}"
        )

    @property
    def _size(self) -> int:
        """Number of images that are coded together, in parts that are alike."""
        most, count = self.solvers.together(self.images.shape), len(self.images)
        return -(-count // -(-count // most)) if count else most

    @property
    def parts(self) -> int:
        """Number of such parts."""
        return -(-len(self.images) // self._size)

    def solved(self) -> Iterator[Codes]:
        """Yield the codes of the images in order, of some at a time; warn of those that did not converge.

        Raises InputError if numbers are too large or too small for float32.
        """
        unconverged = []
        for codes in self._coded():
            unconverged.append(codes.gap[codes.gap > self.solvers.gap])
            yield codes
        gaps = np.concatenate(unconverged)
        if len(gaps):
            log.warning(
                "gap: %s of %s above %g after %s steps, at most %.2g: more `steps`, or a larger threshold",
                f"{len(gaps):,}",
                number_of_images(len(self.images)),
                self.solvers.gap,
                f"{self.solvers.steps:,}",
                gaps.max(),
            )

    def _coded(self) -> Iterator[Codes]:
        for first in range(0, len(self.images), self._size):
            last = min(first + self._size, len(self.images))
            if not self.images.one_size:
                yield self._sizes_apart(first, last)
                continue
            images = self.images.read(first, last)
            if self.dictionary.factor != 1:
                images = images * np.float32(self.dictionary.factor)
            yield self._part(first, images)

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

    def _part(self, first: int, images: np.ndarray) -> Codes:
        start = None if self.start is None else self.start[first : first + len(images)]
        try:
            codes = self.solvers.of(self.images.shape, self._size)(images, start)
        except NonFiniteError as error:
            raise self._beyond(first, images, error.slices) from error
        except ArgumentError as error:  # pixels are finite, but sums of them
            raise self._beyond(first, images, [np.abs(images).max(axis=(1, 2, 3)).argmax()]) from error
        activity = codes.activity
        lost = ~np.isfinite(activity).all(axis=(1, 2, 3))
        lost |= codes.active != np.count_nonzero(activity, axis=(1, 2, 3))
        if lost.any():
            raise self._beyond(first, images, np.flatnonzero(lost))
        return codes

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
        if rows % problem.solvers.stride or columns % problem.solvers.stride:
            expected = f"a divisor of {rows} rows and {columns} columns"
            inner = tuple(length - length % problem.solvers.stride for length in (rows, columns))
            hint = "code a part of each image with `size`"
            if all(own >= length for own, length in zip(inner, (high, wide), strict=True)):
                hint += f", as size={inner}"
            raise ArgumentError(
                "stride", "the stride does not divide the images", problem.solvers.stride, expected, hint
            )
