"""Plot of inputs, reconstructions and errors side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.pixels import pictures
from petabatch.plotting.figures import MUTED, heading, panels, styled
from petabatch.plotting.options import DisplayForStep, Grey, Option, Step, Title
from petabatch.plotting.select import check_slice, common_step, image_layer, learned, psnr, when
from petabatch.plotting.tiles import frame, show
from petabatch.results import Results
from petabatch.results.series import Series


class Found(NamedTuple):
    """What there is to draw."""

    image: Series
    recon: Series


def find(run: Results, image: str | None = None, recon: str | None = None) -> Found:
    """Return the images and their reconstructions, which must have been recorded at the same steps."""
    inputs = image_layer(run, image)
    found = Found(inputs, run.layer(recon or learned(run).get("post", "recon")))
    common_step(run, *found)
    if found.image.shape[2:] != found.recon.shape[2:]:
        raise InputError(
            f"{run.path}: {found.recon.name} has another shape than {found.image.name}\n"
            f"    found:    {list(found.recon.shape[2:])} and {list(found.image.shape[2:])}\n"
            "    hint:     choose others with --image and --recon"
        )
    return found


@styled
def reconstructions(
    run: Results,
    *,
    image: Annotated[str | None, Option("layer of the images (default: the recorded input layer)")] = None,
    recon: Annotated[
        str | None, Option("layer of the reconstructions (default: the dictionary's post layer)")
    ] = None,
    step: Step = None,
    display: DisplayForStep = None,
    slices: Annotated[Sequence[int], Option("slices to draw (default: the first eight)")] = (),
    rows: Annotated[int, Option("images per column", least=1)] = 4,
    grey: Grey = False,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return images, their reconstructions and errors side by side, with PSNR and the scale of the error.

    Image and reconstruction share the grey or colour scale of the image; the error (image - reconstruction)
    has the same scale, centred on middle grey: black and white are the numbers below it.
    PSNR = 20 log10(range of the image / rms error).
    """
    found = find(run, image, recon)
    step = common_step(run, *found, step, display)
    numbers = [check_slice(run, number) for number in slices] or list(range(min(8, run.batch)))
    inputs, recons = (
        np.stack([s[int(np.flatnonzero(s.steps == step)[0]), each].astype(float) for each in numbers])
        for s in found
    )
    figure, cells = _grid(figure, len(numbers), rows, pictures(inputs[:1] * 0, grey).shape[1:3])
    rows = len(cells)
    for number, (each, one, other) in enumerate(zip(numbers, inputs, recons, strict=True)):
        place = cells[number % rows, 4 * (number // rows) :][:3]
        _triple(place, one, other, run.label(each), grey)
        if number % rows == 0:
            for axes, name in zip(place, ("input", "reconstruction", "error"), strict=True):
                axes.set_title(name, fontsize=10, pad=4)
    heading(figure, title or f"Reconstructions of {when(run, step)}")
    return figure


def _grid(figure: Any, count: int, rows: int, shape: tuple[int, int]) -> tuple[Any, np.ndarray]:
    """Return a figure and its axes: three for each image, and a narrow empty column between groups."""
    rows = min(count, rows)
    ratios = ([1.0, 1.0, 1.0, 0.12] * -(-count // rows))[:-1]
    side = 1.15 * max(1.0, min(3.0, shape[1] / shape[0]))
    tall = min(2 * side, side * shape[0] / shape[1])
    size = (side * sum(ratios) + 0.3, tall * rows + 0.5 + 0.16 * rows)
    new = figure is None
    figure, cells = panels(figure, size, rows, len(ratios), width_ratios=ratios)
    if new:
        apart = 0.02 if shape[1] < 1.5 * shape[0] else 0.07  # farther than the tiles of an image
        figure.get_layout_engine().set(w_pad=apart, h_pad=0.02, wspace=0.01, hspace=0.01)
    for axes in cells.flat:
        axes.set_axis_off()
    return figure, cells


def _triple(place: np.ndarray, image: np.ndarray, recon: np.ndarray, text: str, grey: bool) -> None:
    low, span = image.min(), (image.max() - image.min()) or 1.0
    shown = (image - low) / span, (recon - low) / span, 0.5 + (image - recon) / span
    below = text, f"PSNR {psnr(image, recon):.1f} dB", f"± {span / 2:.2g}"
    for axes, values, said in zip(place, shown, below, strict=True):
        pixels = pictures(values, grey)
        show(axes, pixels)
        frame(axes, (0, 0), pixels.shape[:2])
        axes.text(
            0.5, -0.03, said, transform=axes.transAxes, ha="center", va="top", fontsize=8.5, color=MUTED
        )
