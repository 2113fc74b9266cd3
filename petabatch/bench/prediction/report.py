"""Tables, remarks and JSON of a forecast."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from petabatch.bench.prediction.forecast import BOTH, Forecast, Way
from petabatch.bench.prediction.units import duration, size
from petabatch.errors import printable
from petabatch.network.possible_parts import AXES
from petabatch.sizes import counted


def show(forecast: Forecast, console: Console) -> None:
    """Print a forecast."""
    about, calibration = forecast.calibration.machine, forecast.calibration
    found = forecast.traffic
    console.print(
        f"[bold]{escape(printable(forecast.title))}[/]: prediction for "
        f"{counted(found.batch, 'slice')}, displays of {counted(found.display, 'step')}, "
        f"{found.update_events:g} update{'s' * (found.update_events != 1)} in each",
        soft_wrap=True,
    )
    console.print(f"link of each rank: {forecast.link.latency * 1e6:g} us, {size(forecast.link.bandwidth)}/s")
    console.print(
        f"calibration: {counted(len(calibration.slices[0]), 'slice')}, "
        f"{counted(len(calibration.slices), 'display')}, "
        f"{calibration.threads} thread{'s' * (calibration.threads > 1)} per rank, on {about['processor']}, "
        f"load {about['load'][0]}",
        soft_wrap=True,
    )
    console.print("\nsplit batch (sent: over the link of a rank, each way, from update to update)")
    columns = "ranks slices display efficiency communication sent memory"
    rows = [
        [f"{row.ranks:,}", f"{row.batch.prediction.slices:,}", *_split(row.batch)] for row in forecast.rows
    ]
    console.print(_table(columns, rows))
    sums = [row for row in forecast.rows if row.ranks > 1 and row.batch.prediction.sent]
    if sums:
        console.print("all-reduce of an update, split batch (ring, and the tree that MPICH selects)")
        rows = [[f"{row.ranks:,}", duration(row.ring), duration(row.tree)] for row in sums]
        console.print(_table("ranks ring tree", rows))
    for split in (*AXES, BOTH):
        ways = [way for row in forecast.rows for way in row.shared if way.prediction.split == split]
        if ways:
            console.print(f"split {split} over `parts` ranks, and the batch over groups of them")
            columns = "ranks parts display efficiency communication sent memory"
            rows = [[f"{way.prediction.ranks:,}", _parts(way), *_split(way)] for way in ways]
            console.print(_table(columns, rows))
    for row in forecast.rows:
        console.print(f"{row.ranks:,} rank{'s' * (row.ranks > 1)}: {escape(row.choice)}", soft_wrap=True)
    for remark in forecast.remarks:
        console.print(f"note: {escape(remark)}", soft_wrap=True)
    console.print("memory: arrays of the rank with the most slices; times are without writing files")


def as_json(forecast: Forecast) -> dict[str, Any]:
    """Return a forecast as a dictionary, ready for JSON."""
    rows = [
        {
            "ranks": row.ranks,
            "batch": _way(row.batch),
            "shared": [_way(way) for way in row.shared],
            "refused": row.refused,
            "all_reduce": {"ring": row.ring, "tree": row.tree},
            "choice": row.choice,
        }
        for row in forecast.rows
    ]
    return {
        "prediction": forecast.title,
        "link": asdict(forecast.link),
        "traffic": asdict(forecast.traffic),
        "rows": rows,
        "remarks": forecast.remarks,
        "calibration": asdict(forecast.calibration),
    }


def _way(way: Way) -> dict[str, Any]:
    one = way.prediction
    more = {
        "split": one.split,
        "parts": one.parts,
        "seconds": one.seconds,
        "share": one.share,
        "efficiency": way.efficiency,
        "memory": way.memory,
        "messages": asdict(way.messages),
    }
    return asdict(one) | more


def _parts(way: Way) -> str:
    """Return the numbers of ranks by which a slice is split, features first."""
    one = way.prediction
    return f"{one.features:,} x {one.rows:,}" if one.split == BOTH else f"{one.parts:,}"


def _split(way: Way) -> list[str]:
    one = way.prediction
    sent = size(one.sent_per_update) if one.sent else "-"
    return [duration(one.seconds), f"{way.efficiency:.1%}", f"{one.share:.1%}", sent, size(way.memory)]


def _table(columns: str, rows: list[list[str]]) -> Table:
    table = Table(*columns.split())
    for column in table.columns:
        column.justify = "right"
    for row in rows:
        table.add_row(*row)
    return table
