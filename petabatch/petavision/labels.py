"""PetaVision's layers that show the classes that the names of image files say."""

from __future__ import annotations

import math

from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.image_files import lines_of
from petabatch.petavision.images import order, shown
from petabatch.petavision.part import Part


def parsed(draft: Draft, part: Part) -> Table:
    """Return the keys of classes whose texts are in the names.

    Source: PetaVision's `FilenameParsingActivityBuffer.cpp`.
    """
    output = draft.column.optional_text("outputPath") or "output"
    name = part.optional_text("classList") or f"{output.rstrip('/')}/classes.txt"
    path = draft.files.find(name)
    if path is not None and (count := len(lines_of(path))) != part.whole("nf"):
        part.refuse("classList", "there is not one feature for each class", str(part.whole("nf")), str(count))
    values = part.finite("gtClassTrueValue"), part.finite("gtClassFalseValue")
    return _labels(draft, part, "inputLayerName", {"classes": draft.files.named(name)}, values)


def numbered(draft: Draft, part: Part) -> Table:
    """Return the keys of classes whose numbers are in the names, of unit length. Source: `LabelLayer.cpp`."""
    count, first, length = (part.whole(key) for key in ("nf", "labelStart", "labelLength"))
    if first < 0 or length < 1 or count < 2:
        part.refuse("labelLength", "these are no characters of a name", f"{length} from {first} on")
    values = math.sqrt((count - 1) / count), -1 / math.sqrt((count - 1) * count)
    return _labels(draft, part, "movieLayerName", {"classes": count, "digits": [first, length]}, values)


def _labels(draft: Draft, part: Part, key: str, classes: Table, values: tuple[float, float]) -> Table:
    """Return the keys of an input layer that shows the labels of what another one shows."""
    original = draft.named(part, key, "layer")
    if original.keyword != "ImageLayer":
        part.refuse(key, "this layer shows no image files", original.keyword)
    name = original.text("inputPath")
    path = draft.files.find(name)
    listed = name.endswith(".txt") and (path is None or bool(lines_of(path)))
    source: Table = {"type": "labels", "names": draft.files.named(name) if listed else [name], **classes}
    on, off = values
    source |= ({"on": on} if on != 1 else {}) | ({"off": off} if off else {})
    ny, nx, _ = draft.shape(part)
    if (ny, nx) != (1, 1):
        source["transforms"] = [{"type": "resize", "interpolation": "nearest"}]
    return {"type": "input", **shown(draft, original), "source": source | order(draft, original)}
