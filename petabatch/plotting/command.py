"""The command line of `petabatch plot`, and of the scripts in `analysis/`."""

from __future__ import annotations

import argparse
import inspect
import sys
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from petabatch import results
from petabatch.errors import PetabatchError, did_you_mean, printable
from petabatch.plotting.figures import finish
from petabatch.plotting.kinds import KINDS, draw_function, reason_against
from petabatch.plotting.options import add_options, option_names, takes_several_runs


def plot(arguments: Sequence[str]) -> None:
    """Draw what `petabatch plot KIND DIR [options]` asks for, or tell with `--list DIR` what can be drawn."""
    parser = argparse.ArgumentParser(
        "petabatch plot",
        usage="petabatch plot KIND DIR [-o FILE] [options]\n       petabatch plot --list DIR",
        description="Draw a run. `petabatch plot KIND --help` describes the options of a kind.",
        epilog="kinds:\n" + "\n".join(f"  {kind:18} {_summary(kind)}" for kind in KINDS),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", nargs="?", metavar="KIND", help="what to draw, see below")
    parser.add_argument("--list", type=Path, metavar="DIR", help="list the kinds that this run can draw")
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write (default: show on screen)")
    head = next((place for place, word in enumerate(arguments) if word in KINDS), None)
    if head is not None and "--list" not in arguments:  # which is followed by a directory of any name
        draw_kind(
            arguments[head], [*arguments[:head], *arguments[head + 1 :]], f"petabatch plot {arguments[head]}"
        )
        return
    given, _ = parser.parse_known_args(arguments)
    if given.list is not None:
        with results.open(given.list) as run:
            sys.stdout.write(printable(drawable(run)))
    elif given.kind is None:
        parser.print_help()
    else:
        hint = did_you_mean(given.kind, KINDS)
        parser.error(printable(f"there is no kind {given.kind!r}{f': {hint}' if hint else ''}"))


def script(kind: str) -> None:
    """Draw one kind, as a script in `analysis/` does; exit with a message on errors."""
    try:
        draw_kind(kind, sys.argv[1:], Path(sys.argv[0]).name)
    except PetabatchError as error:
        sys.exit(printable(str(error)))


def draw_kind(kind: str, arguments: Sequence[str], program: str) -> None:
    """Parse the options of a kind, draw, and write or show the figure."""
    draw = draw_function(kind)
    parser = argparse.ArgumentParser(
        program,
        description=f"Draw {_description(kind)}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    several = takes_several_runs(draw)
    parser.add_argument(
        "run",
        type=Path,
        metavar="DIR",
        nargs="+" if several else None,
        help="run directories" if several else "run directory or run.h5",
    )
    formats = ".gif or .mp4" if kind == "movie" else ".png, .svg or .pdf"
    parser.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"{formats} file to write (default: show on screen)"
    )
    add_options(parser, draw)
    given = parser.parse_args(arguments)
    with ExitStack() as opened:
        runs = [opened.enter_context(results.open(path)) for path in (given.run if several else [given.run])]
        figure = draw(*runs, **{name: getattr(given, name) for name in option_names(draw)})
        finish(figure, given.output)


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
    return inspect.cleandoc(draw_function(kind).__doc__ or "").removeprefix("Return ")
