"""Verbs about a params file: check, draw, bench, schema."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from petabatch.cli.app import app, echo
from petabatch.cli.options import AllowCode, File, Set, Sweep
from petabatch.errors import ArgumentError, ParamsError
from petabatch.importing import importing
from petabatch.logs import console

if TYPE_CHECKING:
    from petabatch.spec.load import Loaded


@app.command(rich_help_panel="Look at a network")
def check(
    file: File,
    overrides: Set = None,
    sweep: Sweep = None,
    whole: Annotated[
        bool, typer.Option("--explain", help="Print the full plan: operations and schedules.")
    ] = False,
    allow_code: AllowCode = False,
) -> None:
    """Validate a params file; print shapes, levels, feedback, memory and cost."""
    with importing():
        from petabatch.checking import check as checked
        from petabatch.spec.override import swept

    loaded = _described(file, [*(overrides or ()), *swept(sweep or ())], allow_code)
    echo(checked(loaded, explain=whole).text)


@app.command(rich_help_panel="Look at a network")
def draw(
    file: File,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Output file: .svg, .png, .pdf, .mmd or .md.")
    ] = None,
    overrides: Set = None,
    allow_code: AllowCode = False,
) -> None:
    """Draw the network graph; without --output, print it as Mermaid text."""
    from petabatch import params
    from petabatch.report import draw as drawing

    graph = params.plan(_described(file, overrides, allow_code)).graph
    if output is None:
        echo(drawing.mermaid(graph), end="")
    else:
        drawing.draw(graph, output)


@app.command(rich_help_panel="Look at a network")
def bench(
    file: Annotated[
        Path | None, typer.Argument(help="Params file (default: a built-in sparse-coding network).")
    ] = None,
    overrides: Set = None,
    steps: Annotated[
        int | None, typer.Option(min=1, help="Steps per measurement (default: one display).")
    ] = None,
    threads: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Benchmark with 1..N threads (default: all available cores); with --ranks, threads of each "
            "rank (default: 1).",
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--json", help="Also write the results to this file.")
    ] = None,
    ranks: Annotated[
        str | None,
        typer.Option(metavar="N,N", help="Predict displays on these numbers of MPI ranks, e.g. 1,8,64,4096."),
    ] = None,
    network: Annotated[
        str | None,
        typer.Option(
            metavar="LINK", help="Network of the ranks: 1GbE, 10GbE, NDR, or latency,bandwidth: 25us,117MB/s."
        ),
    ] = None,
    calibration: Annotated[
        Path | None,
        typer.Option(help="With --ranks: use the calibration in this file, or measure and keep it there."),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--plot", help="With --ranks: .png, .svg or .pdf file to draw.")
    ] = None,
) -> None:
    """Benchmark a network against dense matrix products, or predict it on many ranks."""
    from rich.console import Console

    from petabatch import simulation
    from petabatch.bench import EXAMPLE

    console(quiet=False)
    loaded = simulation.read(file or EXAMPLE, overrides or ())
    title = file.name if file else "built-in network"
    for option, path, mode in (("--json", output, os.W_OK), ("--calibration", calibration, os.R_OK)):
        if path is not None:  # said before anything is measured
            _check_file(option, path, mode)
    found: dict[str, Any]
    try:
        if ranks is None and network is None:
            from petabatch.bench.report import bench as measure
            from petabatch.bench.report import show

            for option, value in (("--calibration", calibration), ("--plot", picture)):
                if value is not None:
                    raise ArgumentError(
                        option, "this is for predictions", str(value), "--ranks and --network"
                    )
            counts = range(1, 1 + (threads or len(os.sched_getaffinity(0))))
            report = measure(loaded.network, title, counts, steps)
            show(report, Console())
            found = report.json()
        else:
            from petabatch.bench.prediction import command

            found = command.run(
                loaded.network, title, ranks, network, calibration, threads, steps, picture, Console()
            )
    except ParamsError as error:
        raise loaded.placed(error) from None
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


@app.command(rich_help_panel="Look at a network")
def schema(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a reference of all keys in Markdown instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of params files, for use in editors."""
    from petabatch import builtins  # noqa: F401
    from petabatch.spec.reference import markdown
    from petabatch.spec.schema import json_schema

    echo(markdown() if as_markdown else f"{json.dumps(json_schema(), indent=2)}\n", end="")


def _check_file(option: str, path: Path, mode: int) -> None:
    """Raise ArgumentError if a file cannot be used in this mode, or made where there is none."""
    if path.is_dir():
        raise ArgumentError(option, "this is a folder", str(path), "a file")
    if not path.parent.is_dir():
        raise ArgumentError(option, "there is no such folder", str(path.parent))
    if not (os.access(path, mode) if path.exists() else os.access(path.parent, os.W_OK)):
        raise ArgumentError(option, "there is no permission to use this file", str(path))


def _described(file: Path, overrides: list[str] | None, allow_code: bool) -> Loaded:
    """Load a params file to describe its network, which is not yet consent to execute its code."""
    from petabatch import params
    from petabatch.spec.plugins import below_current_directory

    execute = allow_code or below_current_directory(file)
    loaded = params.read(file, overrides or (), allow_code=execute)
    if loaded.network.plugins and not execute:
        echo(f"note: plug-ins were not executed: {', '.join(loaded.network.plugins)}", file=sys.stderr)
    return loaded
