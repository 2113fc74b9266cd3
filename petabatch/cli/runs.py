"""Verbs that simulate: run, resume, join, encode."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from petabatch.cli.app import app, echo
from petabatch.cli.options import Device, File, Folder, Gpus, Mpi, Quiet, Set, Sweep, Threads
from petabatch.errors import ArgumentError, PointsFailed
from petabatch.importing import importing
from petabatch.logs import console

if TYPE_CHECKING:
    from petabatch.results import Results


@app.command(rich_help_panel="Run")
def run(
    file: File,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Run directory (default: runs/NAME for NAME.toml).")
    ] = None,
    overrides: Set = None,
    sweep: Sweep = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing run directory.")] = False,
    extend: Annotated[
        bool, typer.Option("--extend", help="Make the points of a sweep that the run directory lacks.")
    ] = False,
    chunk: Annotated[
        str | None,
        typer.Option(
            help="Make a part of the points of a sweep, as 7/100; auto takes it from SLURM's variables of a "
            "job array, auto/100 from SLURM's or PBS's. Then: petabatch join.",
            metavar="K/N",
        ),
    ] = None,
    device: Device = None,
    gpus: Gpus = None,
    threads: Threads = None,
    mpi: Mpi = None,
    quiet: Quiet = False,
) -> None:
    """Run the network described by a params file."""
    with importing():
        from petabatch import simulation
        from petabatch.spec.override import swept

    console(quiet)
    device = _started(gpus, device)
    wanted = [*(overrides or ()), *swept(sweep or ()), *([f"run.device={device}"] if device else ())]
    out = out or Path("runs") / file.stem
    if chunk is not None:
        from petabatch.waves.queue import chunk_of
        from petabatch.waves.run import run_chunk

        part = chunk_of(chunk)
        if force or extend:
            raise ArgumentError("--chunk", "jobs share a directory", "--force or --extend", "neither")
        failed, what = run_chunk(file, wanted, out, part, threads=threads, mpi=mpi, quiet=quiet)
        _refuse_failed(out, failed, what)
        return
    results = simulation.run_file(
        file, wanted, out, force=force, extend=extend, threads=threads, mpi=mpi, quiet=quiet
    )
    _refuse_failed(out, results.failed, _kind(results))


@app.command(rich_help_panel="Run")
def resume(
    folder: Folder,
    device: Device = None,
    gpus: Gpus = None,
    features: Annotated[
        int | None, typer.Option(min=1, help="Ranks to split features over (default: as in the params file).")
    ] = None,
    rows: Annotated[
        int | None, typer.Option(min=1, help="Ranks to split rows over (default: as in the params file).")
    ] = None,
    changed_input: Annotated[
        bool, typer.Option("--changed-input", help="Resume even if input files have changed.")
    ] = False,
    threads: Threads = None,
    mpi: Mpi = None,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Make points of a sweep that failed again.")
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Resume a run from its latest checkpoint, or a sweep with the points that are left."""
    with importing():
        from petabatch import simulation

    console(quiet)
    device = _started(gpus, device)
    results = simulation.resume(
        folder,
        threads=threads,
        mpi=mpi,
        quiet=quiet,
        device=device,
        features=features,
        rows=rows,
        changed_input=changed_input,
        retry_failed=retry_failed,
    )
    _refuse_failed(folder, results.failed, _kind(results))


@app.command(rich_help_panel="Run")
def join(folder: Folder) -> None:
    """Join the points that the jobs of a sweep (run --chunk) have finished into its run.h5."""
    with importing():
        from petabatch.waves.run import join as join_points

    joined = join_points(folder)
    echo(str(joined))
    _refuse_failed(folder, joined.failed, joined.what)


def _started(gpus: str | None, device: Literal["cpu", "gpu"] | None) -> Literal["cpu", "gpu"] | None:
    """Return the device; with `gpus` the command goes on as ranks on several."""
    if gpus is None:
        return device
    if device == "cpu":
        raise ArgumentError("--gpus", "the run is to be on the CPU", "--device cpu", "--device gpu, or none")
    from petabatch.engine.gpu.start_ranks import start_ranks

    start_ranks(gpus, sys.argv[1:])
    return "gpu"


def _kind(results: Results) -> str:
    """Return what may fail alone."""
    return "slice" if results.params["run"].get("pool") else "point"


def _refuse_failed(folder: Path, failed: int, what: str) -> None:
    """Raise PointsFailed where points of a sweep, or slices of a pool, have."""
    if failed:
        raise PointsFailed(
            f"{folder}: {failed:,} {what}{'s' * (failed > 1)} failed\n"
            f"    hint:     `petabatch info {folder}` says why; "
            f"`petabatch resume {folder} --retry-failed` makes them again"
        )


@app.command(rich_help_panel="Run")
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
    device: Annotated[
        Literal["cpu", "gpu"] | None, typer.Option(help="Device to code on (default: cpu).")
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
        device=device,
        out=output,
        force=force,
    )
    if not quiet:
        echo(f"{output}: {repr(codes)[1:-1]}")
