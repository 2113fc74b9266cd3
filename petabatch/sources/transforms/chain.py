"""The transforms of a source, one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np

from petabatch.errors import InputError
from petabatch.random import LazyStream
from petabatch.sources.pixels import convertible
from petabatch.sources.transforms.base import Draws, Transform
from petabatch.sources.transforms.channels import ToLayer
from petabatch.sources.transforms.picture import Picture, Shape


class Chance:
    """The random choices of one display; `rng` returns the generator that has chosen its image."""

    def __init__(
        self,
        seed: int,
        film: tuple[int, ...],
        display: tuple[int, ...],
        rng: LazyStream,
    ) -> None:
        self.seed, self.film, self.display, self._rng = seed, film, display, rng

    @cached_property
    def _first(self) -> Mapping[str, Any]:
        """The state of the generator before the crop that leads is drawn."""
        return self._rng().bit_generator.state

    def leading(self, age: int) -> np.random.Generator:
        """Return the generator of the crop that leads; for earlier frames, one that draws the same again."""
        first, rng = self._first, self._rng()
        if age:
            rng = np.random.Generator(np.random.Philox())
            rng.bit_generator.state = first
        return rng


class Chain:
    """What is done to the images of a source, until they fit the layer.

    Images are converted to the channels of the layer before the first transform that changes values, unless
    a transform says how many channels there are.
    """

    def __init__(self, transforms: Sequence[Transform], layer: Shape, key: str = "") -> None:
        """Raise InputError if the layer cannot be the result. `key` is that of the transforms, in errors."""
        self.layer, self._key = layer, key
        self._steps: list[tuple[int | None, Transform]] = list(enumerate(transforms))
        self.wanted: int | None = None
        """Channels that images are converted to."""
        if not any(transform.converts for transform in transforms):
            at = next((i for i, step in enumerate(transforms) if not step.moves), len(transforms))
            self.wanted = self._before(transforms, at)
            self._steps.insert(at, (None, ToLayer(type="", wanted=self.wanted)))
        self._lead = next((at for at, (_, step) in enumerate(self._steps) if step.leads), None)
        self._refuse_later_contrast()
        self.kept = self._kept()
        """Number of first steps whose results are kept, since they are costly and not random."""
        self._cropped = self.kept if self._lead is None else self._lead + 1
        self._sound: dict[Shape, InputError | None] = {}

    @property
    def contrast(self) -> float:
        """Standard deviation below which image and crop are drawn again."""
        return 0.0 if self._lead is None else self._steps[self._lead][1].least_contrast

    @property
    def stacks(self) -> bool:
        """Whether it needs several frames for one display."""
        return any(len(step.ages) > 1 for _, step in self._steps)

    def kept_bytes(self, stored: Shape) -> int:
        """Return the bytes of what is kept of an image of this shape."""
        shape = stored
        for _, step in self._steps[: self.kept]:
            shape = step.result(shape, self.layer)
        return 8 * math.prod(shape)

    def check(self, stored: Shape) -> InputError | None:
        """Return the error if an image of this shape does not become one of the layer, else None."""
        if stored not in self._sound:
            self._sound[stored] = self._error(stored)
        return self._sound[stored]

    def result(self, stored: Shape) -> Shape:
        """Return the shape that an image of shape `stored` gets; raises InputError if it cannot."""
        shape = stored
        for index, step in self._steps:
            try:
                shape = step.result(shape, self.layer)
            except InputError as error:
                raise self._located(error, index) from None
        return shape

    def begin(self, picture: Picture) -> Picture:
        """Return what the first transforms, whose results are kept, make of an image."""
        for _, step in self._steps[: self.kept]:
            picture = step.shows(picture, self.layer, Draws(0, (), ()))
        return picture

    def crop(self, picture: Picture, chance: Chance, earlier: Callable[[int], Picture]) -> Picture:
        """Return what follows from `begin` up to the crop that leads.

        `earlier(age)` is what `begin` makes of the frame that is older by `age`.
        """
        return self._run(picture, self.kept, self._cropped, chance, earlier, 0)

    def finish(self, picture: Picture, chance: Chance, earlier: Callable[[int], Picture]) -> Picture:
        """Return what the layer shows, given what `crop` returns."""
        return self._run(picture, self._cropped, len(self._steps), chance, earlier, 0)

    def until(
        self, index: int, picture: Picture, chance: Chance, earlier: Callable[[int], Picture]
    ) -> Picture:
        """Return what transform `index` is given, from what `begin` returns."""
        at = next(at for at, (number, _) in enumerate(self._steps) if number == index)
        return self._run(picture, self.kept, at, chance, earlier, 0)

    def _run(
        self,
        picture: Picture,
        first: int,
        last: int,
        chance: Chance,
        earlier: Callable[[int], Picture],
        age: int,
    ) -> Picture:
        """Return what steps `first` to `last - 1` make of a frame."""
        for at in range(first, last):
            index, step = self._steps[at]
            leading = partial(chance.leading, age) if at == self._lead else None
            draws = Draws(chance.seed, chance.film, chance.display, f"{step.type} {index}", age, leading)
            if len(step.ages) == 1:
                picture = step.shows(picture, self.layer, draws)
                continue
            frames = [
                self._run(earlier(age + older), self.kept, at, chance, earlier, age + older)
                if older
                else picture
                for older in step.ages
            ]
            picture = step.stacked(frames, self.layer, draws)
        return picture

    def _refuse_later_contrast(self) -> None:
        """Raise InputError if a crop after the one that leads requires contrast: it is not drawn again."""
        for index, step in self._steps[0 if self._lead is None else self._lead + 1 :]:
            if step.least_contrast:
                error = InputError(
                    f"only the first random crop can require contrast\n"
                    f"    found:    contrast = {step.least_contrast} in a later one\n"
                    f"    expected: contrast in the first random crop"
                )
                raise self._located(error, index)

    def _kept(self) -> int:
        fixed = [not (step.random or step.unfitted or len(step.ages) > 1) for _, step in self._steps]
        known = fixed.index(False) if False in fixed else len(fixed)
        costly = [at for at, (_, step) in enumerate(self._steps[:known]) if step.costly]
        return costly[-1] + 1 if costly else 0

    def _before(self, transforms: Sequence[Transform], at: int) -> int:
        """Return the channels that images must have before transform `at`."""
        channels = self.layer[2]
        for index in range(len(transforms) - 1, at - 1, -1):
            try:
                channels = transforms[index].before(channels)
            except InputError as error:
                raise self._located(error, index) from None
        return channels

    def _error(self, stored: Shape) -> InputError | None:
        if self.wanted is not None and not convertible(stored[2], self.wanted):
            return InputError(
                f"image and layer have different numbers of channels\n"
                f"    found:    {stored[2]}, in an image of {list(stored)}\n"
                f"    expected: {self.wanted}, in a layer of {list(self.layer)}\n"
                f"    hint:     {_channels_hint(stored, self.layer)}"
            )
        try:
            shape = self.result(stored)
        except InputError as error:
            return error
        if shape != self.layer:
            crop = shape[0] >= self.layer[0] and shape[1] >= self.layer[1] and shape[2] == self.layer[2]
            return self._located(
                InputError(
                    f"the transforms do not make an image of the shape of the layer\n"
                    f"    found:    {list(shape)}, of an image {list(stored)}\n"
                    f"    expected: {list(self.layer)}"
                    + ('\n    hint:     add { type = "crop" } where the image is to be cut' if crop else "")
                ),
                None,
            )
        return None

    def _located(self, error: InputError, index: int | None) -> InputError:
        if self._key:
            error.key = self._key if index is None else f"{self._key}.{index}"
        return error


def _channels_hint(found: Shape, wanted: Shape) -> str:
    first = convertible(found[0], wanted[2]) and found[1] >= wanted[0] and found[2] >= wanted[1]
    if first:
        return 'channels come last: of an array whose channels come first, channels = "first"'
    return f"set the last number of the layer's `shape` to {found[2]}"
