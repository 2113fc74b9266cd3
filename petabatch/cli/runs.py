"""Verbs that simulate: run, resume, encode."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from petabatch.cli.app import app, echo
from petabatch.cli.options import Device, File, Folder, Mpi, Quiet, Set, Sweep, Threads
from petabatch.importing import importing
from petabatch.logs import console


@app.command()
def run(
    file: File,
    out: Annotated[
        Path | None, typer.Option(help="Run directory (default: runs/NAME for NAME.toml).")
    ] = None,
    overrides: Set = None,
    sweep: Sweep = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run directory.")] = False,
    device: Device = None,
    threads: Threads = None,
    mpi: Mpi = None,
    quiet: Quiet = False,
) -> None:
    """Run the network described by a params file."""
    with importing():
        from petabatch import simulation
        from petabatch.spec.override import swept

    console(quiet)
    wanted = [*(overrides or ()), *swept(sweep or ()), *([f"run.device={device}"] if device else ())]
    simulation.run_file(
        file,
        wanted,
        out or Path("runs") / file.stem,
        force=force,
        threads=threads,
        mpi=mpi,
        quiet=quiet,
    )


@app.command()
def resume(
    folder: Folder,
    device: Device = None,
    features: Annotated[
        int | None, typer.Option(min=1, help="Ranks to split features over (default: unchanged).")
    ] = None,
    changed_input: Annotated[
        bool, typer.Option("--changed-input", help="Resume even if input files have changed.")
    ] = False,
    threads: Threads = None,
    mpi: Mpi = None,
    quiet: Quiet = False,
) -> None:
    """Resume a run from its latest checkpoint."""
    with importing():
        from petabatch import simulation

    console(quiet)
    simulation.resume(
        folder,
        threads=threads,
        mpi=mpi,
        quiet=quiet,
        device=device,
        features=features,
        changed_input=changed_input,
    )


@app.command()
def encode(
    dictionary: Annotated[
        Path,
        typer.Argument(
            help="A run, or a .npy, .mat or HDF5 file of a dictionary.", metavar="RUN_OR_DICTIONARY"
        ),
    ],
    data: Annotated[
        str,
        typer.Argument(
            help="Images: a .npy file, image files, a folder or pattern of them, a film, or a source as in a "
            'params file, such as \'{ type = "photographs", names = ["coffee"] }\'.',
            metavar="DATA",
        ),
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="HDF5 file to write.")],
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file of codes.")] = False,
    threshold: Annotated[
        float | None, typer.Option(help="Sparsity penalty (default: threshold of the run).")
    ] = None,
    stride: Annotated[
        int | None, typer.Option(help="Pixels from one patch to the next (default: those of the run).")
    ] = None,
    axes: Annotated[
        str | None, typer.Option(help="Axes of the dictionary, e.g. oihw as in PyTorch (default: ohwi).")
    ] = None,
    dataset: Annotated[
        str | None, typer.Option(help="Dataset or variable of the dictionary in its file.")
    ] = None,
    connection: Annotated[str | None, typer.Option(help="Dictionary of a run that has several.")] = None,
    normalize: Annotated[
        Literal["none", "standard", "range"] | None,
        typer.Option(help="Normalisation of the images (default: that of the run)."),
    ] = None,
    size: Annotated[
        tuple[int, int] | None,
        typer.Option(
            help="Rows and columns of the part of each image to code (default: all).", metavar="ROWS COLUMNS"
        ),
    ] = None,
    gap: Annotated[float, typer.Option(help="Relative duality gap at which an image is done.")] = 1e-2,
    steps: Annotated[int, typer.Option(help="Largest number of steps for an image.")] = 1000,
    signed: Annotated[
        bool | None, typer.Option("--signed/--positive", help="Allow negative codes (default: as the run).")
    ] = None,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Compute sparse codes of images with a dictionary, from a run or a file."""
    with importing():
        from petabatch import coding

    console(quiet)
    codes = coding.encode(
        data,
        dictionary,
        threshold,
        stride=stride,
        axes=axes,
        dataset=dataset,
        connection=connection,
        normalize=normalize,
        size=size,
        gap=gap,
        steps=steps,
        signed=signed,
        threads=threads,
        out=output,
        force=force,
    )
    if not quiet:
        echo(f"{output}: {repr(codes)[1:-1]}")
