"""Verbs about the directory of a run: info, plot, report, merge, verify, prune."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from petabatch.cli.app import app, echo
from petabatch.cli.options import Folder
from petabatch.errors import ArgumentError


@app.command(rich_help_panel="Look at a run")
def info(
    run: Annotated[Path | None, typer.Argument(help="Run directory, run.h5, or file made by merge.")] = None,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Keep the page up to date until the run ends.")
    ] = False,
    devices: Annotated[
        bool, typer.Option("--devices", help="List the GPUs, or explain why there are none.")
    ] = False,
) -> None:
    """Show what a run is, how far and how fast; without a run, describe this installation."""
    from petabatch.report.command import info as show

    if watch and run is None:
        raise typer.BadParameter("needs a run", param_hint="--watch")
    show(run, watch=watch, devices=devices)


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    add_help_option=False,
    rich_help_panel="Look at a run",
)
def plot(context: typer.Context) -> None:
    """Draw the results of a run; `plot --list DIR` tells what can be drawn of it."""
    from petabatch.plotting.command import plot as draw_plot

    draw_plot(context.args)


@app.command(rich_help_panel="Look at a run")
def report(
    folder: Folder,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write a report of a run: one HTML file with curves, dictionary, reconstructions."""
    from petabatch.report.page.build import report as write_report

    if output.suffix not in (".html", ".htm"):
        raise ArgumentError("--output", "a report is an HTML file", output, f"{output.with_suffix('.html')}")
    write_report(folder, output)
    echo(f"{output}: {output.stat().st_size:,} bytes")


@app.command(rich_help_panel="Files of a run")
def merge(
    folder: Folder, output: Annotated[Path, typer.Option("--output", "-o", help="HDF5 file to write.")]
) -> None:
    """Merge the segments of a run into one self-contained HDF5 file."""
    from petabatch.storage.merge import merge as merge_run

    merge_run(folder, output)


@app.command(rich_help_panel="Files of a run")
def verify(
    folder: Folder,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Rebuild a damaged run.h5; take damaged segments out of the run.",
        ),
    ] = False,
) -> None:
    """Verify the checksum of every file of a run; tell what is lost and what can be rebuilt."""
    from petabatch.report import integrity

    if repair:
        from petabatch.storage.directory import RunDirectory

        if (directory := RunDirectory.open(folder)).in_waves:
            from petabatch.waves.run import repair as repair_waves

            for what, name in repair_waves(directory):
                echo(f"{what:18} {name}")
    text, whole = integrity.verify(folder, repair)
    echo(text)
    if not whole:
        raise typer.Exit(1)


@app.command(rich_help_panel="Files of a run")
def prune(folder: Folder) -> None:
    """Remove the checkpoints of a run that is done, often most of its size; no run can start from it then."""
    from petabatch.storage.prune import prune as prune_run

    freed = prune_run(folder)
    echo(f"{freed:,} bytes freed")
