"""The images that a run showed: from the display and slice of a recorded value to a file, frame and crop."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from petabatch.clock import Clock
from petabatch.errors import NotRecorded
from petabatch.results.series import Series
from petabatch.storage.gaps import steps_text

_EVERY = re.compile(r"(?:(\d+) )?(step|display)s?")
"""A schedule in params; `petabatch.spec.schedule`, which reads it otherwise, needs pydantic."""


class ShownImage(NamedTuple):
    """What a slice saw in one display."""

    file: str
    """The file; of sources without files, the name of the image."""
    place: int
    """Number of the image in its file, 0 if it has only one."""
    item: int
    """Number of the image or film in the source."""
    frame: int
    """Frame of the film; 0 for still images."""
    crop: tuple[int, int]
    """First row and column of the part that was shown."""


def display_period(params: Mapping[str, Any], layer: str, display: int) -> float:
    """Return for how many steps an input layer shows an image; infinite if it shows only one."""
    every = params.get("layers", {}).get(layer, {}).get("every")
    found = _EVERY.fullmatch(str(every))
    if found is None:
        return math.inf
    count = int(found[1] or 1)
    return float(Clock(display).length(count)) if found[2] == "display" else count


def traced(
    group: Any, item: Series, frame: Series, crop: Series, step: int, slice_: int, period: float
) -> ShownImage:
    """Return what a slice saw in the display to which `step` belongs; `group` is `/inputs/<layer>`.

    `period` is the length of a display of the layer, in steps. Raises NotRecorded if that display had not
    ended when the run did, or was before the first one that is recorded.
    """
    ends = item.steps
    row = int(np.searchsorted(ends, step))
    first = max(0, ends[0] - period) if len(ends) else 0
    if item.gaps and row < len(ends) and first < step <= ends[row] - period:
        raise NotRecorded(f"{item.name}: what was shown at step {step} is lost, with {steps_text(item.gaps)}")
    if step <= first or row == len(ends):
        last = f"steps {first + 1:.0f} to {ends[-1]}" if len(ends) else "no display has ended"
        raise NotRecorded(
            f"{item.name}: what was shown is not recorded\n    found:    step {step}\n"
            f"    expected: a step of a display that has ended: {last}"
        )
    end = int(ends[row])
    number = int(item.at(step=end, slice=slice_))
    firsts = group["first_item"][()]
    holder = int(np.searchsorted(firsts, number, "right")) - 1
    y, x = (int(corner) for corner in crop.at(step=end, slice=slice_))
    name = group["files"].asstr(errors="surrogateescape")[holder]
    place = number - int(firsts[holder])
    return ShownImage(name, place, number, int(frame.at(step=end, slice=slice_)), (y, x))
