"""Points of a run on its information page: those that failed, and last values of probes."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from petabatch import results
from petabatch.clock import HERTZ
from petabatch.report.lines import field, table

_MOST_POINTS = 40
"""Rows of the table of points."""
_MOST_FAILED = 10
"""Points that failed that are named."""


def _values(run: results.Results, slice: int) -> str:
    """Return what tells a point from others, or a slice of a pool."""
    values = [f"{name} {column[slice]:.6g}" for name, column in run.differing.items()]
    return ", ".join(values) or f"slice {run.coordinates['slice'][slice]}"


def failed_points(run: results.Results) -> Iterator[str]:
    """Yield the first points that failed, with the step and the reason."""
    reasons = list(run.attributes.get("points", {}).get("why", {}).items())[:_MOST_FAILED]
    for number, why in reasons:
        points = run.coordinates["point" if "point" in run.coordinates else "slice"]
        slice = int(np.flatnonzero(points == int(number))[0])
        yield from field("failed", f"{_values(run, slice)}: step {run.coordinates['failed'][slice]}: {why}")
    if run.failed > len(reasons):
        text = "; the coordinate `failed` has the steps of all"
        yield from field("failed", f"{run.failed - len(reasons):,} more{text}")


def last_values(run: results.Results) -> Iterator[str]:
    """Yield the last values of all probes, means over the slices that did not fail."""
    found: dict[tuple[str, int], list[str]] = {}
    for name in run:
        folder, _, rest = name.partition("/")
        series = run[name]
        if folder == "probes" and 0 not in series.shape and not series.missing:
            probe, _, quantity = rest.rpartition("/")
            last = series[-1]
            value = float((last if np.isnan(last).all() else last[~np.isnan(last)]).mean())
            found.setdefault((probe, int(series.steps[-1])), []).append(f"{quantity} {value:.6g}")
    for (probe, step), values in found.items():
        yield from field(f"  {probe}", f"{', '.join(values)} at step {step}")


def points_table(run: results.Results) -> Iterator[str]:
    """Yield the table of what slices differ in, with their last energy, active fraction, rate and CV."""
    columns = run.differing
    if not columns:
        return
    rows: dict[tuple[float, ...], list[int]] = {}
    for number, values in enumerate(zip(*columns.values(), strict=True)):
        rows.setdefault(values, []).append(number)
    measured = {}
    rate = "rate (Hz)" if run.unit in HERTZ else "rate"
    for quantity, title in (("total", ""), ("fraction", "active"), ("rate", rate), ("cv", "CV")):
        factor = HERTZ.get(run.unit, 1.0) if quantity == "rate" else 1.0
        for name in run:
            series = run[name]
            if (
                name.startswith("probes/")
                and name.endswith(f"/{quantity}")
                and len(series)
                and not series.missing
            ):
                measured[title or name.split("/")[1]] = factor * series[-1]
                break
    lines = [(*columns, "slices", *measured)]
    for values, numbers in list(rows.items())[:_MOST_POINTS]:
        found = (f"{one[numbers].mean():.6g}" for one in measured.values())
        lines.append((*(f"{value:.6g}" for value in values), f"{len(numbers)}", *found))
    shown = f" (first {_MOST_POINTS} shown)" if len(rows) > _MOST_POINTS else ""
    yield f"points             {len(rows)}{shown}"
    yield from table(lines)
