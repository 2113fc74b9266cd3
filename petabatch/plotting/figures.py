"""Shared parts of the plots: style, figures, images and output."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from petabatch.errors import InputError, ResourceError

P = ParamSpec("P")
T = TypeVar("T")

# Okabe & Ito 2008, "Color universal design": distinguishable with colour blindness.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_INK = "#262626"
_STYLE = {
    "font.size": 10,
    "axes.titlesize": 11,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#808080",
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": "#606060",
    "ytick.color": "#606060",
    "legend.frameon": False,
    "savefig.dpi": 200,
    "pdf.fonttype": 42,
}


def styled(draw: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function to draw in our style, without changing matplotlib's settings."""

    @wraps(draw)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> T:
        with pyplot().rc_context(_STYLE):
            return draw(*args, **kwargs)

    return drawn


def finish(figure: Any, output: str | Path | None = None) -> None:
    """Write the figure in the format of the suffix (.png, .svg, .pdf, ...), or show it on screen.

    Raises InputError for an unknown suffix or a file that cannot be written, ResourceError without a display.
    """
    plt = pyplot()
    if output is None:
        if plt.get_backend().lower() == "agg":
            raise ResourceError(
                "there is no display on which to show the figure\n    hint:     write it to a file with -o"
            )
        plt.show()
        return
    known = figure.canvas.get_supported_filetypes()
    suffix = Path(output).suffix.lstrip(".").lower()
    if suffix not in known:
        raise InputError(
            f"{output}: unsupported figure format\n    found:    {suffix or 'no suffix'}\n"
            f"    expected: {', '.join(sorted(known))}"
        )
    try:
        Path(output).parent.mkdir(parents=True, exist_ok=True)
        _save(figure, output)
    except OSError as error:
        raise InputError(f"{output}: the figure cannot be written: {error.strerror or error}") from error
    finally:
        plt.close(figure)


@styled
def _save(figure: Any, output: str | Path) -> None:
    figure.savefig(output)


def figure_of(size: tuple[float, float], rows: int, columns: int, **ratios: Any) -> tuple[Any, Any]:
    """Return a figure and its axes, row by row."""
    figure = pyplot().figure(figsize=size, layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False, gridspec_kw=ratios).flat)


def pyplot() -> Any:
    """Return matplotlib.pyplot; raises ResourceError when it is not installed."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ResourceError(
            'plots need matplotlib\n    hint:     pip install "petabatch[analysis]"'
        ) from error
    return plt


def images(values: Any, what: str) -> np.ndarray:
    """Return float64 images `[n, y, x, channel]`; raises InputError for anything else."""
    images = np.asarray(values, float)
    if images.ndim != 4 or 0 in images.shape or images.shape[-1] not in (1, 3):
        raise InputError(
            f"{what}: not images\n    found:    {list(images.shape)}\n"
            f"    expected: four axes, the last one of length 1 (grey) or 3 (red, green, blue)"
        )
    return images


def show(axes: Any, image: np.ndarray) -> None:
    """Draw an image with values from 0 to 1."""
    shown = np.clip(image, 0, 1)
    grey = shown.shape[-1] == 1
    axes.imshow(shown[..., 0] if grey else shown, cmap="gray", vmin=0, vmax=1, interpolation="nearest")
    axes.set_axis_off()
