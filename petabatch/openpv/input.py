"""What the original's input layer shows: its choice of images and its normalisation, to the last bits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy as np

from petabatch.errors import InputError, ParamsError, Problem
from petabatch.sources.memory import Data
from petabatch.spec.parts import Source


class Frames(Source):
    """Frames handed over in Python: slice b shows frame `index[item, b]`; the last item stays."""

    type: Literal["openpv_frames"] = "openpv_frames"
    data: Data
    """`[n, ny, nx, nf]`."""
    index: Data
    """`[items, batch]`."""

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Callable[[int, int], np.ndarray]:
        """Return the reader; raises InputError unless the arrays fill the layer and the batch."""
        data, index = self.data.array, self.index.array
        if data.shape[1:] != shape or index.ndim != 2 or index.shape[1] != batch:
            raise InputError(
                f"the input does not fill the layer\n"
                f"    found:    frames {list(data.shape[1:])} for {index.shape[-1]} slices\n"
                f"    expected: frames {list(shape)} for {batch} slices"
            )
        return lambda number, item: np.asarray(data[index[min(item, len(index) - 1), number]], np.float32)


def frames(p: Mapping[str, Any], images: np.ndarray, periods: int) -> Frames:
    """Return what the input layer shows of raw images `[n, height, width, c]` in `periods` displays.

    `p` has the parameters of `petabatch.openpv.DEFAULTS`.
    """
    shape = (int(p["ny"]), int(p["nx"]), int(p["nfin"]))
    index = chosen(p, len(images), periods)
    data = np.stack([prepared(p, image, shape) for image in images])
    return Frames(data=data, index=index)


def chosen(p: Mapping[str, Any], count: int, periods: int) -> np.ndarray:
    """Return the number of the image shown in each period by each element, `[periods, nbatch]`.

    (`components/BatchIndexer.cpp:33-84`)
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
    if p["batchMethod"] not in rules:
        raise ParamsError(
            [
                Problem(
                    "batchMethod", "this is not supported", found=p["batchMethod"], expected=", ".join(rules)
                )
            ],
            "openpv",
        )
    first, step = rules[p["batchMethod"]]
    return np.asarray((first[None] + np.arange(periods)[:, None] * step) % count)


def prepared(p: Mapping[str, Any], image: np.ndarray, shape: tuple[int, int, int]) -> np.ndarray:
    """Return one image as the layer shows it: cut at the offset, normalised, float32.

    (`InputActivityBuffer.cpp:757-870`) Sums run in float32 one pixel after the other, as the original's do;
    the mean of the squares less the square of the mean is up to 2e-5 off the exact variance.
    """
    y, x = int(p["offsetY"]), int(p["offsetX"])
    cut = image[y : y + shape[0], x : x + shape[1]]
    if cut.shape != shape:
        raise InputError(
            f"the image does not fill the layer\n    found:    {list(cut.shape)} of {list(image.shape)}\n"
            f"    expected: {list(shape)} from row {y}, column {x}"
        )
    largest = np.float32(np.iinfo(image.dtype).max if image.dtype.kind == "u" else 1)
    v: np.ndarray = cut.astype(np.float32) / largest
    if p["normLum"]:
        v = _standard(v) if p["normStd"] else _ranged(v)
    if p["inverse"]:
        v = -v if p["normLum"] else np.asarray(v.max() + v.min() - v)
    return v


def _standard(v: np.ndarray) -> np.ndarray:
    count = np.float32(v.size)
    flat = v.ravel()
    # cumsum adds in order; sum adds in pairs.
    mean = np.cumsum(flat, dtype=np.float32)[-1] / count
    variance = np.cumsum(flat * flat, dtype=np.float32)[-1] / count - mean * mean
    return (v - mean) / np.sqrt(variance) if variance > 0 else np.zeros_like(v)


def _ranged(v: np.ndarray) -> np.ndarray:
    low, high = v.min(), v.max()
    return (v - low) * (np.float32(1) / (high - low)) if high > low else np.zeros_like(v)


def source(p: Mapping[str, Any], shown: Any, images: Any, display: int, steps: int) -> Frames:
    """Return what the input layer shows: of `images` `[n, height, width, c]`, or as `shown` has it.

    Raises ParamsError unless one of the two is given.
    """
    if (shown is None) == (images is None):
        raise ParamsError([Problem("", "give either `input` or `images`")], "openpv")
    if shown is None:
        return frames(p, np.asarray(images), periods=-(-steps // display))
    periods, batch = np.shape(shown)[:2]
    data = np.asarray(shown, np.float32).reshape(periods * batch, *np.shape(shown)[2:])
    return Frames(data=data, index=np.arange(periods * batch).reshape(periods, batch))
