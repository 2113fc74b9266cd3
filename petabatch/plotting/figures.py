"""Shared parts of the plots: style, figures, axes and output."""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np

from petabatch.errors import InputError, ResourceError, install
from petabatch.plotting.options import check_options

P = ParamSpec("P")
T = TypeVar("T")

# Okabe & Ito 2008, "Color universal design": distinguishable with colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
MUTED = "#606060"
_LETTER = 0.57
"""Mean width of a letter, as a fraction of the font size."""
_SIZE = 10
"""Size of text in points, where nothing else is said."""
_INK = "#262626"
_LABELS = 0.6
"""Inches that the labels of an axis take."""
_STYLE = {
    "font.size": _SIZE,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#808080",
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "text.parse_math": False,  # titles and names of runs may contain $
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "legend.frameon": False,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}


@runtime_checkable
class Film(Protocol):
    """A figure that changes; it has a writer of its own."""

    figure: Any

    def save(self, output: Path) -> None:
        """Write all frames."""


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Decorate a plot: check its options, and draw in our style without changing matplotlib's settings."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        check_options(draw, kwargs)
        with pyplot().rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


def finish(figure: Any, output: str | Path | None = None) -> None:
    """Write the figure in the format of the suffix (.png, .svg, .pdf, ...), or show it on screen.

    Raises InputError for an unknown suffix or a file that cannot be written, ResourceError without a display.
    """
    plt = pyplot()
    if output is None:
        if plt.get_backend().lower() == "agg" or isinstance(figure, Film):
            raise ResourceError(
                "there is no display on which to show the figure\n    hint:     write it to a file with -o"
            )
        plt.show()
        return
    film = figure if isinstance(figure, Film) else None
    figure = figure if film is None else film.figure
    try:
        check_format(output, film is not None)
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        if film is not None:
            film.save(Path(output))
        else:
            _save(figure, output)
    except OSError as error:
        raise InputError(f"{output}: the figure cannot be written: {error.strerror or error}") from error
    finally:
        plt.close(figure)


def check_format(output: str | Path, film: bool = False) -> None:
    """Raise InputError if figures, or films, cannot be written with the suffix of this name."""
    known = ("gif", "mp4") if film else pyplot().FigureCanvasBase.get_supported_filetypes()
    suffix = Path(output).suffix.lstrip(".").lower()
    if suffix not in known:
        raise InputError(
            f"{output}: unsupported figure format\n    found:    {suffix or 'no suffix'}\n"
            f"    expected: {', '.join(sorted(known))}"
        )


@styled
def _save(figure: Any, output: str | Path) -> None:
    figure.savefig(output)


def panels(
    figure: Any, size: tuple[float, float], rows: int = 1, columns: int = 1, **ratios: Any
) -> tuple[Any, np.ndarray]:
    """Return a figure and its axes `[row, column]`: those of `figure`, or of a new one of `size` inches."""
    if figure is None:
        figure = pyplot().figure(figsize=size, layout="constrained")
    return figure, np.asarray(figure.subplots(rows, columns, squeeze=False, gridspec_kw=ratios))


def pyplot() -> Any:
    """Return matplotlib.pyplot; raises ResourceError when it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ResourceError(f"plots need matplotlib\n    hint:     {install('analysis')}") from error
    return plt


def logarithmic(axes: Any, along: Literal["x", "y"] = "y") -> None:
    """Make an axis logarithmic; its numbers are plain text, as all text is."""
    from matplotlib.ticker import LogFormatter

    class Plain(LogFormatter):
        """Chooses the ticks that are labelled."""

        def __call__(self, x: float, pos: int | None = None) -> str:
            return f"{x:.6g}" if super().__call__(x, pos) else ""

    axes.set(**{f"{along}scale": "log"})
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_major_formatter(Plain())
    axis.set_minor_formatter(Plain())


def ticks_at(axes: Any, values: np.ndarray) -> None:
    """Put the ticks of a logarithmic x axis at these ascending values, and label those that have room."""
    texts = [f"{value:.3g}" for value in values]
    places = np.log(values / values[0]) / np.log(values[-1] / values[0]) * _width(axes)  # in inches
    letter, end = _LETTER * _SIZE / 72, -np.inf
    labels = []
    for place, text in zip(places, texts, strict=True):
        half = letter * len(text) / 2
        room = place - half >= end
        labels.append(text if room else "")
        end = place + half + letter if room else end
    axes.set_xticks(values, labels)
    axes.minorticks_off()


def axes_title(axes: Any, text: str, size: float = 11) -> None:
    """Write a title above the axes, in as many lines as it takes."""
    axes.set_title(wrapped(text, _width(axes), size), loc="left", fontsize=size)


def heading(figure: Any, text: str, size: float = 11) -> Any:
    """Write a title above the figure, in as many lines as it takes; return the text."""
    return figure.suptitle(wrapped(text, figure.bbox.width / figure.dpi, size), fontsize=size)


def wrapped(text: str, inches: float, size: float) -> str:
    """Return a text in lines that are not longer than this in a font of this size."""
    return textwrap.fill(text, max(12, int(72 * inches / (_LETTER * size)))) or text


def note(axes: Any, text: str) -> None:
    """Write a remark below the axes, in as many lines as it takes."""
    lines = wrapped(text, _width(axes), 8)
    axes.annotate(
        lines, (0, 0), (0, -34), xycoords="axes fraction", textcoords="offset points",
        fontsize=8, color=MUTED, va="top", annotation_clip=False,
    )  # fmt: skip


def _width(axes: Any) -> float:
    """Return about how many inches wide axes will be when they are laid out, without their labels."""
    figure = axes.figure
    margins, whole = figure.subplotpars, figure.bbox.width / figure.dpi
    share = axes.get_subplotspec().get_position(figure).width / (margins.right - margins.left)
    return max(0.8, float(share * whole) - _LABELS)


def grid(axes: Any) -> None:
    """Draw horizontal grid lines behind the data."""
    axes.grid(axis="y", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)
