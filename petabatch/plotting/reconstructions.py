"""Plot of inputs, reconstructions and errors side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np

from petabatch.errors import InputError
from petabatch.pixels import pictures
from petabatch.plotting.figures import MUTED, height_of, panels, styled, width_of
from petabatch.plotting.options import DisplayForStep, Grey, Option, Step, Title
from petabatch.plotting.select import check_slice, common_step, image_layer, learned, psnr, quality, when
from petabatch.plotting.texts import heading, wrapped
from petabatch.plotting.tiles import frame, show
from petabatch.plotting.words import of_slice
from petabatch.results import Results
from petabatch.results.series import Series

_SMALL = 6.5
"""Size of the text below tiles, in points."""


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
    has the same scale, centred on middle grey: the numbers below are those of black and white.
    PSNR = 20 log10(range of the image / rms error).
    """
    found = find(run, image, recon)
    step = common_step(run, *found, step, display)
    numbers = [check_slice(run, number) for number in slices] or list(range(min(8, run.batch)))
    inputs, recons = (
        np.stack([s[int(np.flatnonzero(s.steps == step)[0]), each].astype(float) for each in numbers])
        for s in found
    )
    names = [of_slice(run, number) for number in numbers]
    figure, cells, below = _grid(figure, names, rows, pictures(inputs[:1] * 0, grey).shape[1:3])
    rows = len(cells)
    for number, (name, one, other) in enumerate(zip(below, inputs, recons, strict=True)):
        place = cells[number % rows, 4 * (number // rows) :][:3]
        _triple(place, one, other, name, grey)
        if number % rows == 0:
            for axes, word in zip(place, ("Input", "Reconstruction", "Error"), strict=True):
                axes.set_title(word, loc="center", pad=3)
    few = f" of {len(numbers)} of {run.batch} slices" if len(numbers) < run.batch else ""
    heading(
        figure,
        title,
        f"Reconstructions{few}, {when(run, step)}; below errors, their values from black to white",
    )
    return figure


def _grid(
    figure: Any, names: list[str], rows: int, shape: tuple[int, int]
) -> tuple[Any, np.ndarray, list[str]]:
    """Return a figure, its axes, three for each image with narrow columns between, and the names in lines.

    Groups of three are side by side where tiles keep a width of 0.8 inches, which the labels below them take.
    """
    wide, high = width_of(figure) - 0.5, height_of(figure)
    groups = max(1, min(-(-len(names) // rows), int(wide / 2.6)))
    rows = -(-len(names) // groups)
    ratios = ([1.0, 1.0, 1.0, 0.15] * groups)[:-1]
    side = min(wide / sum(ratios), 1.6)
    below = [wrapped(name, 0.9 * side, _SMALL) for name in names]
    above = 0.5 if wide > 4 else 0.65  # the title takes two lines
    text = 0.12 + 1.2 * _SMALL / 72 * max(name.count("\n") + 1 for name in below)
    tall = min(1.6 * side, side * shape[0] / shape[1], (high - above) / rows - text)
    figure, cells = panels(figure, (tall + text) * rows + above, rows, len(ratios), width_ratios=ratios)
    if hasattr(figure, "get_layout_engine") and (layout := figure.get_layout_engine()) is not None:
        left, edge = 0.04 / figure.get_figwidth(), 0.04 / figure.get_figheight()
        used = max(0.95, min(side, tall * shape[1] / shape[0])) * sum(ratios) + 0.04 * len(ratios)
        across = min(1 - 2 * left, used / figure.get_figwidth())  # so that few images are not far apart
        layout.set(w_pad=0.02, h_pad=0.05, wspace=0, hspace=0, rect=(left, edge, across, 1 - 2 * edge))
    for axes in cells.flat:
        axes.set_axis_off()
    return figure, cells, below


def _triple(place: np.ndarray, image: np.ndarray, recon: np.ndarray, text: str, grey: bool) -> None:
    low, span = image.min(), (image.max() - image.min()) or 1.0
    shown = (image - low) / span, (recon - low) / span, 0.5 + (image - recon) / span
    below = text, quality(psnr(image, recon)), f"−{span / 2:.2g} to {span / 2:.2g}"
    for axes, values, said in zip(place, shown, below, strict=True):
        pixels = pictures(values, grey)
        show(axes, pixels)
        frame(axes, pixels.shape[:2])
        axes.set_anchor("C")
        axes.text(
            0.5, -0.03, said, transform=axes.transAxes, ha="center", va="top", fontsize=_SMALL, color=MUTED
        )
