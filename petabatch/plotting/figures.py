"""Figures: page and style, panels, colours and axes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from importlib.resources import files
from inspect import signature
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar

import numpy as np

from petabatch.arguments import check_types, positive, whole_number
from petabatch.errors import InputError, ResourceError, install
from petabatch.plotting.options import check_options, documented

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
_MULTIPLES = (tuple(range(1, 10)), (1, 2, 3, 4, 6, 8), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,))
"""Of powers of ten, the numbers at a logarithmic axis, from many to few."""
_PAGE = 9.2
"""Inches of the height of a page."""
_NAMED = 16
"""Bars that have room for their names."""
_SHORT = 1e-4, 1e5
"""Numbers that are written without a power of ten."""
_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


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

    def __post_init__(self) -> None:
        """Raise ArgumentError for values that no figure can have."""
        check_types(Page, vars(self))
        if self.size is not None:
            for inches in self.size:
                positive("size", inches)
        if self.dpi is not None:
            whole_number("dpi", self.dpi, 1)

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
        sheet = plt.style.library.get(style) or _read_style(style)
        with plt.style.context(["default", sheet, {"text.parse_math": False}]):  # names may contain $
            yield


def _read_style(file: str) -> Any:
    from matplotlib import rc_params_from_file

    try:
        return rc_params_from_file(file, use_default_template=False)
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise InputError(f"{file}: the style sheet cannot be read: {why}") from error


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Decorate a plot: check its options, and draw in our style without changing matplotlib's settings."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        check_options(draw, signature(draw).bind(*args, **kwargs).arguments)
        page = kwargs.get("figure")
        with (page if isinstance(page, Page) else Page()).context():
            return draw(*args, **kwargs)

    if "run" in signature(draw).parameters:  # else a method
        drawn.__doc__ = documented(draw)
    return drawn


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


def plain(value: float, digits: int = 6) -> str:
    """Return a number in plain text, as `0.25` or `−3 × 10⁻⁷`."""
    sign = "−" if value < 0 else ""
    if value == 0 or _SHORT[0] <= abs(value) < _SHORT[1]:
        return f"{sign}{abs(value):.{digits}g}"
    mantissa, exponent = f"{abs(value):.{digits - 1}e}".split("e")
    mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
    power = f"10{str(int(exponent)).translate(_RAISED)}"
    return f"{sign}{power}" if mantissa == "1" else f"{sign}{mantissa} × {power}"


def solid(colour: str) -> dict[str, Any]:
    """Return the keys of bars without gaps: their edges hide the seams that vector formats show."""
    return {"color": colour, "edgecolor": colour, "linewidth": 0.6}


def colour_bar(axes: Any, drawn: Any, label: str, **keys: Any) -> None:
    """Draw the colour bar of a map to the right of its axes, as high as they are; `keys` are matplotlib's."""
    from matplotlib.transforms import ScaledTranslation, blended_transform_factory

    inches = axes.figure.dpi_scale_trans + ScaledTranslation(1, 0, axes.transAxes)
    place = axes.inset_axes((0.1, 0, 0.1, 1), transform=blended_transform_factory(inches, axes.transAxes))
    if not _SHORT[0] <= float(np.abs(drawn.get_clim()).max()) < _SHORT[1]:
        keys["format"] = lambda x, _: plain(x)  # matplotlib would write the power above the bar
    axes.figure.colorbar(drawn, cax=place, label=label, **keys)


def bars_by_rank(axes: Any, heights: np.ndarray, names: Sequence[str] = ()) -> None:
    """Draw a bar for each feature by its rank, from 1; few features have their `names` below instead."""
    ranks = np.arange(1, len(heights) + 1)
    named = 0 < len(names) <= _NAMED
    axes.bar(ranks, heights, width=0.9 if named else 1.0, **solid(colours(1)[0]))
    axes.set(xlim=(0.5, len(ranks) + 0.5), xlabel="Feature" if named else "Rank of the feature by use")
    if named:
        axes.set_xticks(ranks, names)
    else:
        axes.locator_params(axis="x", integer=True)


def _hex(colour: Any) -> str:
    from matplotlib.colors import to_hex

    return str(to_hex(colour))


def logarithmic(axes: Any, along: Literal["x", "y"] = "y") -> None:
    """Make an axis logarithmic, with as many ticks as there is room for, each with its number in plain text.

    Smaller ticks between them show that the scale is logarithmic. An axis of too few such numbers has even
    ones.
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

    class Ticks(LogLocator):
        """Ticks at these multiples of powers of ten that have room for their numbers."""

        def tick_values(self, vmin: float, vmax: float) -> Any:
            assert self.axis is not None
            room = self.axis.get_tick_space()
            for subs in _MULTIPLES:
                self.set_params(subs=subs, numticks=room)
                ticks = np.asarray(super().tick_values(vmin, vmax))
                inside = ticks[(vmin <= ticks) & (ticks <= vmax)]
                apart = np.diff(np.log(inside)) / np.log(vmax / vmin) * room
                if (len(inside) > 2 or subs == _MULTIPLES[-1]) and (apart >= 1).all():
                    break
            return (
                ticks if len(inside) > 1 else MaxNLocator(room, steps=[1, 2, 5, 10]).tick_values(vmin, vmax)
            )

    axes.set(**{f"{along}scale": "log"})
    axis = axes.xaxis if along == "x" else axes.yaxis
    axis.set_major_locator(Ticks())
    axis.set_major_formatter(lambda x, _: plain(x))
    axis.set_minor_formatter(NullFormatter())


def from_zero(axes: Any, lowest: float) -> None:
    """Begin the y axis at 0 if no number is negative; a level in dB has no zero."""
    if lowest >= 0 and not axes.get_ylabel().endswith("dB)"):
        axes.set_ylim(bottom=0)


def grid(axes: Any) -> None:
    """Draw horizontal grid lines behind the data."""
    axes.grid(axis="y")
