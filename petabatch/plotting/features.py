"""Plot of single features and the image patches that drive them most."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.pixels import about_zero, pictures
from petabatch.plotting.figures import MUTED, height_of, panels, styled, width_of
from petabatch.plotting.options import Connection, Grey, Option, Title
from petabatch.plotting.patches import Dictionary, read_dictionary
from petabatch.plotting.select import code_layer, image_layer, percent, spread, when
from petabatch.plotting.strongest import cut, strongest
from petabatch.plotting.texts import capital, heading
from petabatch.plotting.tiles import frame, label, mosaic, show
from petabatch.results import Results
from petabatch.results.series import Series
from petabatch.results.use import use_of


class Found(NamedTuple):
    """What there is to draw."""

    dictionary: Dictionary
    code: Series
    image: Series


def find(run: Results, connection: str | None = None) -> Found:
    """Return the dictionary, the code and the images, which must all have been recorded."""
    dictionary = read_dictionary(run, connection)
    code = code_layer(run, dictionary.code)
    shape = tuple(run.params["layers"][dictionary.onto]["shape"])
    return Found(dictionary, code, image_layer(run, shape=shape))


@styled
def features(
    run: Results,
    *,
    number: Annotated[
        Sequence[int], Option("features to draw (default: four, from the most to the least used)")
    ] = (),
    connection: Connection = None,
    count: Annotated[int, Option("number of image patches", least=1)] = 12,
    grey: Grey = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return single features, each with the image patches that drive it most and their activity.

    Patches come from the latest recorded codes, at most one from each image shown. Those of a feature share
    one grey or colour scale; what lies beyond the edge of the image is pale.
    """
    found = find(run, connection)
    use = use_of(found.code)
    numbers = [int(each) for each in (number or spread(use, 4))]
    for each in numbers:
        if not 0 <= each < len(use):
            raise InputError(
                f"{run.path}: there is no feature {each}\n    expected: features from 0 to {len(use) - 1}"
            )
    driven = strongest(run, found.code, found.image, count)
    count = max([1, *(len(driven[each]) for each in numbers)])
    wide = width_of(figure) - 0.2
    count = min(count, max(1, int((wide - 0.9) / 0.42)))
    row = min(0.95, (height_of(figure) - 0.4) / len(numbers))
    figure, axes = panels(figure, 0.4 + row * len(numbers), len(numbers), 2, width_ratios=[0.8, wide - 0.8])
    beyond = False
    for (left, right), each in zip(axes, numbers, strict=True):
        pixels = pictures(about_zero(found.dictionary.weights[each]), grey)
        show(left, pixels)
        frame(left, pixels.shape[:2])
        left.set_title(f"{each}, active {percent(use[each])}", fontsize=7, pad=2)
        patches = [cut(found.image, found.dictionary, unit) for unit in driven[each][:count]]
        if not patches:
            right.text(0, 0.5, "Inactive in all codes", color=MUTED, va="center")
            right.set_axis_off()
            continue
        values = np.stack(patches)
        beyond |= bool(np.isnan(values).any())
        low, high = np.nanmin(values), np.nanmax(values)
        scaled = pictures(np.nan_to_num((values - low) / ((high - low) or 1.0), nan=0.93), grey)
        blank = np.ones((count - len(scaled), *scaled.shape[1:]))
        laid = mosaic(np.concatenate([scaled, blank]), count, wide - 1.0, 6, tallest=row - 0.1)
        show(right, laid.image)
        shown = laid._replace(corners=laid.corners[: len(patches)])
        label(right, shown, [_short(unit.activity) for unit in driven[each][:count]])
    step = when(run, found.dictionary.step)
    name = capital(found.dictionary.connection)
    pale = "; pale: beyond the image" if beyond else ""
    heading(
        figure,
        title,
        f"{name}, {step}: features, the image patches that drive them most, and the activity{pale}",
    )
    return figure


def _short(activity: float) -> str:
    """Return an activity in about five characters."""
    if 0.1 <= abs(activity) < 100:
        return f"{activity:.2f}"
    return f"{activity:.2g}" if 1e-3 <= abs(activity) < 0.1 else f"{activity:.0e}".replace("e+0", "e")
