"""PetaVision's input layer: its choice of images and its normalisation, bit for bit."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from petabatch.errors import InputError, ParamsError, Problem
from petabatch.openpv.parameters import one_of
from petabatch.sources.memory import Data
from petabatch.sources.pixels import channels, convertible, largest
from petabatch.sources.transforms.normalize import petavision
from petabatch.spec.parts import Source


class Frames(Source):
    """Frames given in Python: slice b shows frame `index[item, b]`; the last item stays."""

    type: Literal["openpv_frames"] = "openpv_frames"
    data: Data
    """`[n, ny, nx, nf]`."""
    index: Data
    """`[items, batch]`."""

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return the reader; raises InputError if the arrays do not fit the layer and the batch."""
        data, index = self.data.array, self.index.array
        if data.shape[1:] != shape or index.ndim != 2 or index.shape[1] != batch:
            raise InputError(
                f"the input does not fit the layer\n"
                f"    found:    frames {list(data.shape[1:])} for {index.shape[-1]} slices\n"
                f"    expected: frames {list(shape)} for {batch} slices"
            )
        return lambda number, item: np.asarray(data[index[min(item, len(index) - 1), number]], np.float32)


def frames(p: Mapping[str, Any], images: np.ndarray, periods: int) -> Frames:
    """Return the frames shown of raw images `[n, height, width, c]` in `periods` displays.

    `p` has the parameters of `petabatch.openpv.DEFAULTS`.
    """
    shape = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    index = chosen(p, len(images), periods)
    data = np.stack([prepared(p, image, shape) for image in images])
    return Frames(data=data, index=index)


def chosen(p: Mapping[str, Any], count: int, periods: int) -> np.ndarray:
    """Return the index of the image shown in each period by each batch element, `[periods, nbatch]`.

    Source: PetaVision's `components/BatchIndexer.cpp:33-84`.
    """
    batch = int(p["nbatch"])
    element = np.arange(batch)
    start = np.zeros(batch, int) if p["start_frame_index"] is None else np.asarray(p["start_frame_index"])
    skip = np.ones(batch, int) if p["skip_frame_index"] is None else np.asarray(p["skip_frame_index"])
    rules: dict[str, tuple[np.ndarray, Any]] = {
        "byFile": (start + element, batch),
        "byImage": (start + element, batch),
        "byList": (start + element * (count // batch), 1),
        "byMovie": (start + element * (count // batch), 1),
        "bySpecified": (start, np.maximum(skip, 1)),
    }
    first, step = one_of("batchMethod", p["batchMethod"], rules)
    period = np.arange(periods)[:, None]
    if p["batchMethod"] == "bySpecified" and p["resetToStartOnLoop"]:
        period = period % -(-(count - first % count) // step)
    return np.asarray((first % count + period * step) % count)


def prepared(p: Mapping[str, Any], image: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return one image as shown by the layer: shifted, normalised, float32.

    Units of the layer outside the image are set to `padValue`. As in PetaVision
    (`InputActivityBuffer.cpp:722-870`), sums are accumulated sequentially in float32, and the variance, as
    mean square minus squared mean, is off by up to 2e-5.
    """
    (top, left), (height, width) = _corner(p, image.shape, shape), image.shape[:2]
    rows, columns = top + np.arange(shape[0]), left + np.arange(shape[1])
    rows, columns = ((at >= 0) & (at < n) for at, n in ((rows, height), (columns, width)))
    if not convertible(image.shape[2], shape[2]) or not (rows.any() and columns.any()):
        raise InputError(
            f"the image does not fit the layer\n    found:    {list(image.shape)}\n"
            f"    expected: pixels of {list(shape)} from row {top}, column {left}, 1 or 3 channels"
        )
    cut = image[max(top, 0) : top + shape[0], max(left, 0) : left + shape[1]]
    v = channels(cut.astype(np.float32) / np.float32(largest(image.dtype, "images")), shape[2])
    v = v.astype(np.float32)
    if p["normLum"]:
        v = petavision(v) if p["normStd"] else _ranged(v)
    if p["inverse"]:
        v = -v if p["normLum"] else np.asarray(v.max() + v.min() - v)
    out = np.full(shape, p["padValue"], np.float32)
    out[np.ix_(rows, columns)] = v
    return out


def _corner(p: Mapping[str, Any], image: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, int]:
    """Return the row and column of the image at the first row and column of the layer."""
    height, width = image[:2]
    tops = {"t": 0, "c": height // 2 - shape[0] // 2, "b": height - shape[0]}
    lefts = {"l": 0, "c": width // 2 - shape[1] // 2, "r": width - shape[1]}
    anchors = {y + x: (tops[y], lefts[x]) for y in tops for x in lefts}
    top, left = one_of("offsetAnchor", p["offsetAnchor"], anchors)
    return top + int(p["offsetY"]), left + int(p["offsetX"])


def _ranged(v: np.ndarray) -> np.ndarray:
    low, high = v.min(), v.max()
    return (v - low) * (np.float32(1) / (high - low)) if high > low else np.zeros_like(v)


def source(p: Mapping[str, Any], shown: Any, images: Any, display: int, steps: int) -> Frames:
    """Return the frames of the input layer: from raw `images` `[n, height, width, c]`, or from `shown`.

    Raises ParamsError unless exactly one of the two is given.
    """
    if (shown is None) == (images is None):
        raise ParamsError([Problem("", "give either `input` or `images`")], "openpv")
    if shown is None:
        return frames(p, np.asarray(images), periods=-(-steps // display))
    periods, batch = np.shape(shown)[:2]
    data = np.asarray(shown, np.float32).reshape(periods * batch, *np.shape(shown)[2:])
    return Frames(data=data, index=np.arange(periods * batch).reshape(periods, batch))
