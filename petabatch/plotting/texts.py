"""Texts of figures: titles, labels of ticks, legends and notes, as wide as their place."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from petabatch.errors import ArgumentError
from petabatch.plotting.figures import MUTED, pyplot

_LETTER = 0.55
"""Mean width of a letter, as a fraction of the font size."""
_SHORTEST = 1 / 3
"""Length of the last line of a text, as a fraction of the longest, below which its lines are balanced."""
_UNIT = re.compile(r"\([^()]{1,12}\)")
_TIED = "\N{NO-BREAK SPACE}"
_LABELS = 0.55
"""Inches that the labels of an axis take."""


def points(key: str) -> float:
    """Return the size of a font in the style, such as `axes.titlesize`, in points."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=pyplot().rcParams[key]).get_size_in_points())


def axes_title(axes: Any, text: str) -> None:
    """Write the title of a panel above its left end, in as many lines as it takes."""
    axes.set_title(wrapped(text, _width(axes), points("axes.titlesize")), loc="left")


def heading(figure: Any, title: str | None, usual: str = "") -> Any:
    """Write the title of the figure above its left end, in as many lines as it takes; return the text.

    A title that was given stays as it is; the `usual` one begins with a capital.
    """
    inches = figure.bbox.width / figure.dpi
    lines = wrapped(title or capital(usual), inches - 0.1, points("figure.titlesize"))
    return figure.suptitle(lines, x=0.05 / inches, ha="left")


def legend_below(figure: Any, lines: Sequence[Any], labels: Sequence[str], title: str = "") -> None:
    """Put a legend below all panels, in as many columns as the labels leave, a remark on all above it."""
    size, inches = points("legend.fontsize"), figure.bbox.width / figure.dpi - 0.1
    texts = [wrapped(label, inches - 0.4, size) for label in labels]
    widest = _LETTER * size / 72 * max(len(line) for text in texts for line in text.splitlines()) + 0.5
    across = max(1, min(len(texts), int(inches / widest)))
    figure.legend(
        lines, texts, loc="outside lower left", ncols=across, borderaxespad=0.2, alignment="left",
        title=wrapped(title, inches, points("legend.title_fontsize")) if title else None,
    )  # fmt: skip


def capital(text: str) -> str:
    """Return a title or label that begins with a capital, unless it begins with a name such as `energy2`."""
    first, *_ = text.split(maxsplit=1) or [""]
    return text[:1].upper() + text[1:] if first.strip(",:;").isalpha() else text


def wrapped(text: str, inches: float, size: float) -> str:
    """Return a text in lines that are not longer than this in a font of this size.

    Where the last line would be much shorter than the others, as that of a single word, all are about alike.
    A unit such as `(per step)` stays in one line.
    """
    letters = max(8, int(72 * inches / (_LETTER * size)))
    text = _UNIT.sub(lambda unit: unit[0].replace(" ", _TIED), text)
    lines = textwrap.wrap(text, letters)
    if len(lines) > 1 and len(lines[-1]) < _SHORTEST * max(map(len, lines)):
        least = min(letters, max(map(len, text.split(" "))))  # no word is broken that was whole
        balanced = (textwrap.wrap(text, width) for width in range(least, letters + 1))
        lines = next(found for found in balanced if len(found) == len(lines))
    return ("\n".join(lines) or text).replace(_TIED, " ")


def note(axes: Any, text: str) -> None:
    """Write a remark below the label of the x axis, in as many lines as it takes."""
    size = points("xtick.labelsize")
    axes.annotate(
        wrapped(text, _width(axes), size), (0, 0), (0, -3), xycoords=("axes fraction", axes.xaxis.label),
        textcoords="offset points", fontsize=size, color=MUTED, va="top", annotation_clip=False,
    )  # fmt: skip


def _width(axes: Any) -> float:
    """Return about how many inches wide axes will be when they are laid out, without their labels."""
    figure = axes.figure
    margins, whole = figure.subplotpars, figure.bbox.width / figure.dpi
    share = axes.get_subplotspec().get_position(figure).width / (margins.right - margins.left)
    return max(0.8, float(share * whole) - _LABELS)


def described(figure: Any) -> str:
    """Return what a figure shows in words, from its titles and labels: an alternative text.

    Parameters
    ----------
    figure
        A figure of matplotlib.

    Returns
    -------
    str
        Sentences.

    Raises
    ------
    ArgumentError
        This is no figure.
    """
    if not hasattr(figure, "get_suptitle"):
        raise ArgumentError("figure", "this is not a figure", figure, "a figure of matplotlib")
    parts = [figure.get_suptitle()]
    bars = (each for axes in figure.axes for each in axes.child_axes if hasattr(each, "get_title"))
    for axes in (*figure.axes, *bars):  # an axis of steps has no title
        labels = [text for text in (axes.get_ylabel(), axes.get_xlabel()) if text]
        title = axes.get_title(loc="left") or axes.get_title()
        axis = " against ".join(labels) if axes.axison else ""
        parts.append(": ".join(text for text in (title, axis) if text))
    return ". ".join(dict.fromkeys(" ".join(part.split()) for part in parts if part))
