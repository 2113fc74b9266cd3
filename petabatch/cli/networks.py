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
from petabatch.errors import ArgumentError, ParamsError, ResourceError
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
        from petabatch import params
        from petabatch.network.advice import advice
        from petabatch.parallel.cores import lane_threads
        from petabatch.report.explain import explain, summary
        from petabatch.report.lines import field
        from petabatch.report.memory import shortage
        from petabatch.report.stability import step_limits
        from petabatch.spec.override import swept
        from petabatch.storage.files import OUTPUTS
        from petabatch.storage.format import format_of

    loaded = _described(file, [*(overrides or ()), *swept(sweep or ())], allow_code)
    notes, arrays, found = list[str](), {}, None
    if loaded.network.sweep is not None or loaded.network.run.pool:
        with importing():  # of what writes files
            from petabatch.waves.run import experiment
        found = experiment(loaded)
    if found is None:
        plan = params.plan(loaded)
        params.check_values(loaded, plan)
    else:  # the plan of a point
        plan = found.base
        notes += field("pool" if loaded.network.run.pool else "sweep", found)
    run = plan.graph.network.run
    held = plan.graph.network.batch if found is None else found.held(None)
    if (lacking := shortage(plan, held, lane_threads(run))) is not None:
        notes += field("warning", f"{lacking}; `run` refuses it here")
    if run.device == "gpu":
        from petabatch.engine.gpu.detect import missing

        if (reason := missing()) is not None:
            notes += field("note", f"no GPU is found, and `run` refuses it here: {reason}")
    kind = OUTPUTS[loaded.network.output.format]
    try:
        if kind.extra:  # else the modules that write files are imported for nothing
            format_of(kind).require()
    except ResourceError as error:
        reason, _, hint = str(error).partition("\n    hint:     ")
        notes += field("note", f"{reason}; `run` refuses it here: {hint}")
    if shortage(plan, 1, 1) is None:
        state, images = params.first_state(loaded, plan)
        arrays = dict(state.arrays)
        for text in images:
            notes += field("images", text)
        for limit in step_limits(state):
            notes += field("note" if limit.exceeded else "step size", limit)
    for one in advice(plan, arrays):
        notes += field(one.level, one.text)
    echo(explain(plan) if whole else summary(plan))
    for note in notes:
        echo(note)


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
