"""Shared parts of the plotting scripts: options, and default names from what a run has recorded."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from petabatch import plotting, results
from petabatch.errors import InputError, PetabatchError
from petabatch.results import Results


def options(description: str) -> argparse.ArgumentParser:
    """Return a parser with the options of every script."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("run", type=Path, metavar="DIR", help="run directory or run.h5")
    parser.add_argument(
        "-o", "--output", type=Path, help=".png, .svg or .pdf file to write (default: show on screen)"
    )
    parser.add_argument("--title", help="title of the figure")
    return parser


def main(parser: argparse.ArgumentParser, draw: Callable[[Results, Any], Any]) -> None:
    """Parse the options, draw the run, and write or show the figure; exit with a message on errors."""
    given = parser.parse_args()
    try:
        with results.open(given.run) as run:
            figure = draw(run, given)
        plotting.finish(figure, given.output)
    except PetabatchError as error:
        sys.exit(str(error))


def count(text: str) -> int:
    """Read an option that counts something; argparse reports a ValueError."""
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a number of at least 1")
    return number


def recorded(run: Results, folder: str) -> list[str]:
    """Return the names recorded under `layers`, `connections` or `probes`."""
    names = [place.split("/")[1] for place in run.names() if place.startswith(f"{folder}/")]
    return list(dict.fromkeys(names))


def choose(run: Results, folder: str, wanted: Callable[[dict[str, Any]], object], option: str) -> str:
    """Return the first recorded name whose params satisfy `wanted`; raises InputError when none does."""
    names = recorded(run, folder)
    params = run.params.get(folder, {})
    for name in names:
        if wanted(params.get(name, {})):
            return name
    raise InputError(
        f"{run.path}: nothing to draw among the recorded {folder}\n"
        f"    found:    {', '.join(names) or 'none'}\n    hint:     record more, or choose one with {option}"
    )


def learned(run: Results) -> dict[str, Any]:
    """Return the params of the dictionary: the first connection that learns, else the first with weights."""
    weighted: Sequence[dict[str, Any]] = [c for c in run.params["connections"].values() if "patch" in c]
    return next((c for c in weighted if c.get("learn")), weighted[0] if weighted else {})
