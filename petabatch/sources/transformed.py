"""The base of sources whose images are transformed before they are shown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import TypeAdapter, model_validator
from pydantic_core import PydanticCustomError

from petabatch.sources.transforms import Chain, Crop, Normalize, Transform
from petabatch.sources.transforms.picture import Shape
from petabatch.spec.model import OneOf
from petabatch.spec.parts import Source

_TRANSFORM = TypeAdapter(Annotated[Transform, OneOf(Transform)])

KEPT_BYTES = 128 << 20
"""Bytes of the results of costly transforms that one source keeps."""


class TransformedSource(Source):
    """The base of sources with transforms."""

    in_short: ClassVar[tuple[str, ...]] = ("normalize",)
    """Keys that are short for transforms."""

    transforms: tuple[Annotated[Transform, OneOf(Transform)], ...] = ()
    """What is done to an image, in this order; see the types of transform."""
    normalize: Literal["none", "mean", "standard", "norm", "range", "petavision"] = "none"
    """Short for a transform `normalize` with this method at the end; `none`: as stored, in [0, 1] for
    integers. Not together with `transforms`."""
    slices: Literal["own", "same"] = "own"
    """`same`: every slice shows what the slice of a run with `batch = 1` would: the same items and random
    choices."""

    @model_validator(mode="after")
    def _short_or_in_full(self) -> TransformedSource:
        fields, written = type(self).model_fields, self.model_fields_set
        if written.issuperset(self.in_short):  # in a copy, or in a run's params, all keys are
            written = {key for key in self.in_short if getattr(self, key) != fields[key].default}
        given = [key for key in self.in_short if key in written]
        if self.transforms and given:
            raise PydanticCustomError(
                "transforms",
                "the transforms are given in full and in short",
                {
                    "got": f"transforms and {', '.join(given)}",
                    "expected": "one of the two",
                    "hint": "the reference says which transforms the other keys are short for",
                },
            )
        return self

    @property
    def alike(self) -> bool:
        """With `slices = "same"`."""
        return self.slices == "same"

    @property
    def crops_as_asked(self) -> bool:
        """Whether keys say which part of larger images is shown."""
        return True

    @property
    def steps(self) -> tuple[Transform, ...]:
        """The transforms, also where they are given in short."""
        return self.transforms or self.short

    @property
    def short(self) -> tuple[Transform, ...]:
        """The transforms that are given in short."""
        return () if self.normalize == "none" else (Normalize(method=self.normalize),)

    def chain(self, shape: Shape) -> Chain:
        """Return the transforms for a layer of this shape; raises InputError if they do not suit it."""
        return Chain(self.steps, shape, "transforms" if self.transforms else "")

    @property
    def unfitted(self) -> bool:
        """Whether a transform is to be fitted to its images before the run."""
        return any(step.unfitted for step in self.steps)

    def fitted_as(self, other: Source) -> Source:
        """Return the source with the fitted transforms of `other` for its own, in order of each type."""
        if not self.unfitted:
            return self
        kinds = {step.type for step in self.steps}
        theirs = {kind: iter([step for step in other.steps if step.type == kind]) for kind in kinds}
        pairs = [(step, next(theirs[step.type], step)) for step in self.steps]
        return self.with_steps([their if own.unfitted else own for own, their in pairs])

    def nbytes(self, shape: Shape) -> int:
        """Return the bytes that transforms may keep in memory, at most."""
        return sum(step.nbytes(shape) for step in self.steps) + KEPT_BYTES * any(s.costly for s in self.steps)

    def with_steps(self, steps: Sequence[Transform]) -> Self:
        """Return the source with other transforms in place of all its own."""
        defaults = {key: type(self).model_fields[key].default for key in self.in_short}
        return self.model_copy(update={**defaults, "transforms": tuple(steps)})


def transforms_of(table: Mapping[str, Any], arrays: Path) -> tuple[Transform, ...]:
    """Return the transforms of a source in the params of a run, whose arrays are in the folder `arrays`.

    Raises ValidationError if one is of a plug-in that has not been imported.
    """
    if table.get("transforms"):
        context = {"arrays": arrays}
        return tuple(_TRANSFORM.validate_python(one, context=context) for one in table["transforms"])
    method = table.get("normalize", "none")
    return (Crop(),) if method == "none" else (Crop(), Normalize(method=method))
