"""Files of PetaVision's input layers: lists, how many frames they have, and the shapes of these."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from petabatch.errors import InputError
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.part import Part
from petabatch.regular_files import read_text


def files_of(draft: Draft, part: Part) -> Table:
    """Return the type of source, and its files."""
    name = part.text("inputPath")
    if part.keyword == "PvpLayer":
        return {"type": "array", "file": draft.files.named(name)}
    found = _listed(draft, part, name)
    return {"type": "images", "files": draft.files.named(name) if found is None else found}


def _listed(draft: Draft, part: Part, name: str) -> list[str] | None:
    """Return the files of a list that names them relative to PetaVision's working directory.

    None for other files, for lists that name them relative to themselves, as petabatch reads them, and for
    lists of which no file is there.
    """
    path = draft.files.find(name)
    lines = [] if path is None else lines_of(path)
    if path is None or all((path.parent / line).exists() for line in lines):
        return None
    if not any(draft.files.find(line) for line in lines):
        part.differs(
            f"{name} names {len(lines)} files, such as {lines[0]}, of which none is there: their sizes are "
            "not known; --path OLD=NEW says where they are"
        )
        return None
    return [draft.files.named(line) for line in lines]


def lines_of(path: Path) -> list[str]:
    """Return the lines of a list of files, none of another file."""
    if path.suffix != ".txt":
        return []
    try:
        lines = [line.strip() for line in read_text(path).splitlines()]
    except (OSError, UnicodeDecodeError):
        return []
    return [line for line in lines if line]


def shapes_of(draft: Draft, part: Part) -> list[tuple[int, int, int]]:
    """Return the shapes of the images, as far as they can be read."""
    gallery = _gallery(draft, part)
    return [] if gallery is None else [shape for shape in dict.fromkeys(gallery.shapes) if 0 not in shape]


def frames_of(draft: Draft, part: Part) -> int:
    """Return how many frames the files have, 0 where that is not known."""
    path = draft.files.find(part.text("inputPath"))
    lines = lines_of(path) if path is not None and part.keyword == "ImageLayer" else []
    if lines:  # each is a frame, also of images that are not there
        return len(lines)
    gallery = _gallery(draft, part)
    return 0 if gallery is None else len(gallery.shapes)


def _gallery(draft: Draft, part: Part) -> Any:
    from petabatch.errors import ResourceError
    from petabatch.sources.array import ImageArray
    from petabatch.sources.images import Images

    path: Path | None = draft.files.find(part.text("inputPath"))
    if path is None:
        return None
    try:
        if part.keyword == "PvpLayer":
            return ImageArray(file=str(path)).gallery()
        lines = lines_of(path)
        if not lines or all((path.parent / line).exists() for line in lines):
            return Images(files=str(path)).gallery()
        found = tuple(str(one) for one in map(draft.files.find, lines) if one is not None)
        return Images(files=found).gallery() if found else None
    except (InputError, ResourceError) as error:
        part.refuse("inputPath", str(error).replace("\n", "\n    "))
