"""Labels: the classes that the names of files say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError
from petabatch.regular_files import read_text, reason
from petabatch.sources.gallery import Gallery
from petabatch.sources.view import View
from petabatch.spec.model import Count, Finite, Index
from petabatch.spec.paths import FilePath

Texts = Annotated[tuple[str, ...], Field(min_length=1)]


class Labels(View):
    """The class of each of several files, by its name: `on` in the feature of the class, `off` in others.

    Shown in the order of the files, they are the labels of a source of type `images` with the same list.
    Corresponds to PetaVision's FilenameParsingLayer (`FilenameParsingActivityBuffer.cpp`) and LabelLayer.
    """

    type: Literal["labels"] = "labels"
    names: FilePath | Texts
    """A `.txt` list of files, one per line, or an array of names. The files are not read."""
    classes: Count | FilePath | Texts
    """A `.txt` list or an array of texts, one for each class: a name that contains it is of this class, also
    of several. Or the number of classes, where `digits` are the number of the class, from 0."""
    digits: tuple[Index, Count] | None = None
    """First character of the number of the class in a name, from 0, and how many characters it has."""
    on: Finite = 1.0
    """Value of the class."""
    off: Finite = 0.0
    """Value of the other classes."""

    @model_validator(mode="after")
    def _digits_or_texts(self) -> Labels:
        if isinstance(self.classes, int) != (self.digits is not None):
            raise PydanticCustomError(
                "digits",
                "classes are given by their number and digits, or by texts",
                {"expected": "`digits` with a number of `classes`, and only with it"},
            )
        return self

    def paths(self) -> list[str]:
        """Return the lists."""
        return [one for one in (self.names, self.classes) if isinstance(one, str)]

    @property
    def decoded(self) -> int:
        """Nothing is decoded."""
        return 0

    def gallery(self) -> Gallery:
        """Return an image of one pixel for each name; raises InputError for names without a class."""
        names = self.names if isinstance(self.names, tuple) else _listed(self.names, "files")
        numbers = np.array(list(map(self._label, names)), np.float32).reshape(len(names), 1, 1, -1)

        def read(number: int, rows: slice, columns: slice) -> np.ndarray:
            return np.asarray(numbers[number, rows, columns])

        shapes = [numbers.shape[1:]] * len(names)
        return Gallery(shapes, read, names.__getitem__, note=lambda: self._unnamed(names))

    def _unnamed(self, names: Sequence[str]) -> str:
        """Say which classes are texts that no name contains, as one that is misspelt, else ""."""
        if isinstance(self.classes, int):
            return ""
        missing = [text for text in self._texts(self.classes) if not any(text in name for name in names)]
        if not missing:
            return ""
        more = f" and {len(missing) - 3:,} more" if len(missing) > 3 else ""
        told = ", ".join(map(repr, missing[:3]))
        return f"no name contains the class{'es' * (len(missing) > 1)} {told}{more}; a name is {names[0]!r}"

    @staticmethod
    def _texts(classes: str | tuple[str, ...]) -> tuple[str, ...]:
        return classes if isinstance(classes, tuple) else _listed(classes, "classes")

    @property
    def _label(self) -> Callable[[str], list[float]]:
        """What makes the values of all classes of a name."""
        if isinstance(self.classes, int):
            return self._numbered
        texts = self._texts(self.classes)
        return lambda name: [self.on if text in name else self.off for text in texts]

    def _numbered(self, name: str) -> list[float]:
        assert isinstance(self.classes, int)
        assert self.digits is not None
        first, length = self.digits
        found = name[first : first + length]
        if not (found.isascii() and found.isdigit() and int(found) < self.classes):
            raise InputError(
                f"{name}: these characters are not the number of a class\n    found:    {found!r}, "
                f"from character {first} on\n    expected: 0 to {self.classes - 1}"
            )
        return [self.on if number == int(found) else self.off for number in range(self.classes)]


def _listed(path: str, what: str) -> tuple[str, ...]:
    """Return the lines of a list, but for comments, which begin with `#`."""
    try:
        lines = [line.strip() for line in read_text(path).splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: this list of {what} cannot be read: {reason(error)}") from error
    found = tuple(line for line in lines if line and not line.startswith("#"))
    if not found:
        raise InputError(f"{path}: this list of {what} is empty")
    return found
