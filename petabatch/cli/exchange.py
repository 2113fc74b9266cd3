"""Verbs for files of other programs: import, export."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from petabatch.cli.app import app, echo
from petabatch.cli.options import Folder
from petabatch.errors import ArgumentError
from petabatch.importing import importing


@app.command("import", rich_help_panel="PetaVision")
def import_(
    source: Annotated[
        Path,
        typer.Argument(
            help="Parameter file (.params, .pv or .lua) or .pvp file of PetaVision, or a folder of .params "
            "and .pv files, also in folders below.",
            metavar="FILE_OR_FOLDER",
        ),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Params file (.toml) to write, or folder (default: print it); of a .pvp file .npy or .h5.",
        ),
    ] = None,
    moved: Annotated[
        list[str] | None,
        typer.Option(
            "--path",
            metavar="OLD=NEW",
            help="Look for files whose path begins with OLD at NEW; can be repeated.",
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(help="Checkpoint directory of PetaVision whose weights and states to start from."),
    ] = None,
    variables: Annotated[
        list[str] | None,
        typer.Option(
            "--env",
            metavar="NAME=VALUE",
            help="What os.getenv of a file in Lua returns; can be repeated.",
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Option(
            "--arg",
            metavar="VALUE",
            help="The next of arg[1], arg[2], ... of a file in Lua; can be repeated.",
        ),
    ] = None,
    root: Annotated[
        Path | None,
        typer.Option(
            help="Folder from which a file in Lua reads modules and files (default: the folder of the file)."
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace existing files.")] = False,
) -> None:
    """Translate parameter files of PetaVision; report what became of each group."""
    with importing():
        from petabatch.petavision.arrays import convert_pvp
        from petabatch.petavision.convert import convert
        from petabatch.petavision.lua import Environment

    if source.suffix == ".pvp":
        echo(convert_pvp(source, output, force))
        return

    pairs = [_pair("--path", text) for text in moved or ()]
    environment = Environment(dict(_pair("--env", text) for text in variables or ()), arguments or (), root)
    codes = {0}
    for done in convert(source, output, pairs, checkpoint, force, environment):
        if done.path is None:
            echo(done.text, end="")
        echo(done.report, file=sys.stderr)
        codes.add(2 if done.wrong else int(done.incomplete))
    if max(codes):
        raise typer.Exit(max(codes))


@app.command(rich_help_panel="PetaVision")
def export(
    folder: Folder, output: Annotated[Path, typer.Option("--output", "-o", help="Folder to write.")]
) -> None:
    """Write what a run recorded and its latest checkpoint as PetaVision's files: .pvp, and text of probes.

    Single synapses are .npz files of pre units, post units, weights and delays.
    """
    from petabatch.petavision.export import export as export_run

    for path, what in export_run(folder, output):
        echo(f"{path}: {what}")


def _pair(option: str, text: str) -> tuple[str, str]:
    old, sign, new = text.partition("=")
    if not (old and sign):
        expected = "OLD=NEW" if option == "--path" else "NAME=VALUE"
        raise ArgumentError(option, "there is no = between two texts", text, expected)
    return old, new
