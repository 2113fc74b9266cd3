"""Side-by-side plots of inputs and reconstructions."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.errors import InputError
from petabatch.plotting.figures import figure_of, images, show, styled


@styled
def reconstructions(
    inputs: Any, recons: Any, *, labels: Any = None, rows: int | None = None, title: str = ""
) -> Any:
    """Return input, reconstruction and their difference side by side, one image to a row.

    Both are `[image, y, x, channel]` with 1 or 3 channels. Input and reconstruction share the grey or colour
    scale of the input; the error (input - reconstruction) has the same scale, centred on middle grey.
    PSNR = 20 log10(range of the input / rms error). `labels` name the images; a column holds `rows` of them.
    Raises InputError when the shapes do not match.
    """
    inputs = images(inputs, "inputs [image, y, x, channel]")
    recons = images(recons, "reconstructions [image, y, x, channel]")
    if inputs.shape != recons.shape or (labels is not None and len(labels) != len(inputs)):
        raise InputError(
            f"inputs, reconstructions and labels do not match\n    found:    {list(inputs.shape)} and "
            f"{list(recons.shape)}, {'no' if labels is None else len(labels)} labels"
        )
    count, height, width, _ = inputs.shape
    rows = min(count, rows or 4)
    groups = -(-count // rows)
    # A narrow empty column separates the groups.
    ratios = ([1.0, 1.0, 1.0, 0.12] * groups)[:-1]
    side = 1.15
    figure, grid = figure_of(
        (side * sum(ratios) + 0.3, side * rows * height / width + 0.5 + 0.16 * rows),
        rows,
        len(ratios),
        width_ratios=ratios,
    )
    figure.get_layout_engine().set(w_pad=0.02, h_pad=0.02, wspace=0.01, hspace=0.01)
    cells = np.asarray(grid).reshape(rows, len(ratios))
    for axes in cells.flat:
        axes.set_axis_off()
    for number in range(count):
        place = cells[number % rows, 4 * (number // rows) :][:3]
        _triple(place, inputs[number], recons[number], "" if labels is None else str(labels[number]))
        if number % rows == 0:
            for axes, name in zip(place, ("input", "reconstruction", "error"), strict=True):
                axes.set_title(name, fontsize=10, pad=4)
    if title:
        figure.suptitle(title, fontsize=11)
    return figure


def psnr(image: np.ndarray, reconstruction: np.ndarray) -> float:
    """Return the peak signal-to-noise ratio in dB; the peak is the image's largest minus smallest value."""
    rms = float(np.sqrt(np.square(np.subtract(image, reconstruction, dtype=float)).mean()))
    span = float(np.max(image) - np.min(image))
    return 20 * float(np.log10(span / rms)) if rms > 0 and span > 0 else float("inf" if rms == 0 else "-inf")


def _triple(place: np.ndarray, image: np.ndarray, recon: np.ndarray, label: str) -> None:
    low, span = image.min(), (image.max() - image.min()) or 1.0
    shown = (image - low) / span, (recon - low) / span, 0.5 + (image - recon) / span
    below = label, f"PSNR {psnr(image, recon):.1f} dB", ""
    for axes, pixels, text in zip(place, shown, below, strict=True):
        show(axes, pixels)
        axes.text(
            0.5, -0.03, text, transform=axes.transAxes, ha="center", va="top", fontsize=8.5, color="#505050"
        )
