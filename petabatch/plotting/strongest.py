"""The image patches that drive each feature most."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from petabatch.plotting.patches import Dictionary
from petabatch.plotting.select import common_step
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import latest_codes


class Driven(NamedTuple):
    """A unit that an image made strongly active."""

    activity: float
    step: int
    slice: int
    row: int
    column: int


def strongest(run: Results, code: Series, image: Series, count: int) -> list[list[Driven]]:
    """Return, for each feature, the `count` units that were most active, at most one of each image shown.

    Of the recorded codes, the latest are searched whose image was recorded at the same step.
    """
    common_step(run, code, image)
    steps = code.steps
    found: list[list[Driven]] = [[] for _ in range(code.shape[-1])]
    least = np.zeros(code.shape[-1])
    for time, slice_ in latest_codes(code, among=image.steps):
        values = code[time, slice_]
        flat = values.reshape(-1, values.shape[-1])
        places = np.abs(flat).argmax(axis=0)
        peaks = np.take_along_axis(flat, places[None], axis=0)[0]
        for feature in np.flatnonzero(np.abs(peaks) > least):
            row, column = divmod(int(places[feature]), values.shape[1])
            kept = [*found[feature], Driven(float(peaks[feature]), int(steps[time]), slice_, row, column)]
            kept = sorted(kept, key=lambda unit: -abs(unit.activity))[:count]
            found[feature] = kept
            least[feature] = abs(kept[-1].activity) if len(kept) == count else 0.0
    return found


def cut(image: Series, dictionary: Dictionary, unit: Driven, outside: float = np.nan) -> np.ndarray:
    """Return the image under the patch of a unit, `[py, px, channel]`; `outside` is beyond its edge."""
    time = int(np.flatnonzero(image.steps == unit.step)[0])
    top, left = dictionary.y.start(unit.row), dictionary.x.start(unit.column)
    height, width = dictionary.weights.shape[1:3]
    ny, nx = image.shape[2:4]
    rows, columns = slice(max(0, top), min(ny, top + height)), slice(max(0, left), min(nx, left + width))
    patch = np.full((height, width, image.shape[-1]), outside)
    patch[rows.start - top : rows.stop - top, columns.start - left : columns.stop - left] = image[
        time, unit.slice, rows, columns
    ]
    return patch
