"""Plot of the code of one slice as maps of its strongest features."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.pixels import pictures
from petabatch.plotting.figures import heading, panels, styled
from petabatch.plotting.options import Code, Columns, DisplayForStep, Grey, Option, Slice, Step, Title
from petabatch.plotting.select import check_slice, code_layer, image_layer, when
from petabatch.plotting.tiles import columns_of, frame, label, mosaic, show
from petabatch.results import Results
from petabatch.results.series import Series


def find(run: Results, name: str | None = None) -> Series:
    """Return the activity of a code layer."""
    return code_layer(run, name)


@styled
def code(
    run: Results,
    *,
    code: Code = None,
    step: Step = None,
    display: DisplayForStep = None,
    slice: Slice = 0,
    count: Annotated[int, Option("number of features", least=1)] = 24,
    columns: Columns = None,
    grey: Grey = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return the code of one slice: maps of the strongest features, beside the image if it was recorded.

    The features with the largest sums of absolute activity are shown, the strongest first, in one
    colour scale.
    """
    series = find(run, code)
    number = check_slice(run, slice)
    time = series.index(step=step, display=display)
    step = int(series.steps[-1 if time is None else time])
    values = series.at(step=step, slice=number).astype(float)
    strength = np.abs(values).sum(axis=(0, 1))
    order = np.argsort(-strength, kind="stable")[:count]
    order = order[strength[order] > 0]
    if not order.size:
        raise InputError(f"{run.path}: {series.name} is silent at step {step} in slice {number}")
    image = _image(run, step, number)
    maps = np.moveaxis(values[:, :, order], -1, 0)
    columns = columns or columns_of(len(order), maps.shape[1] / maps.shape[2])
    laid = mosaic(maps[..., None], columns, 6.4, 4, gap=np.nan)
    left, wide = 0.0 if image is None else 2.2, laid.inches + 0.9
    figure, axes = panels(
        figure, (max(4.6, left + wide), max(2.2, laid.tall + 0.6)), 1, 1 if image is None else 2,
        **({} if image is None else {"width_ratios": [left, wide]}),
    )  # fmt: skip
    if image is not None:
        low, high = image.min(), image.max()
        show(axes[0, 0], pictures((image - low) / ((high - low) or 1.0), grey))
        axes[0, 0].set_title("image", fontsize=10)
    right = axes[0, -1]
    signed = bool((values < 0).any())
    largest = float(np.abs(values).max())
    drawn = right.imshow(
        laid.image[..., 0], cmap="RdBu_r" if signed else "magma_r", interpolation="nearest",
        vmin=-largest if signed else 0, vmax=largest,
    )  # fmt: skip
    right.set_axis_off()
    label(right, laid, [str(each) for each in order])
    for corner in laid.corners:
        frame(right, corner, laid.tile)
    figure.colorbar(drawn, ax=right, shrink=0.8, label=f"activity of {series.name.split('/')[1]}")
    active = np.count_nonzero(values)
    text = f"{run.label(number)}, {when(run, step)}: {active} of {values.size} units active"
    heading(figure, title or f"{text}, strongest features first", 10)
    return figure


def _image(run: Results, step: int, slice_: int) -> np.ndarray | None:
    """Return the image that the slice saw, if it was recorded at this step."""
    try:
        image = image_layer(run)
    except InputError:
        return None
    return image.at(step=step, slice=slice_).astype(float) if step in image.steps else None
