"""What PetaVision's input layers make of an image: its part, its size, its normalisation."""

from __future__ import annotations

from petabatch.geometry import GeometryError, Link, make_link
from petabatch.petavision.delivery import leaving, root
from petabatch.petavision.draft import Draft, Table
from petabatch.petavision.image_files import shapes_of
from petabatch.petavision.part import Part
from petabatch.petavision.pooling import window_of
from petabatch.sources.transforms import Resize

_ANCHORS = {
    y + x: f"{row}_{column}".strip("_") if row and column else row or column or "center"
    for y, row in (("t", "top"), ("c", ""), ("b", "bottom"))
    for x, column in (("l", "left"), ("c", ""), ("r", "right"))
}


def transforms(draft: Draft, part: Part) -> Table:
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
    shapes = shapes_of(draft, part)
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
    shapes = {resize.result(shape, (*frame, 1))[:2] for shape in shapes_of(draft, part)}
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
