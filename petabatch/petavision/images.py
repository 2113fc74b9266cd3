"""PetaVision's input layers: files, their order, and what is made of an image."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import InputError
from petabatch.geometry import GeometryError, Link, make_link
from petabatch.petavision.delivery import leaving, root
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.part import Part
from petabatch.petavision.pooling import window_of
from petabatch.regular_files import read_text, regular
from petabatch.sources.transforms import Resize

_ANCHORS = {
    y + x: f"{row}_{column}".strip("_") if row and column else row or column or "center"
    for y, row in (("t", "top"), ("c", ""), ("b", "bottom"))
    for x, column in (("l", "left"), ("c", ""), ("r", "right"))
}


def source(draft: Draft, part: Part) -> Table:
    """Return the keys of an input layer: how long each image is shown, the border, the source."""
    found: Table = {}
    period, _ = draft.schedule(part)
    if period != (draft.display or 1):
        found["every"] = draft.every(period)
    if part.flag("useInputBCflag"):
        found["border"] = "image"
    for key in ("xFlipToggle", "yFlipToggle"):
        part.only(key, hint="transforms of the images beforehand")
    return found | {"source": _files(draft, part) | _order(draft, part) | _transforms(draft, part)}


def seeds(draft: Draft) -> None:
    """Give sources that make random choices seeds of their own, where those of PetaVision differ."""
    found: dict[str, int] = {}
    for name, table in draft.layers.items():
        part = draft.origin["layers", name]
        if part.keyword == "InputRegionLayer":
            part = draft.named(part, "originalLayerName", "layer")
        if table["type"] == "input" and (
            table["source"].get("order") == "shuffled"
            or any(
                step["type"] == "flip" or "jitter" in step for step in table["source"].get("transforms", ())
            )
        ):
            found[name] = int(abs(part.finite("randomSeed")))
    for name, seed in found.items() if len(set(found.values())) > 1 else ():
        draft.layers[name]["source"]["seed"] = seed


def _files(draft: Draft, part: Part) -> Table:
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
    lines = [] if path is None else _lines(path)
    if path is None or all((path.parent / line).exists() for line in lines):
        return None
    if not any(draft.files.find(line) for line in lines):
        part.differs(
            f"{name} names {len(lines)} files, such as {lines[0]}, of which none is there: their sizes are "
            "not known; --path OLD=NEW says where they are"
        )
        return None
    return [draft.files.named(line) for line in lines]


def _lines(path: Path) -> list[str]:
    """Return the lines of a list of files, none of another file."""
    if path.suffix != ".txt":
        return []
    try:
        lines = [line.strip() for line in read_text(path).splitlines()]
    except (OSError, UnicodeDecodeError):
        return []
    return [line for line in lines if line]


def _order(draft: Draft, part: Part) -> Table:
    """Return the order of the images.

    Source: PetaVision's `BatchIndexer.cpp:33-84`.
    """
    batch = draft.batch
    method = part.choice(
        "batchMethod",
        {
            "byFile": "file",
            "byImage": "file",
            "byList": "list",
            "byMovie": "list",
            "bySpecified": "given",
            "random": "random",
        },
    )
    first = _indices(part, "start_frame_index", batch, 0)
    if method == "random":
        part.differs("the random order is another")
        return {"order": "shuffled"}
    if method == "list" and not any(first):
        return {"order": "by_movie"} if batch > 1 else {}
    skip = [batch] * batch
    if method == "given":
        skip = [max(1, step) for step in _indices(part, "skip_frame_index", batch, 1)]
        part.only("resetToStartOnLoop", hint="a list of files in which those before the first are left out")
    elif method == "list":
        count = _frames(draft, part)
        if not count:
            part.refuse(
                "start_frame_index", "the files that are shown are not there, to be counted",
                hint="--path OLD=NEW, or bySpecified",
            )  # fmt: skip
        first = [index + number * (count // batch) for number, index in enumerate(first)]
        skip = [1] * batch
    else:
        first = [index + number for number, index in enumerate(first)]
    if (numbers := draft.checkpoint_file(part, "FrameNumbers.bin")) is not None:
        first = _next_frames(draft, part, numbers)
    part.read |= {"resetToStartOnLoop", "skip_frame_index"} if method == "given" else set()
    if first == list(range(batch)) and skip == [batch] * batch:
        return {}
    count = _frames(draft, part)
    if count:
        first = [index % count for index in first]
    order: Table = {"type": "specified", "start": first}
    alike = skip[0] if len(set(skip)) == 1 else skip
    return {"order": order | ({"skip": alike} if alike != 1 else {})}


def _next_frames(draft: Draft, part: Part, name: str) -> list[int]:
    """Return the frame that each batch element shows next, from a checkpoint."""
    path = draft.files.find(name)
    if path is None:
        part.differs(f"{name} is not there: the first frames are shown")
        return list(range(draft.batch))
    try:
        found = np.fromfile(regular(path), "<i4")
    except OSError as error:
        part.refuse("initializeFromCheckpointFlag", f"{name} cannot be read: {error.strerror}")
    if found.size == 0 or found.min() < 0:
        part.refuse("initializeFromCheckpointFlag", f"{name} is damaged")
    return [int(found[number % found.size]) for number in range(draft.batch)]


def _indices(part: Part, key: str, batch: int, default: int) -> list[int]:
    given = part.numbers(key)
    if not given:
        return [default] * batch
    if any(not value.is_integer() or not 0 <= value < 2**31 for value in given):
        part.refuse(key, "these are not numbers of frames", str(list(given)))
    if not any(given):
        return [default] * batch
    if len(given) != batch:
        part.refuse(key, "there is not one number for each batch element", str(len(given)), str(batch))
    return [int(value) for value in given]


def _transforms(draft: Draft, part: Part) -> Table:
    """Return what is made of an image: its part, its size, its normalisation.

    Source: PetaVision's `InputActivityBuffer.cpp:722-870`.
    """
    anchor = part.choice("offsetAnchor", _ANCHORS)
    x, y = part.whole("offsetX"), part.whole("offsetY")
    normal = _normalisation(part)
    flips = [
        {"type": "flip", **({} if axis == "x" else {"direction": "vertical"})}
        for axis in "xy"
        if part.flag(f"{axis}FlipEnabled")
    ]
    jitter = _jitter(part, bool(flips))
    if part.flag("autoResizeFlag"):
        return {"transforms": _resized(draft, part, anchor, (y, x), normal)}
    shapes = _shapes(draft, part)
    ny, nx = frame_of(draft, part)
    if any(jitter) or flips:
        crop: Table = {"type": "crop", "position": anchor}
        crop |= ({"offset": [y, x]} if x or y else {}) | ({"jitter": jitter} if any(jitter) else {})
        return {"transforms": [crop, *normal, *flips]}
    corners = {_corner(anchor, shape, (ny, nx), (y, x)) for shape in shapes}
    if all(_inside(_corner(anchor, shape, (ny, nx), (y, x)), shape, (ny, nx)) for shape in shapes):
        if len(normal) > 1 or normal[:1] == [{"type": "invert"}]:
            at: Table = {"offset": [y, x]} if x or y else {}
            return {"transforms": [{"type": "crop", "position": anchor} | at, *normal]}
        found: Table = {"normalize": normal[0]["method"]} if normal else {}
        if {shape[:2] for shape in shapes} == {(ny, nx)}:
            return found
        if len(corners) == 1 and anchor != "top_left":
            ((top, left),) = corners
            return found | {"crop": "top_left"} | ({"offset": [top, left]} if top or left else {})
        return found | {"crop": anchor} | ({"offset": [y, x]} if x or y else {})
    if len({shape[:2] for shape in shapes}) > 1:
        if x or y:
            part.refuse("offsetX", "an offset of images of several sizes, some smaller, is not supported")
        pad = part.finite("padValue")
        pads = {"type": "pad", "position": anchor} | ({"value": pad} if pad else {})
        if normal:
            part.differs("added pixels take part in the normalisation")
        return {"transforms": [pads, {"type": "crop", "position": anchor}, *normal]}
    return {"transforms": _padded(part, shapes[0], (ny, nx), corners.pop(), normal, part.finite("padValue"))}


def _padded(
    part: Part,
    shape: tuple[int, ...],
    layer: tuple[int, int],
    corner: tuple[int, int],
    normal: list[Table],
    pad: float,
) -> list[Table]:
    """Return the steps for images of one size, of which the layer shows a part, and pixels around it."""
    first = [max(at, 0) for at in corner]
    size = [
        min(n, at + wanted) - low for n, at, wanted, low in zip(shape, corner, layer, first, strict=False)
    ]
    if min(size) <= 0:
        part.refuse("offsetX", "the offset moves the image out of the layer")
    crop: Table = {"type": "crop", "size": size, "position": "top_left"}
    place = [max(-at, 0) for at in corner]
    return [
        *([] if size == list(shape[:2]) else [crop | ({"offset": first} if any(first) else {})]),
        *normal,
        {"type": "pad", "position": "top_left"}
        | ({"offset": place} if any(place) else {})
        | ({"value": pad} if pad else {}),
    ]


def _normalisation(part: Part) -> list[Table]:
    inverse, found = part.flag("inverseFlag"), list[Table]()
    if part.flag("normalizeLuminanceFlag"):
        found.append(
            {"type": "normalize", "method": "petavision" if part.flag("normalizeStdDev") else "range"}
        )
    if inverse:
        found.append({"type": "invert"} | ({"around": "zero"} if found else {}))
    return found


def _jitter(part: Part, flips: bool) -> list[int]:
    interval = part.finite("jitterChangeInterval")
    if interval <= 0 and not flips:
        return [0, 0]
    unit = part.choice("jitterChangeIntervalUnit", {"displayPeriod": True, "timestep": False})
    shift = [part.whole("maxShiftY"), part.whole("maxShiftX")]
    if interval != 1 or not unit:
        part.refuse(
            "jitterChangeInterval", "jitter changes with each image alone", expected="1 displayPeriod"
        )
    part.differs("the random shifts and flips are others")
    return shift


def _resized(
    draft: Draft, part: Part, anchor: str, offset: tuple[int, int], normal: list[Table]
) -> list[Table]:
    """Return the steps for images that are resized, then moved by the offset."""
    cover = part.choice("aspectRatioAdjustment", {"crop": True, "pad": False})
    kinds = {"bicubic": "cubic", "nearestNeighbor": "nearest"}
    kind = part.choice("interpolationMethod", kinds)
    frame = frame_of(draft, part)
    resize = Resize(size=frame, fit="cover" if cover else "contain")
    first: Table = {"type": "resize", "fit": resize.fit, "interpolation": kind}
    pad = part.finite("padValue")
    if offset == (0, 0):
        crop: Table = {"type": "crop", "position": anchor}
        if cover:
            return [first, crop, *normal]
        return [first, *normal, {"type": "pad", "position": anchor} | ({"value": pad} if pad else {})]
    if cover:
        padded = _padded(part, frame, frame, offset, normal, pad)
        return [first, {"type": "crop", "position": anchor, "size": list(frame)}, *padded]
    shapes = {resize.result(shape, (*frame, 1))[:2] for shape in _shapes(draft, part)}
    if len(shapes) != 1:
        part.refuse("offsetX", "an offset of images of several proportions that are resized is not supported")
    (shape,) = shapes
    return [first, *_padded(part, shape, frame, _corner(anchor, shape, frame, offset), normal, pad)]


def frame_of(draft: Draft, part: Part) -> tuple[int, int]:
    """Return the rows and columns of a layer, of the image around it those that its connections see, too."""
    ny, nx, _ = draft.shape(part)
    rows, columns = 0, 0
    for one, post in leaving(draft, part) if part.flag("useInputBCflag") else ():
        if (link := _link(draft, one, part, post)) is not None:
            y, x = link.patches.y, link.patches.x
            rows = max(rows, y.margin if link.scatter else max(y.before, y.after))
            columns = max(columns, x.margin if link.scatter else max(x.before, x.after))
    return ny + 2 * rows, nx + 2 * columns


def _link(draft: Draft, part: Part, pre: Part, post: Part) -> Link | None:
    """Return the patches of a connection from an input layer, None of one that sees no margin."""
    owner, turned = root(draft, part)
    first, second = _sizes(draft.shape(pre)), _sizes(draft.shape(post))
    try:
        if part.keyword == "PoolingConn":
            (rows, columns), _ = window_of(draft, part, pre, post)
            link = make_link(first, second, (rows, columns), True, True, window=True)
            return link.transposed.with_margin(False) if first == second else link
        if "nxp" not in owner.kind.keys or owner.keyword == "PoolingConn":
            return None
        first, second = (second, first) if turned else (first, second)
        link = make_link(first, second, (owner.whole("nyp"), owner.whole("nxp")), True, True)
    except GeometryError:  # told of by what checks the network
        return None
    return link.transposed.with_margin(True) if turned else link


def _sizes(shape: list[int]) -> tuple[int, int, int]:
    ny, nx, nf = shape
    return ny, nx, nf


def _corner(
    anchor: str, shape: tuple[int, ...], layer: tuple[int, int], offset: tuple[int, int]
) -> tuple[int, int]:
    """Return the row and column of the image at the first row and column of the layer."""
    found = []
    for axis, (low, high) in enumerate((("top", "bottom"), ("left", "right"))):
        size, wanted = shape[axis], layer[axis]
        at = 0 if low in anchor else size - wanted if high in anchor else size // 2 - wanted // 2
        found.append(at + offset[axis])
    return found[0], found[1]


def _inside(corner: tuple[int, int], shape: tuple[int, ...], layer: tuple[int, int]) -> bool:
    return all(0 <= at <= n - wanted for at, n, wanted in zip(corner, shape, layer, strict=False))


def _shapes(draft: Draft, part: Part) -> list[tuple[int, int, int]]:
    """Return the shapes of the images, as far as they can be read."""
    gallery = _gallery(draft, part)
    return [] if gallery is None else [shape for shape in dict.fromkeys(gallery.shapes) if 0 not in shape]


def _frames(draft: Draft, part: Part) -> int:
    path = draft.files.find(part.text("inputPath"))
    lines = _lines(path) if path is not None and part.keyword == "ImageLayer" else []
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
        lines = _lines(path)
        if not lines or all((path.parent / line).exists() for line in lines):
            return Images(files=str(path)).gallery()
        found = tuple(str(one) for one in map(draft.files.find, lines) if one is not None)
        return Images(files=found).gallery() if found else None
    except (InputError, ResourceError) as error:
        part.refuse("inputPath", str(error).replace("\n", "\n    "))
