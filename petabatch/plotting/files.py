"""Files of figures and films: formats, numbers as CSV, and what a figure shows in words."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from petabatch.arguments import checked
from petabatch.errors import ArgumentError, InputError, ResourceError
from petabatch.plotting.figures import Page, pyplot
from petabatch.plotting.table import as_csv
from petabatch.plotting.texts import described


@runtime_checkable
class Film(Protocol):
    """A figure that changes; it has a writer of its own."""

    figure: Any

    def save(self, output: str | os.PathLike[str]) -> None:
        """Write all frames."""


@checked()
def finish(figure: Any, output: str | os.PathLike[str] | None = None, page: Page | None = None) -> None:
    """Write the figure in the format of the suffix (.png, .svg, .pdf, ...), or show it on screen.

    Parameters
    ----------
    figure
        A figure of matplotlib, or a `Movie`.
    output
        The file to write; a .csv file has the numbers that are drawn. By default the figure is shown.
    page
        Its `dpi` is the resolution of the file.

    Raises
    ------
    ArgumentError
        The first argument is no figure.
    InputError
        The suffix is unknown, or the file cannot be written.
    ResourceError
        There is no display.
    """
    if not hasattr(figure, "savefig") and not isinstance(figure, Film):
        raise ArgumentError("figure", "this is not a figure", figure, "a figure of matplotlib, or a Movie")
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


def check_format(output: str | os.PathLike[str], film: bool = False) -> None:
    """Raise InputError if figures, or films, cannot be written with the suffix of this name."""
    known = ("gif", "mp4") if film else (*pyplot().FigureCanvasBase.get_supported_filetypes(), "csv")
    suffix = Path(output).suffix.lstrip(".").lower()
    if suffix not in known:
        raise InputError(
            f"{output}: unsupported figure format\n    found:    {suffix or 'no suffix'}\n"
            f"    expected: {', '.join(sorted(known))}"
        )


def _metadata(figure: Any, output: str | os.PathLike[str]) -> dict[str, Any] | None:
    """Return what tells a reader without eyes what the figure shows, in the keys of its format."""
    text = described(figure)
    keys = {".png": "Description", ".svg": "Description", ".pdf": "Subject"}
    key = keys.get(Path(output).suffix.lower())
    return {key: text, "Title": text.split(". ")[0]} if key else None
