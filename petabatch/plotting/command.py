"""The command line of `petabatch plot`, and of the scripts in `analysis/`."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from petabatch import results
from petabatch.errors import PetabatchError, did_you_mean, printable
from petabatch.plotting.figures import Page
from petabatch.plotting.files import finish
from petabatch.plotting.kinds import KINDS, draw_function, reason_against, suggested
from petabatch.plotting.options import add_options, at_least, option_names, takes_several_runs
from petabatch.plotting.texts import described


def plot(arguments: Sequence[str]) -> None:
    """Draw what `petabatch plot [KIND] DIR [options]` asks for, or tell with `--list` what can be drawn."""
    kind = next((word for word in arguments if word in KINDS), None)
    if kind is not None and "--list" not in arguments:  # which is followed by a directory of any name
        place = arguments.index(kind)
        _draw(kind, [*arguments[:place], *arguments[place + 1 :]], f"petabatch plot {kind}")
        return
    parser = argparse.ArgumentParser(
        "petabatch plot",
        usage="petabatch plot [KIND] DIR [-o FILE] [options]\n       petabatch plot --list DIR",
        description="Draw a run; without KIND, what suits it. `petabatch plot KIND --help` describes the\n"
        "options of a kind.",
        epilog="kinds:\n" + "\n".join(f"  {kind:18} {_summary(kind)}" for kind in KINDS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--list", type=Path, metavar="DIR", help="list the kinds that this run can draw")
    parser.add_argument("run", nargs="?", metavar="DIR", help="run directory or run.h5")
    _add_page(parser, ".png, .svg, .pdf or .csv")
    given, rest = parser.parse_known_args(arguments)
    if given.list is not None:
        with results.open(given.list) as run:
            sys.stdout.write(printable(drawable(run)))
    elif given.run is None:
        parser.print_help()
    elif not Path(given.run).exists() and ((hint := did_you_mean(given.run, KINDS)) or rest):
        parser.error(printable(f"there is no kind {given.run!r}{f': {hint}' if hint else ''}"))
    else:
        with results.open(given.run) as run:
            chosen = suggested(run)
        _draw(chosen, arguments, "petabatch plot")


def script(kind: str) -> None:
    """Draw one kind, as a script in `analysis/` does; exit with a message on errors."""
    try:
        _draw(kind, sys.argv[1:], Path(sys.argv[0]).name)
    except PetabatchError as error:
        sys.exit(printable(str(error)))


def _draw(kind: str, arguments: Sequence[str], program: str) -> None:
    """Parse the options of a kind, draw, write or show the figure, and say what it is."""
    draw = draw_function(kind)
    parser = argparse.ArgumentParser(
        program,
        description=f"Draw {_description(kind)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = takes_several_runs(draw)
    dirs: dict[str, Any] = (
        {"nargs": "+", "help": "run directories"} if several else {"help": "run directory or run.h5"}
    )
    parser.add_argument("run", type=Path, metavar="DIR", **dirs)
    _add_page(parser, ".gif or .mp4" if kind == "movie" else ".png, .svg, .pdf or .csv")
    add_options(parser, draw)
    given = parser.parse_args(arguments)
    page = Page(given.columns, given.size and tuple(given.size), given.dpi, given.style)
    with ExitStack() as opened:
        runs = [opened.enter_context(results.open(path)) for path in (given.run if several else [given.run])]
        figure = draw(*runs, figure=page, **{name: getattr(given, name) for name in option_names(draw)})
        text = described(getattr(figure, "figure", None) or figure)
        finish(figure, given.output, page)
    sys.stderr.write(printable(f"{kind}: {text.split('. ')[0]}\n"))


def _add_page(parser: argparse.ArgumentParser, formats: str) -> None:
    """Add the options that all kinds have."""
    add = parser.add_argument_group("file and page").add_argument
    add(
        "-o", "--output", type=Path, metavar="FILE", help=f"{formats} file to write (default: show on screen)"
    )
    add("--columns", type=int, choices=(1, 2), help="columns of a journal to fill: 89 or 183 mm (default: 2)")
    add(
        "--size", type=float, nargs=2, metavar=("WIDTH", "HEIGHT"),
        help="size in inches (default: as wide as two columns, as high as it takes)",
    )  # fmt: skip
    add("--dpi", type=at_least(1), metavar="N", help="pixels per inch (default: 200)")
    add("--style", metavar="FILE", help="style sheet of matplotlib, or the name of one (default: our own)")


def drawable(run: results.Results) -> str:
    """Return a table of the kinds: which can be drawn of a run, and why not the others."""
    lines = []
    for kind in KINDS:
        reason = reason_against(kind, run)
        text = f"no: {reason}" if reason else f"yes: {_summary(kind)}"
        lines += textwrap.wrap(text, 100, initial_indent=f"{kind:18} ", subsequent_indent=" " * 23)
    return "\n".join(lines) + "\n"


def _summary(kind: str) -> str:
    return _description(kind).splitlines()[0].rstrip(".")


def _description(kind: str) -> str:
    """Return what a kind shows."""
    return inspect.cleandoc(inspect.unwrap(draw_function(kind)).__doc__ or "").removeprefix("Return ")
