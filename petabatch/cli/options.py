"""Arguments and options that several verbs have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

File = Annotated[Path, typer.Argument(help="Params file: .toml, .py, or .params of PetaVision.")]
Folder = Annotated[Path, typer.Argument(help="Run directory.")]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        "-s",
        metavar="KEY=VALUE",
        help="Override a key, e.g. layers.V1.threshold=0.3; can be repeated.",
    ),
]
Sweep = Annotated[
    list[str] | None,
    typer.Option(
        "--sweep",
        metavar="KEY=V,V",
        help="Run several values of a key, e.g. layers.V1.threshold=0.3,0.4; can be repeated.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads per rank (default: all available cores). Does not affect results."),
]
Device = Annotated[Literal["cpu", "gpu"] | None, typer.Option(help="Device to run on (default: run.device).")]
Gpus = Annotated[
    str | None,
    typer.Option(
        help="Start one rank per GPU on N GPUs of this machine, or on all; slices are distributed over them.",
        metavar="N|all",
    ),
]
Mpi = Annotated[
    bool | None, typer.Option("--mpi/--no-mpi", help="Force MPI on or off (default: auto-detect).")
]
AllowCode = Annotated[
    bool,
    typer.Option(
        "--allow-code",
        help="Execute plug-ins and params files in Python that are not below the current directory.",
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print warnings and errors only.")]
