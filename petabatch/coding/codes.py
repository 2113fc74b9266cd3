"""Codes of images: activities, and how each was reached."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from pathlib import PurePath
from typing import Any

import numpy as np

from petabatch.arrays import Channels, as_numpy
from petabatch.errors import ArgumentError, NotRecorded, ResourceError, install, shortened, unknown
from petabatch.lazy_property import lazy_property

_LISTED = 8
"""Images in the table of a notebook."""
_SHOWN = 300
"""Characters of the names in a message, at most."""


@dataclass(frozen=True, eq=False)
class Codes:
    """The result of `encode`: `codes[n]` is the activity of an image, `codes.to_pandas()` a table of them.

    Examples
    --------
    >>> images = np.eye(8)[None] * np.ones((3, 1, 1))
    >>> codes = petabatch.encode(images, np.eye(8)[None], threshold=0.1, stride=8)
    >>> len(codes), codes[0].shape, [code.shape for code in codes][2], codes[1:].shape
    (3, (1, 1, 1), (1, 1, 1), (2, 1, 1, 1))
    >>> codes.to_pandas().columns.to_list()
    ['active', 'gap', 'steps']
    """

    activity: Any
    """float32 `[n, ny / stride, nx / stride, features]`, of the library and on the device of the images, as
    are the other arrays; `[n, features, ...]` with `channels="first"`. Of images that differ in size, as
    large as the largest code, and 0 beyond the code of an image, which `codes[n]` is without these. With
    `out`, the dataset of the file, channels last, read when it is indexed."""
    gap: Any
    """float64 `[n]`, relative duality gap: each energy is at most this fraction above its minimum."""
    steps: Any
    """int64 `[n]`: number of steps for each image."""
    active: Any
    """int64 `[n]`: number of active units for each image."""
    names: tuple[str, ...] = ()
    """Name of each image: the path of its file, or its index in an array or file: `images[0]`, `x.npy[0]`."""
    sizes: Any = None
    """int64 `[n, 2]`, of numpy: rows and columns of the code of each image, None where all are alike."""
    channels: Channels = "last"
    """Axis of the features."""

    def __len__(self) -> int:
        """Return the number of images."""
        return len(self.gap)

    def __getitem__(self, index: Any) -> Any:
        """Return the activity of an image by its number or name, or of several, as arrays are indexed.

        For `photos/cat.png`, `cat.png` and `cat` will do where no other image has this name. Raises
        UnknownName if no image has it, ArgumentError if several have, NotRecorded for wrong numbers.
        """
        if isinstance(index, str):
            index = self._number(index)
        try:
            found = self.activity[index]
            return found if self.sizes is None else self._cut(found, self.sizes[index])
        except (IndexError, TypeError, ValueError) as error:
            raise NotRecorded(
                f"index: there are no such images: {error}\n    found:    {index!r}\n"
                f"    expected: a number from 0 to {len(self) - 1}, a name, or several numbers"
            ) from None

    def _cut(self, code: Any, size: Any) -> Any:
        """Return the code of an image in its size; of several, they stay in one array."""
        if len(code.shape) == len(self.activity.shape):
            return code
        rows, columns = size
        return code[:rows, :columns] if self.channels == "last" else code[..., :rows, :columns]

    def __contains__(self, name: object) -> bool:
        """Return whether an image has this name, as `codes[name]` takes it."""
        return isinstance(name, str) and name in self._numbers

    def __iter__(self) -> Iterator[Any]:
        """Yield the activity of each image."""
        return (self[number] for number in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Return all activities as one array."""
        return np.array(self.activity, dtype=dtype, copy=copy)

    def _number(self, name: str) -> int:
        """Return the number of the image of a name; of one that was given repeatedly, the first."""
        numbers = self._numbers.get(name)
        if numbers is None:
            raise unknown("image", name, self.names, self._numbers)
        named = dict.fromkeys(self.names[number] for number in numbers)
        if len(named) > 1:
            several = shortened(", ".join(named), _SHOWN)
            raise ArgumentError("index", "several images have this name", name, f"one of {several}")
        return numbers[0]

    @lazy_property
    def _numbers(self) -> dict[str, list[int]]:
        """Numbers of the images of each name, whole names before those of files, and these before stems."""
        found: dict[str, list[int]] = {}
        for part in (str, _file_name, _stem):
            level: dict[str, list[int]] = {}
            for number, name in enumerate(self.names):
                level.setdefault(part(name), []).append(number)
            found = level | found
        return found

    def to_sparse(self) -> Any:
        """Return a `scipy.sparse.csr_array` `[image, unit]`, units by row, column and feature."""
        from scipy.sparse import csr_array  # takes long to import

        return csr_array(as_numpy("codes", self.activity).reshape(len(self), -1))

    def to_pandas(self) -> Any:
        """Return a row for each image, by its name: active units, relative gap, steps.

        Needs the `analysis` extra: raises ResourceError without it.
        """
        try:
            import pandas
        except ImportError as error:
            raise ResourceError(f"pandas is not installed\n    hint:     {install('analysis')}") from error
        kept = {"active": self.active, "gap": self.gap, "steps": self.steps}
        columns = {name: as_numpy("codes", values) for name, values in kept.items()}
        return pandas.DataFrame(columns, pandas.Index(self.names or range(len(self)), name="image"))

    def __repr__(self) -> str:
        shape = tuple(self.activity.shape)
        gap, steps, active = (as_numpy("codes", one) for one in (self.gap, self.steps, self.active))
        units, each = math.prod(shape), "each"
        if self.sizes is not None:
            positions = shape[1] * shape[2] if self.channels == "last" else shape[2] * shape[3]
            units, each = units // positions * self.sizes.prod(axis=1).mean(), "at most"
        return (
            f"<codes of {number_of_images(shape[0])}, [{', '.join(map(str, shape[1:]))}] {each}: "
            f"{active.sum() / max(1, units):.2%} active, "
            f"relative gap at most {gap.max(initial=0):.2g}, {steps.mean():.0f} steps on average>"
        )

    def _repr_html_(self) -> str:
        """Return what a notebook shows: how the images were coded, and a table of the first."""
        head, count = f"<div><p>{escape(repr(self).strip('<>'))}</p>", min(_LISTED, len(self))
        gap, steps, active = (as_numpy("codes", one) for one in (self.gap, self.steps, self.active))
        names = self.names or tuple(map(str, range(len(self))))
        cells = zip(names[:count], active, steps, (f"{one:.2g}" for one in gap), strict=False)
        rows = "".join(f"<tr>{''.join(f'<td>{escape(str(one))}</td>' for one in row)}</tr>" for row in cells)
        columns = "".join(f"<th>{one}</th>" for one in ("image", "active units", "steps", "gap"))
        more = f"<p>and {len(self) - count:,} more</p>" if len(self) > count else ""
        return f"{head}<table><tr>{columns}</tr>{rows}</table>{more}</div>"


def _file_name(name: str) -> str:
    return PurePath(name).name


def _stem(name: str) -> str:
    return PurePath(name).stem


def number_of_images(number: int) -> str:
    """Return "1 image" or such a number of them, as texts say it."""
    return f"{number:,} image{'' if number == 1 else 's'}"
