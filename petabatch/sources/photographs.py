"""The colour photographs that come with scikit-image; nothing is ever downloaded."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from pydantic import model_validator
from pydantic_core import PydanticCustomError

from petabatch.errors import ResourceError
from petabatch.sources.gallery import Gallery
from petabatch.sources.pictures import pictures
from petabatch.sources.view import Order, View

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
    """Colour photographs from scikit-image's wheel, of 300 to 1411 rows and columns.

    `hubble_deep_field`, `immunohistochemistry` (a microscope's view), `retina` and `motorcycle_right` (the
    other half of a stereo pair) are shown only when they are named.
    """

    type: Literal["photographs"] = "photographs"
    names: tuple[Name, ...] = ("astronaut", "chelsea", "coffee", "motorcycle_left", "rocket")
    """The photographs to show."""
    exclude: tuple[Name, ...] = ()
    """Photographs to leave out, as those held back for testing."""
    order: Order = "random"

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
        """Find the files and read their headers."""
        return pictures(self.paths())

    def paths(self) -> list[str]:
        """Find the files; raises ResourceError when scikit-image is missing or came without them."""
        # The files themselves: skimage.data's functions may download, and importing skimage takes a while.
        package = find_spec("skimage")
        if package is None or package.origin is None:
            raise ResourceError(
                "the photographs come with scikit-image, which is not installed\n"
                '    hint:     pip install "petabatch[images]"'
            )
        folder = Path(package.origin).parent / "data"
        paths = [folder / _FILES.get(name, f"{name}.png") for name in self.selected]
        if missing := [path.name for path in paths if not path.exists()]:
            raise ResourceError(
                f"the installed scikit-image came without {', '.join(missing)}\n"
                f"    expected: them in {folder}\n    hint:     install scikit-image from its wheel: "
                f'pip install --force-reinstall "petabatch[images]"'
            )
        return [str(path) for path in paths]
