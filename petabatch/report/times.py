"""Times of a run, and of each of its ranks, by activity."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from petabatch.report.lines import field, table
from petabatch.results import Results

_ACTIVITIES = {
    "steps": "steps",
    "planning": "planning points",
    "learning": "learning",
    "input": "images",
    "waiting for images": "waiting for images",
    "waiting for slices": "waiting for slices",
    "waiting for ranks": "waiting for other ranks",
    "communication": "communication",
    "probes and output": "probes and output",
    "files": "writing files",
    "kernels": "loading or compiling kernels",
}
"""How the activities of `times` are called, the usual first."""
_MOST = 16
"""Ranks in the table."""
_COLUMNS: Mapping[str, tuple[str, ...]] = {
    "computing": ("steps", "learning", "probes and output", "evaluation"),
    "images": ("input", "waiting for images"),
    "ranks": ("waiting for ranks",),
    "communication": ("communication",),
    "files": ("files",),
    "kernels": ("kernels",),
}
"""Activities of `rank_times` by the heading of their column."""


def spent(about: Mapping[str, Any]) -> dict[str, float]:
    """Return the seconds of each activity of a run with these attributes, the usual first, and of others."""
    if "seconds" not in about:  # joined from chunks
        return {}
    times: Mapping[str, float] = about["times"]
    found = {_ACTIVITIES.get(name, name): times[name] for name in (*_ACTIVITIES, *times) if name in times}
    return {**found, "other": max(0.0, float(about["seconds"]) - sum(found.values()))}


def rank_times(run: Results) -> Iterator[str]:
    """Yield a table with a row for each rank; of many ranks, those that the others waited for."""
    times: Mapping[str, Sequence[float]] = run.attributes.get("rank_times", {})
    if not times:
        return
    hosts = run.attributes["hosts"]
    waited = times.get("waiting for ranks", times["all"])
    shown = sorted(sorted(range(len(hosts)), key=lambda rank: waited[rank])[:_MOST])
    which = f", of the {_MOST} of {len(hosts)} that waited least for others" if len(hosts) > _MOST else ""
    yield from field("time of each rank", f"since the start or last resume{which}; images, ranks: waited for")
    rows = [("rank", "host", *_COLUMNS, "other")]
    for rank in shown:
        whole = max(times["all"][rank], 1e-9)
        shares = [
            sum(times[name][rank] for name in names if name in times) / whole for names in _COLUMNS.values()
        ]
        texts = (f"{100 * share:.1f} %" for share in (*shares, max(0.0, 1 - sum(shares))))
        rows.append((str(rank), hosts[rank], *texts))
    yield from table(rows)
