"""`petabatch bench`: measurement of a network, printed as a table and written as JSON."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from petabatch.bench.floor import Floor
from petabatch.bench.machine import machine
from petabatch.bench.profile import profile
from petabatch.bench.trial import Trial, interleaved, ratio
from petabatch.errors import printable
from petabatch.sizes import counted
from petabatch.spec.network import Network
from petabatch.storage.provenance import preset_warning

_BUDGET = 12.0
"""Seconds of all rounds together; at least one round is measured."""


@dataclass(frozen=True)
class Speed:
    """Results for one number of threads, medians over rounds."""

    threads: int
    slice_steps_per_second: float
    microseconds: float
    """Time of one step of one slice."""
    floor_microseconds: float | None
    times_floor: float | None
    speedup: float
    """Relative to the smallest number of threads."""


@dataclass(frozen=True)
class Report:
    """The result of a benchmark."""

    title: str
    batch: int
    steps: int
    display: int
    rounds: int
    active: float | None
    floor_gflops: float | None
    speeds: list[Speed]
    method: str
    """Which stepper was measured, and why it is this one."""
    shares: dict[str, float]
    computed: dict[str, float]
    """Of each lazily evaluated code, the share of its units that is computed in a step."""
    machine: dict[str, Any]
    precision: str = "float32"

    def json(self) -> dict[str, Any]:
        """Return the report as a dictionary, ready for JSON."""
        return asdict(self)


def bench(network: Network, title: str, threads: Sequence[int], steps: int | None = None) -> Report:
    """Measure a network on each of these numbers of threads, interleaved with the floor.

    Raises ParamsError when the network is invalid, ResourceError when it asks for a GPU and there is none.
    """
    trial = Trial.of(network, steps)
    products = trial.products
    floor = Floor(products, network.batch, network.run.precision) if products else None
    first = sum(trial.seconds(n) for n in threads)  # warm-up, which also gives the time of a round
    rounds = max(1, min(9, int(_BUDGET / first)))
    jobs = {}
    for n in threads:
        if floor is not None:
            jobs[f"floor {n}"] = lambda n=n: floor.seconds(n)
        jobs[f"run {n}"] = lambda n=n: trial.seconds(n) / trial.slice_steps
    found = interleaved(jobs, rounds)
    speeds = [_speed(found, n, threads[0]) for n in threads]
    shares, active, computed = profile(trial)
    return Report(
        title, network.batch, trial.steps, network.run.display, rounds, active,
        floor.rate(statistics.median(found["floor 1"])) / 1e9 if floor and 1 in threads else None,
        speeds, str(trial.plan.method), shares, computed, machine(), network.run.precision,
    )  # fmt: skip


def _speed(found: dict[str, list[float]], threads: int, least: int) -> Speed:
    mine, floor = found[f"run {threads}"], found.get(f"floor {threads}")
    seconds = statistics.median(mine)
    return Speed(
        threads, 1 / seconds, seconds * 1e6,
        statistics.median(floor) * 1e6 if floor else None,
        ratio(mine, floor) if floor else None,
        ratio(found[f"run {least}"], mine),
    )  # fmt: skip


def show(report: Report, console: Console) -> None:
    """Print a report."""
    about = report.machine
    active = "" if report.active is None else f", {report.active:.1%} active at the end"
    title = escape(printable(report.title))
    console.print(
        f"[bold]{title}[/]: {counted(report.batch, 'slice')}, {counted(report.steps, 'step')} of displays "
        f"of {report.display}{active}; median of {counted(report.rounds, 'round')}",
        soft_wrap=True,
    )
    console.print(f"{about['processor']}, {about['cores']} cores; BLAS {', '.join(about['blas'])}")
    table = Table("threads", "slice·steps/s", "µs per slice·step", "floor µs", "× floor", "speed-up")
    for column in table.columns:
        column.justify = "right"
    for speed in report.speeds:
        table.add_row(
            str(speed.threads), f"{speed.slice_steps_per_second:,.0f}", f"{speed.microseconds:,.1f}",
            _number(speed.floor_microseconds, ",.1f"), _number(speed.times_floor, ".2f"),
            f"{speed.speedup:.2f}",
        )  # fmt: skip
    console.print(table)
    if report.floor_gflops is None:
        console.print("no floor: it is defined only for networks whose patches are shared by all positions")
    else:
        product = "sgemm" if report.precision == "float32" else "dgemm"
        rate = f"{report.floor_gflops:.0f} GFLOP/s on one thread"
        console.print(f"floor: the dense {product} of a step, {rate}")
    console.print(f"method: {report.method}")
    if report.computed:
        awake = ", ".join(f"{share:.1%} of {code}" for code, share in report.computed.items())
        console.print(f"units computed in a step, the others sleep: {awake}")
    parts = sorted(report.shares.items(), key=lambda item: -item[1])
    console.print(
        "time on one thread: " + ", ".join(f"{name} {share:.1%}" for name, share in parts if share >= 5e-4)
    )
    warning = preset_warning()
    if warning:
        console.print(f"[yellow]warning: {warning}[/]")


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
