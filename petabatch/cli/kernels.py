"""The verb about compiled kernels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from petabatch.cli.app import app, echo
from petabatch.errors import MISSING, ArgumentError, did_you_mean


@app.command(rich_help_panel="Installation")
def kernels(
    compile_all: Annotated[
        bool, typer.Option("--compile", help="Compile all kernels now, so that no run waits for them.")
    ] = False,
    levels: Annotated[
        str | None,
        typer.Option(
            "--for",
            metavar="LEVEL,...",
            help="Processors to compile for, x86-64-v3 or x86-64-v4 (default: this one).",
        ),
    ] = None,
    into: Annotated[
        Path | None,
        typer.Option(help="Folder of the cache (default: NUMBA_CACHE_DIR, else as runs choose it)."),
    ] = None,
) -> None:
    """Show which kernels are compiled, or compile them all, as for the image of a cluster."""
    from petabatch.kernels import cache
    from petabatch.kernels.cpu.ahead import compile_for, kernels
    from petabatch.kernels.cpu.loading import can_load
    from petabatch.kernels.cpu.target import LEVELS, target

    chosen = [target()] if levels is None else levels.split(",")
    for level in chosen:
        if level not in (target(), *LEVELS):
            hint = did_you_mean(level, LEVELS)
            raise ArgumentError("--for", "there is no such level", level, ", ".join(LEVELS), hint)
    if compile_all:
        folder = into.absolute() if into is not None else cache.writable_folder()
        if folder is None or not can_load():
            raise ArgumentError(
                "--compile", "kernels cannot be kept: no folder, or an unknown version of numba", None
            )
        for level in chosen:
            echo(f"{level}: {compile_for(level, folder)} kernels in {folder}")
        return
    if levels is not None or into is not None:
        raise ArgumentError("--for, --into", "they need --compile", MISSING)
    echo(f"this processor  {target()}")
    names = [kernel._cache.name(kinds) for kernel, kinds in kernels().values()] if can_load() else []
    for label, place in (*(("cache", one) for one in cache.folders()), ("installed", cache.SHIPPED)):
        found = cache.contents(place, names)
        text = ", ".join(f"{count} of {len(names)} for {level}" for level, count in found.items())
        echo(f"{label:15} {text or 'none'} in {place}")
