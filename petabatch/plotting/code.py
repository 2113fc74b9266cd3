"""Plot of the code of one slice as maps of its strongest features."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from petabatch.errors import InputError
from petabatch.pixels import pictures
from petabatch.plotting.figures import colour_bar, height_of, panels, styled, width_of
from petabatch.plotting.options import Code, DisplayForStep, Grey, Option, PerRow, Slice, Step, Title
from petabatch.plotting.select import check_slice, code_layer, image_layer, when
from petabatch.plotting.texts import heading
from petabatch.plotting.tiles import columns_of, frame, label, mosaic, show
from petabatch.plotting.words import of_slice
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
    per_row: PerRow = None,
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
    wide, high = width_of(figure), height_of(figure)
    beside = image is not None and wide > 5
    left = 0.25 * wide if beside else 0.0
    per_row = per_row or columns_of(len(order), maps.shape[1] / maps.shape[2], 1.8 if wide > 5 else 1.2)
    laid = mosaic(maps[..., None], per_row, wide - left - 1.0, 4, gap=np.nan, tallest=high - 0.45)
    ratios = {"width_ratios": [left, wide - left]} if beside else {}
    figure, axes = panels(figure, max(1.8 if beside else 0, laid.tall + 0.45), 1, 1 + beside, **ratios)
    if beside and image is not None:
        low, high = image.min(), image.max()
        pixels = pictures((image - low) / ((high - low) or 1.0), grey)
        show(axes[0, 0], pixels)
        frame(axes[0, 0], pixels.shape[:2])
        axes[0, 0].set_title("Input")
    right = axes[0, -1]
    signed = bool((values < 0).any())
    largest = float(np.abs(values).max())
    drawn = right.imshow(
        laid.image[..., 0], cmap="RdBu_r" if signed else "magma_r", interpolation="nearest",
        vmin=-largest if signed else 0, vmax=largest,
    )  # fmt: skip
    right.set_axis_off()
    right.set_anchor("NW")
    label(right, laid, [str(each) for each in order])
    layer = series.name.split("/")[1]
    colour_bar(right, drawn, f"Activity of {layer}")
    active = np.count_nonzero(values)
    features = "feature" if len(order) == 1 else f"{len(order)} features"
    many = f", the most active {features}" if len(order) < np.count_nonzero(strength) else ""
    text = f"{active:,} of {values.size:,} units active{many}"
    heading(figure, title, f"Code of {layer}, {of_slice(run, number)}, {when(run, step)}: {text}")
    return figure


def _image(run: Results, step: int, slice_: int) -> np.ndarray | None:
    """Return the image that the slice saw, if it was recorded at this step."""
    try:
        image = image_layer(run)
    except InputError:
        return None
    return image.at(step=step, slice=slice_).astype(float) if step in image.steps else None
