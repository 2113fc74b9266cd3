"""Colour photographs included in scikit-image; nothing is downloaded."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import ResourceError, install
from petabatch.sources.gallery import Gallery
from petabatch.sources.orders import AnOrder, Random
from petabatch.sources.pictures import pictures
from petabatch.sources.view import View

Name = Literal[
    "astronaut",
    "chelsea",
    "coffee",
    "hubble_deep_field",
    "immunohistochemistry",
    "motorcycle_left",
    "motorcycle_right",
    "retina",
    "rocket",
]

_FILES = {
    "hubble_deep_field": "hubble_deep_field.jpg",
    "immunohistochemistry": "ihc.png",
    "retina": "retina.jpg",
    "rocket": "rocket.jpg",
}


class Photographs(View):
    """Colour photographs included in scikit-image, with 300 to 1411 rows and columns.

    Not shown by default, but available by name: `hubble_deep_field`, `immunohistochemistry` (a micrograph),
    `retina`, and `motorcycle_right` (the other half of a stereo pair).
    """

    type: Literal["photographs"] = "photographs"
    names: tuple[Name, ...] = ("astronaut", "chelsea", "coffee", "motorcycle_left", "rocket")
    """Names of the photographs to show."""
    exclude: tuple[Name, ...] = ()
    """Names of photographs to leave out, such as those held out for testing."""
    order: AnOrder = Field(default_factory=Random)
    """Order of the images; see the types of order."""

    @model_validator(mode="after")
    def _some_are_left(self) -> Photographs:
        if not self.selected:
            raise PydanticCustomError(
                "no_photographs", "no photograph is left", {"expected": "names that are not in `exclude`"}
            )
        return self

    @property
    def selected(self) -> tuple[str, ...]:
        """The names left after exclusion."""
        return tuple(name for name in self.names if name not in self.exclude)

    def gallery(self) -> Gallery:
        """Return the images, with the headers read."""
        return pictures(self.paths())

    def paths(self) -> list[str]:
        """Return the files; raises ResourceError if scikit-image is missing or does not include them."""
        # The files are opened directly: functions of skimage.data may download, and importing skimage is
        # slow.
        package = find_spec("skimage")
        if package is None or package.origin is None:
            raise ResourceError(
                "the photographs are part of scikit-image, which is not installed\n"
                f"    hint:     {install('images')}"
            )
        folder = Path(package.origin).parent / "data"
        paths = [folder / _FILES.get(name, f"{name}.png") for name in self.selected]
        if missing := [path.name for path in paths if not path.exists()]:
            raise ResourceError(
                f"the installed scikit-image does not include {', '.join(missing)}\n"
                f"    expected: these files in {folder}\n    hint:     install scikit-image from its wheel: "
                "pip install --force-reinstall scikit-image"
            )
        return [str(path) for path in paths]
