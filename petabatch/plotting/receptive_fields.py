"""Plot of Gabor functions fitted to the features of a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.pixels import about_zero, pictures
from petabatch.plotting.figures import MUTED, colours, grid, height_of, panels, styled, width_of
from petabatch.plotting.gabor import LIKE, Gabors, Mixed, fit_gabors, mixed
from petabatch.plotting.options import Connection, DisplayForTime, Slice, Time, Title
from petabatch.plotting.patches import Dictionary, find_weights, read_dictionary
from petabatch.plotting.select import recorded_time, when
from petabatch.plotting.texts import axes_title, capital, heading, wrapped
from petabatch.plotting.tiles import Mosaic, label, mosaic, show
from petabatch.results import Results

_TILE = 0.4
"""Inches of an example, at least, unless there is no room for so high ones."""
_ABOVE = 0.14
"""Inches of the label of an example."""


def find(run: Results, connection: str | None = None, time: int = -1, slice: int = 0) -> Dictionary:
    """Return the dictionary."""
    return read_dictionary(run, connection, time, slice)


@styled
def receptive_fields(
    run: Results,
    *,
    connection: Connection = None,
    time: Time = -1,
    display: DisplayForTime = None,
    slice: Slice = 0,
    title: Title = "",
    figure: Any = None,
) -> Any:
    """Return Gabor fits of the features: examples, orientation, frequency and shape.

    A feature is Gabor-like if R² > 0.8, both sigmas > 0.8 pixels, the frequency from 0.04 to 0.35 cycles per
    pixel, and the weaker sign has 5 % of the squared fit; a blob is fitted as well, but has a single lobe.
    Features are fitted along their luminance or, where it explains less than 80 % of the squared weights,
    along the mix of channels in which they vary most. The grey field of the last panel is about the range of
    cells in macaque V1 (Ringach, J. Neurophysiol. 88:455, 2002).
    """
    found = find(run, connection, recorded_time(find_weights(run, connection), time, display), slice)
    along = mixed(found.weights)
    fits = fit_gabors(along.grey)
    classes = classified(fits, along)
    like = np.flatnonzero(fits.like)
    wide = width_of(figure)
    rows = -(-3 // max(1, min(3, int(wide / 2.1)))) if like.size else 1
    below = (1.9 if rows == 1 else 1.5) * rows if like.size else 0.5
    laid = _examples(
        found.weights, along, fits, classes, wide, (height_of(figure) - below - 0.6) / len(classes)
    )
    strips = [each.tall + 0.22 for each in laid.values()]
    across = 3 // rows
    tall = 0.4 + sum(strips) + below
    figure, axes = panels(
        figure, tall, len(strips) + rows, across, height_ratios=[*strips, *[below / rows] * rows]
    )
    for row, (name, tiles) in zip(axes, laid.items(), strict=False):
        top = _whole(figure, row)
        members = classes[name]
        count = len(tiles.corners) // 2
        best = members[np.argsort(-fits.r2[members], kind="stable")][:count]
        show(top, tiles.image)
        texts = [f"{fits.r2[each]:.2f}" for each in best]
        label(top, tiles, [str(each) for each in best] + texts)
        shown = f", the {count} fitted best" if count < len(members) else ""
        why = f" ({LIKE})" if name == "Gabor-like" else ""
        axes_title(top, f"{capital(name)}: {len(members)}{shown}{why}")
    if like.size:
        draw = iter((_orientation, _frequency, _shape))
        for panel, each in zip(axes[len(strips) :].flat, draw, strict=False):
            each(panel, fits, like)
    else:
        panel = _whole(figure, axes[-1])
        panel.set_axis_off()
        said = wrapped(f"No feature is Gabor-like ({LIKE}).", wide - 0.3, 8)
        panel.text(0, 0.5, said, color=MUTED, va="center")
    heading(
        figure,
        title,
        f"{capital(found.name)}, {when(run, found.step)}: Gabor fits, median R² {np.median(fits.r2):.2f}; "
        "below each feature, R² and the fit",
    )
    return figure


def classified(fits: Gabors, along: Mixed) -> dict[str, np.ndarray]:
    """Return the features of each class that has any; each feature is in one."""
    like, blob = fits.like, fits.blob
    classes = {
        "Gabor-like": like,
        "blobs of a colour": blob & along.coloured,
        "blobs of luminance": blob & ~along.coloured,
        "others": ~(like | blob),
    }
    return {name: np.flatnonzero(members) for name, members in classes.items() if members.any()}


def _examples(
    weights: np.ndarray,
    along: Mixed,
    fits: Gabors,
    classes: dict[str, np.ndarray],
    wide: float,
    tallest: float,
) -> dict[str, Mosaic]:
    """Return the features of each class that are fitted best, and their fits below, all of one size."""
    longest = max(map(len, classes.values()))
    tiles = pictures(about_zero(weights[:1]))
    high = min(_TILE, (tallest - 0.22) / 2 - _ABOVE) * 1.1  # with the gap between tiles
    count = max(1, min(int((wide - 0.2) / (high * tiles.shape[2] / tiles.shape[1])), max(longest, 6)))
    laid = {}
    for name, members in classes.items():
        best = members[np.argsort(-fits.r2[members], kind="stable")][:count]
        scale = np.abs(weights[best]).max(axis=(1, 2, 3), keepdims=True)
        scale = np.where(scale > 0, scale, 1)
        models = fits.fitted[best][..., None] * along.mixes[best][:, None, None]
        pairs = np.concatenate([0.5 + 0.5 * each / scale for each in (weights[best], models)])
        share = len(best) / count
        laid[name] = mosaic(pictures(pairs), len(best), (wide - 0.2) * share, 4, tallest=tallest - 0.22)
    return laid


def _whole(figure: Any, row: np.ndarray) -> Any:
    """Return axes in place of those of a row."""
    place = row[0].get_subplotspec()
    for each in row:
        each.remove()
    return figure.add_subplot(place.get_gridspec()[place.rowspan.start, :])


def _orientation(axes: Any, fits: Gabors, like: np.ndarray) -> None:
    edges = np.linspace(0, 180, 9)
    # Bins are centred on 0, 22.5, ... degrees.
    turned = np.mod(fits.orientation[like] + 11.25, 180)
    axes.bar(edges[:-1], np.histogram(turned, edges)[0], width=20, color=colours(1)[0])
    axes.set(
        xlabel="Orientation (0° is horizontal)", ylabel="Gabor-like features", xticks=np.arange(0, 180, 45)
    )
    axes.set_xticklabels([f"{angle}°" for angle in range(0, 180, 45)])
    axes.locator_params(axis="y", integer=True)
    grid(axes)


def _frequency(axes: Any, fits: Gabors, like: np.ndarray) -> None:
    axes.hist(fits.frequency[like], np.linspace(0, 0.4, 17), color=colours(1)[0], rwidth=0.9)
    middle = np.median(fits.frequency[like])
    axes.set(xlabel="Frequency (cycles per pixel)", ylabel="Gabor-like features")
    axes_title(axes, f"Dashed: median {middle:.2f}")
    axes.locator_params(axis="y", integer=True)
    axes.axvline(middle, color="#404040", lw=0.8, ls="--")
    grid(axes)


def _shape(axes: Any, fits: Gabors, like: np.ndarray) -> None:
    across, along = (s[like] * fits.frequency[like] for s in (fits.sigma_u, fits.sigma_v))
    axes.axvspan(0.1, 0.8, color="#ececec", zorder=0, lw=0)
    axes.plot(across, along, "o", ms=2.5, color=colours(1)[0], alpha=0.7, mew=0)
    axes.set(xlabel="σ × f, across the bars", ylabel="σ × f, along the bars")
    axes_title(axes, "Grey: range in macaque V1")
    right, top = (max(0.9, 1.05 * float(np.max(each, initial=0))) for each in (across, along))
    axes.set(xlim=(0, right), ylim=(0, top))
