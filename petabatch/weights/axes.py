"""Dictionaries with the axes of other programs, named by letters as in PyTorch: "oihw"."""

from __future__ import annotations

from itertools import permutations
from typing import Annotated

import numpy as np
from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

from petabatch.errors import InputError

OURS = "ohwi"
"""Feature, patch row, patch column, channel of the image."""


def _validate(axes: str) -> str:
    if sorted(axes) not in (sorted(OURS), sorted("ohw")):
        raise PydanticCustomError(
            "axes",
            "these are not the axes of a dictionary",
            {
                "got": repr(axes),
                "expected": "the letters o (feature), h and w (patch row and column) and, unless images are "
                'grey, i (channel of the image), in the order of the array: "oihw" for PyTorch',
            },
        )
    return axes


Axes = Annotated[str, AfterValidator(_validate)]
"""The axes of an array, such as `oihw`."""


def arranged(values: np.ndarray, axes: str, name: str) -> np.ndarray:
    """Return an array with these axes as `[feature, patch row, patch column, channel]`.

    Raises InputError if it has another number of axes.
    """
    if values.ndim != len(axes):
        raise InputError(
            f"{name}: the number of axes is not that of `axes`\n"
            f"    found:    {list(values.shape)}, {len(values.shape)} axes\n"
            f'    expected: {len(axes)} axes, "{axes}"'
        )
    missing = [axis for axis in OURS if axis not in axes]  # the channel of grey images
    whole = values.reshape(*values.shape, *(1,) * len(missing))
    order = axes + "".join(missing)
    return whole.transpose([order.index(axis) for axis in OURS])


def likely_axes(found: tuple[int, ...], expected: tuple[int, ...]) -> str:
    """Return the axes with which a shape would be the expected one, `[o, h, w, i]`; empty if there are none.

    Of several, the one that keeps rows before columns is returned.
    """
    if len(found) != len(OURS) or tuple(found) == tuple(expected):
        return ""
    lengths = dict(zip(OURS, expected, strict=True))
    fitting = [axes for axes in permutations("oihw") if tuple(lengths[axis] for axis in axes) == tuple(found)]
    fitting.sort(key=lambda axes: axes.index("h") > axes.index("w"))
    return "".join(fitting[0]) if fitting else ""
