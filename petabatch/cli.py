"""The command line: one thin verb per public function."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NoReturn, TextIO

import typer
from typer.core import TyperGroup

from petabatch.errors import ArgumentError, ParamsError, printable
from petabatch.importing import importing
from petabatch.logs import console
from petabatch.parallel.failure import reporting
from petabatch.version import __version__

if TYPE_CHECKING:
    from petabatch.spec.load import Loaded

_UsageError: Any = typer.BadParameter.__base__


class _Verbs(TyperGroup):
    """The commands, whose usage errors quote what was typed; Click leaves marks of direction in it."""

    def get_params(self, ctx: Any) -> Any:
        """Return what can be given before the verb."""
        return _plain_flags(super().get_params(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a verb."""
        verb = super().get_command(ctx, cmd_name)
        if verb is not None:
            _plain_flags(verb.get_params(ctx))
        return verb

    def make_context(self, *arguments: Any, **keys: Any) -> Any:
        """Parse what comes before the verb."""
        with _printable():
            return super().make_context(*arguments, **keys)

    def invoke(self, ctx: Any) -> Any:
        """Parse the rest, and run the verb."""
        with _printable():
            return super().invoke(ctx)


def _plain_flags(options: Sequence[Any]) -> Sequence[Any]:
    """Return options, of which help shows flags, which take no value, without a type."""
    for option in options:
        if getattr(option, "is_flag", False) and option.metavar is None:
            option.metavar = ""
    return options


@contextmanager
def _printable() -> Iterator[None]:
    try:
        yield
    except _UsageError as error:
        error.message = printable(error.message)
        raise


app = typer.Typer(
    name="petabatch",
    cls=_Verbs,
    help="Simulate batches of dynamical networks described by a params file.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)

File = Annotated[Path, typer.Argument(help="Params file (.toml or .py).")]
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
        help="Run several values of a key in one batch, e.g. layers.V1.threshold=0.3,0.4; can be repeated.",
    ),
]
Threads = Annotated[
    int | None,
    typer.Option(min=1, help="Threads per rank (default: all available cores). Does not affect results."),
]
Device = Annotated[Literal["cpu", "gpu"] | None, typer.Option(help="Device to run on (default: run.device).")]
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
    simulation.run(
        simulation.read(file, wanted),
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
        _print(f"{output}: {repr(codes)[1:-1]}")


@app.command()
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

    loaded = _described(file, [*(overrides or ()), *swept(sweep or ())], allow_code)
    plan = params.plan(loaded)
    params.check_values(loaded, plan)
    run, notes = plan.graph.network.run, list[str]()
    if (lacking := shortage(plan, plan.graph.network.batch, lane_threads(run))) is not None:
        notes += field("warning", f"{lacking}; `run` refuses it here")
    if shortage(plan, 1, 1) is None:
        limits = step_limits(params.first_state(loaded, plan))
        for limit in limits:
            notes += field("note" if limit.exceeded else "step size", limit)
    for note in advice(plan):
        notes += field("note", note)
    _print(explain(plan) if whole else summary(plan))
    for note in notes:
        _print(note)


def _print(text: str, end: str = "\n", file: TextIO | None = None) -> None:
    """Print a text that names what others have named."""
    print(printable(text), end=end, file=file)


def _described(file: Path, overrides: list[str] | None, allow_code: bool) -> Loaded:
    """Load a params file to describe its network, which is not yet consent to execute its code."""
    from petabatch import params
    from petabatch.spec.plugins import below_current_directory

    execute = allow_code or below_current_directory(file)
    loaded = params.read(file, overrides or (), allow_code=execute)
    if loaded.network.plugins and not execute:
        _print(f"note: plug-ins were not executed: {', '.join(loaded.network.plugins)}", file=sys.stderr)
    return loaded


@app.command()
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
        _print(drawing.mermaid(graph), end="")
    else:
        drawing.draw(graph, output)


@app.command()
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
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True}, add_help_option=False
)
def plot(context: typer.Context) -> None:
    """Draw the results of a run; `plot --list DIR` tells what can be drawn of it."""
    from petabatch.plotting.command import plot as draw_plot

    draw_plot(context.args)


@app.command()
def report(
    folder: Folder,
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write a report of a run: one HTML file with curves, dictionary, reconstructions."""
    from petabatch.report.page.build import report as write_report

    if output.suffix not in (".html", ".htm"):
        raise ArgumentError("--output", "a report is an HTML file", output, f"{output.with_suffix('.html')}")
    write_report(folder, output)
    _print(f"{output}: {output.stat().st_size:,} bytes")


@app.command()
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
        typer.Option(metavar="N,N", help="Predict displays on so many MPI ranks, e.g. 1,8,64,4096."),
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
    import os

    from rich.console import Console

    from petabatch import simulation
    from petabatch.bench import EXAMPLE

    console(quiet=False)
    loaded = simulation.read(file or EXAMPLE, overrides or ())
    title = file.name if file else "built-in network"
    found: dict[str, Any]
    try:
        if ranks is None and network is None:
            from petabatch.bench.report import bench as measure
            from petabatch.bench.report import show

            for option, value in (("--calibration", calibration), ("--plot", picture)):
                if value is not None:
                    raise ArgumentError(option, "this is for predictions", value, "--ranks and --network")
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


@app.command()
def schema(
    as_markdown: Annotated[
        bool, typer.Option("--markdown", help="Print a reference of all keys in Markdown instead.")
    ] = False,
) -> None:
    """Print the JSON Schema of params files, for use in editors."""
    from petabatch import builtins  # noqa: F401
    from petabatch.spec.reference import markdown
    from petabatch.spec.schema import json_schema

    _print(markdown() if as_markdown else f"{json.dumps(json_schema(), indent=2)}\n", end="")


@app.command()
def merge(
    folder: Folder, output: Annotated[Path, typer.Option("--output", "-o", help="HDF5 file to write.")]
) -> None:
    """Merge the segments of a run into one self-contained HDF5 file."""
    from petabatch.storage.merge import merge as merge_run

    merge_run(folder, output)


@app.command()
def verify(
    folder: Folder,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Rebuild a damaged run.h5 and manifest; take damaged segments out of the run.",
        ),
    ] = False,
) -> None:
    """Verify the checksum of every file of a run; tell what is lost and what can be rebuilt."""
    from petabatch.report import integrity

    text, whole = integrity.verify(folder, repair)
    _print(text)
    if not whole:
        raise typer.Exit(1)


@app.command()
def prune(folder: Folder) -> None:
    """Remove the checkpoints of a run that is done; they are often most of its size."""
    from petabatch.storage.prune import prune as prune_run

    freed = prune_run(folder)
    _print(f"{freed:,} bytes freed")


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version and exit.", is_eager=True)
    ] = False,
) -> None:
    if version:
        _print(f"petabatch {__version__}")
        raise typer.Exit


def main() -> NoReturn:
    """Run one of these verbs."""
    with reporting():
        app(standalone_mode=True)
    sys.exit(0)
