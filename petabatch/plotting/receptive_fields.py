"""Plot of Gabor functions fitted to the features of a dictionary."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.pixels import about_zero
from petabatch.plotting.figures import COLOURS, MUTED, axes_title, grid, heading, note, panels, styled
from petabatch.plotting.gabor import LIKE, Gabors, fit_gabors, to_grey
from petabatch.plotting.options import Connection, DisplayForTime, Slice, Time, Title
from petabatch.plotting.patches import Dictionary, find_weights, read_dictionary
from petabatch.plotting.select import recorded_time, when
from petabatch.plotting.tiles import label, mosaic, show
from petabatch.results import Results

_EXAMPLES = 18


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

    A feature is Gabor-like if R² > 0.8, both sigmas > 0.8 pixels, and the frequency from 0.04 to 0.35 cycles
    per pixel. Colour features are fitted along the mix of channels in which they vary most. The grey field
    of the last panel is about the range of cells in macaque V1 (Ringach, J. Neurophysiol. 88:455, 2002).
    """
    found = find(run, connection, recorded_time(find_weights(run, connection), time, display), slice)
    patches = to_grey(found.weights)
    fits = fit_gabors(patches)
    like = np.flatnonzero(fits.like)
    order = np.argsort(-fits.r2, kind="stable")
    shown = order[np.linspace(0, len(order) - 1, min(_EXAMPLES, len(order))).astype(int)]
    tiles = np.concatenate([about_zero(each[shown][..., None]) for each in (patches, fits.fitted)])
    laid = mosaic(tiles, len(shown), 8.6, 4)
    below = 3.0 if like.size else 0.8
    figure, axes = panels(figure, (9.6, 1.2 + below + laid.tall), 2, 3, height_ratios=[laid.tall, below])
    top = _whole(figure, axes[0])
    show(top, laid.image)
    top.set_anchor("W")
    label(top, laid, [str(each) for each in shown] + [f"{fits.r2[each]:.2f}" for each in shown])
    axes_title(top, "features from the best fit to the worst; below, the fits and their R²", 9)
    if like.size:
        _orientation(axes[1, 0], fits, like)
        _frequency(axes[1, 1], fits, like)
        _shape(axes[1, 2], fits, like)
    else:
        panel = _whole(figure, axes[1])
        panel.set_axis_off()
        panel.text(0, 0.5, f"No feature is Gabor-like, that is: {LIKE}.", color=MUTED, va="center")
    share = f"{len(like)} of {len(patches)} features are Gabor-like ({len(like) / len(patches):.0%})"
    about = f"{found.name}, {when(run, found.step)}: {share}, median R² {np.median(fits.r2):.2f}"
    heading(figure, title or about)
    return figure


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
    axes.bar(edges[:-1], np.histogram(turned, edges)[0], width=20, color=COLOURS[0])
    axes.set(xlabel="orientation (0° is horizontal)", ylabel="features", xticks=np.arange(0, 180, 45))
    axes.set_xticklabels([f"{angle}°" for angle in range(0, 180, 45)])
    axes.locator_params(axis="y", integer=True)
    grid(axes)


def _frequency(axes: Any, fits: Gabors, like: np.ndarray) -> None:
    axes.hist(fits.frequency[like], np.linspace(0, 0.4, 17), color=COLOURS[0], rwidth=0.9)
    axes.set(xlabel="frequency (cycles per pixel)", ylabel="features")
    axes.locator_params(axis="y", integer=True)
    axes.axvline(np.median(fits.frequency[like]), color=COLOURS[1], lw=1.2)
    note(axes, f"median {np.median(fits.frequency[like]):.2f}")
    grid(axes)


def _shape(axes: Any, fits: Gabors, like: np.ndarray) -> None:
    across, along = (s[like] * fits.frequency[like] for s in (fits.sigma_u, fits.sigma_v))
    axes.axvspan(0.1, 0.8, color="#ececec", zorder=0, label="about the range of macaque V1 cells")
    axes.plot(across, along, "o", ms=3.5, color=COLOURS[0], alpha=0.7, mew=0, label="Gabor-like features")
    axes.set(xlabel="sigma × f, across the bars", ylabel="sigma × f, along the bars")
    axes.set(
        xlim=(0, max(0.9, 1.05 * across.max(initial=0))), ylim=(0, max(0.9, 1.05 * along.max(initial=0)))
    )
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1), fontsize=8)
