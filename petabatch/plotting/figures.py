"""Shared parts of the plots: page and style, panels, texts, and the files of figures."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal, ParamSpec, Protocol, TypeVar, runtime_checkable

import numpy as np

from petabatch.errors import InputError, ResourceError, install
from petabatch.plotting.options import check_options
from petabatch.plotting.table import as_csv

P = ParamSpec("P")
T = TypeVar("T")

STYLE = str(files(__package__) / "style.mplstyle")
"""The style sheet of all figures: `matplotlib.pyplot.style.use(plotting.STYLE)` for others beside them."""
MARK = "#D55E00"
"""Colour of what is marked, such as dead features; no curve has it."""
MUTED = "#606060"
FRAME = "#b0b0b0"
COLUMNS = {1: 3.5, 2: 7.2}
"""Inches of one and two columns of a journal (89 and 183 mm)."""
_PAGE = 9.2
"""Inches of the height of a page."""
_LETTER = 0.55
"""Mean width of a letter, as a fraction of the font size."""
_LABELS = 0.55
"""Inches that the labels of an axis take."""


@dataclass(frozen=True)
class Page:
    """The place of a new figure: pass it as `figure` to a plot."""

    columns: Literal[1, 2] | None = None
    """Columns of a journal that the figure fills: 3.5 or 7.2 inches (89 or 183 mm); by default 7.2."""
    size: tuple[float, float] | None = None
    """Width and height in inches, instead; by default the height follows from what is drawn."""
    dpi: int | None = None
    """Pixels per inch of PNG files and films."""
    style: str | Path | None = None
    """A style sheet of matplotlib, or the name of one, instead of that of petabatch."""

    @property
    def width(self) -> float:
        """Width in inches."""
        return self.size[0] if self.size else COLUMNS[self.columns or 2]

    @contextmanager
    def context(self) -> Iterator[None]:
        """Return a context in which matplotlib draws in this style.

        Raises InputError if the style cannot be read.
        """
        plt = pyplot()
        style = str(self.style or STYLE)
        if (
            style not in plt.style.library and not Path(style).is_file()
        ):  # matplotlib would also load from URLs
            raise InputError(
                f"{style}: there is no such style sheet\n"
                "    expected: a file, or the name of a style of matplotlib, such as ggplot"
            )
        with plt.style.context(["default", style, {"text.parse_math": False}]):  # names may contain $
            yield


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
        page = kwargs.get("figure")
        with (page if isinstance(page, Page) else Page()).context():
            return draw(*args, **kwargs)

    return drawn


def finish(figure: Any, output: str | Path | None = None, page: Page | None = None) -> None:
    """Write the figure in the format of the suffix (.png, .svg, .pdf, ...), or show it on screen.

    A .csv file has the numbers that are drawn. Raises InputError for an unknown suffix or a file that cannot
    be written, ResourceError without a display.
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
    figure, page = figure if film is None else film.figure, page or Page()
    try:
        check_format(output, film is not None)
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        with page.context():
            if film is not None:
                figure.set_dpi(page.dpi or figure.dpi)
                film.save(Path(output))
            elif Path(output).suffix.lower() == ".csv":
                Path(output).write_text(as_csv(figure), encoding="utf-8")
            else:
                figure.savefig(output, dpi=page.dpi, metadata=_metadata(figure, output))
    except OSError as error:
        raise InputError(f"{output}: the figure cannot be written: {error.strerror or error}") from error
    finally:
        plt.close(figure)


def check_format(output: str | Path, film: bool = False) -> None:
    """Raise InputError if figures, or films, cannot be written with the suffix of this name."""
    known = ("gif", "mp4") if film else (*pyplot().FigureCanvasBase.get_supported_filetypes(), "csv")
    suffix = Path(output).suffix.lstrip(".").lower()
    if suffix not in known:
        raise InputError(
            f"{output}: unsupported figure format\n    found:    {suffix or 'no suffix'}\n"
            f"    expected: {', '.join(sorted(known))}"
        )


def _metadata(figure: Any, output: str | Path) -> dict[str, Any] | None:
    """Return what tells a reader without eyes what the figure shows, in the keys of its format."""
    text = described(figure)
    keys = {".png": "Description", ".svg": "Description", ".pdf": "Subject"}
    key = keys.get(Path(output).suffix.lower())
    return {key: text, "Title": text.split(". ")[0]} if key else None


def described(figure: Any) -> str:
    """Return what a figure shows in words, from its titles and labels: an alternative text."""
    parts = [figure.get_suptitle()]
    for axes in figure.axes:
        labels = [text for text in (axes.get_ylabel(), axes.get_xlabel()) if text]
        title = axes.get_title(loc="left") or axes.get_title()
        axis = " against ".join(labels) if axes.axison else ""
        parts.append(": ".join(text for text in (title, axis) if text))
    return ". ".join(dict.fromkeys(" ".join(part.split()) for part in parts if part))


def width_of(figure: Any) -> float:
    """Return how many inches wide a plot is: that of the figure, subfigure or page it is drawn into."""
    if figure is None or isinstance(figure, Page):
        return (figure or Page()).width
    return float(figure.bbox.width / figure.dpi)


def height_of(figure: Any) -> float:
    """Return how many inches high a plot may be: as high as a page where nothing else is said."""
    if figure is None or isinstance(figure, Page):
        return figure.size[1] if figure is not None and figure.size else _PAGE
    return float(figure.bbox.height / figure.dpi)


def panels(
    figure: Any, tall: float, rows: int = 1, columns: int = 1, **ratios: Any
) -> tuple[Any, np.ndarray]:
    """Return a figure and its axes `[row, column]`: those of `figure`, or of a new one, `tall` inches high.

    `figure` may also be a `Page`.
    """
    if figure is None or isinstance(figure, Page):
        page = figure or Page()
        size = page.size or (page.width, min(tall, _PAGE))
        figure = pyplot().figure(figsize=size, layout="constrained")
        figure.get_layout_engine().set(w_pad=0.05, h_pad=0.05)
    return figure, np.asarray(figure.subplots(rows, columns, squeeze=False, gridspec_kw=ratios))


def grid_of_panels(
    figure: Any, count: int, tall: float, most: int = 3, least: float = 2.1, sharex: bool = False
) -> tuple[Any, list[Any]]:
    """Return a figure and `count` axes, each `tall` and at least `least` inches wide, where there is room.

    There are at most `most` in a row, and as few rows as that takes.
    """
    across = max(1, min(count, 2 if count == 4 else most, int(width_of(figure) / least)))
    rows = -(-count // across)
    across = -(-count // rows)
    figure, axes = panels(figure, 0.35 + tall * rows, rows, across)
    for extra in axes.flat[count:]:
        extra.remove()
    kept = list(axes.flat[:count])
    for each in kept[1:] if sharex else ():
        each.sharex(kept[0])
    return figure, kept


def pyplot() -> Any:
    """Return matplotlib.pyplot; raises ResourceError when it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ResourceError(f"plots need matplotlib\n    hint:     {install('analysis')}") from error
    return plt


def colours(count: int) -> list[str]:
    """Return the colours of this many curves: those of the style; of more, along a scale of colours."""
    plt = pyplot()
    cycle = [each["color"] for each in plt.rcParams["axes.prop_cycle"] if "color" in each]
    if count <= len(cycle):
        return [*cycle[:count]]
    return [str(_hex(each)) for each in plt.get_cmap("viridis")(np.linspace(0, 0.9, count))]


def points(key: str) -> float:
    """Return the size of a font in the style, such as `axes.titlesize`, in points."""
    from matplotlib.font_manager import FontProperties

    return float(FontProperties(size=pyplot().rcParams[key]).get_size_in_points())


def _hex(colour: Any) -> str:
    from matplotlib.colors import to_hex

    return str(to_hex(colour))


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
    letter, end = _LETTER * points("xtick.labelsize") / 72, -np.inf
    labels = []
    for place, text in zip(places, texts, strict=True):
        half = letter * len(text) / 2
        room = place - half >= end
        labels.append(text if room else "")
        end = place + half + letter if room else end
    axes.set_xticks(values, labels)
    axes.minorticks_off()


def axes_title(axes: Any, text: str) -> None:
    """Write the title of a panel above its left end, in as many lines as it takes."""
    axes.set_title(wrapped(text, _width(axes), points("axes.titlesize")), loc="left")


def heading(figure: Any, text: str) -> Any:
    """Write the title of the figure above its left end, in as many lines as it takes; return the text."""
    inches = figure.bbox.width / figure.dpi
    lines = wrapped(capital(text), inches - 0.1, points("figure.titlesize"))
    return figure.suptitle(lines, x=0.05 / inches, ha="left")


def legend_below(figure: Any, lines: Sequence[Any], labels: Sequence[str]) -> None:
    """Put a legend below all panels, in as many columns as the labels leave."""
    size, inches = points("legend.fontsize"), figure.bbox.width / figure.dpi - 0.1
    texts = [wrapped(label, inches - 0.4, size) for label in labels]
    widest = _LETTER * size / 72 * max(len(line) for text in texts for line in text.splitlines()) + 0.5
    across = max(1, min(len(texts), int(inches / widest)))
    figure.legend(lines, texts, loc="outside lower left", ncols=across, borderaxespad=0.2)


def capital(text: str) -> str:
    """Return a title or label that begins with a capital, unless it begins with a name such as `energy2`."""
    first, *_ = text.split(maxsplit=1) or [""]
    return text[:1].upper() + text[1:] if first.strip(",:;").isalpha() else text


def wrapped(text: str, inches: float, size: float) -> str:
    """Return a text in lines that are not longer than this in a font of this size."""
    return textwrap.fill(text, max(8, int(72 * inches / (_LETTER * size)))) or text


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


def grid(axes: Any) -> None:
    """Draw horizontal grid lines behind the data."""
    axes.grid(axis="y")
