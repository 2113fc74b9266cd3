"""The traffic of a network: what its ranks exchange in a display, by its own schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass

from petabatch.bench.prediction.portions import Portions, portions
from petabatch.network.messages import Messages, messages
from petabatch.network.plan import Plan


@dataclass(frozen=True)
class Update:
    """An update of weights that all slices share: the two messages of an exact sum."""

    per_display: float
    exponents: int
    """Bytes of which the ranks find the maximum: 4 for each feature."""
    integers: int
    """Bytes that are summed: 8 for each weight, and for each count."""


@dataclass(frozen=True)
class Traffic:
    """What a rank exchanges, and how often slices do anything that takes time but steps."""

    batch: int
    display: int
    updates: tuple[Update, ...]
    update_events: float
    """Steps in a display after which there is an update."""
    events: float
    """Steps in a display after which all slices meet."""
    learned: float
    """Changes of weights in a display that each slice takes part in."""
    recorded: float
    """Rows that each slice records in a display."""
    overlapped: bool
    """Sums travel while the next steps are made."""
    together: int
    """Maximum number of slices in one call; it sends what it sends of them in one message."""
    messages: Messages
    """What is sent in the steps of a slice; nothing by ranks with whole slices."""
    portions: Portions
    """What the rank has of whole slices."""


def traffic(plan: Plan) -> Traffic:
    """Return the traffic of a rank by its plan, that of whole slices or of a part of them.

    Of its second display, or the first if it is the only one.
    """
    network = plan.graph.network
    run = network.run
    first = run.display if plan.length >= run.clock.length(2) else 0
    last = min(first + run.display, plan.length)
    displays = run.clock.displays(last - first)
    learned, recorded = counts(plan, first, last)
    events, step = set[int](), first
    while step < last:
        step = plan.next_sync(step)
        events.add(step)
    due = [{step for step in events if group[0].due(step)} for group in plan.summed_updates]
    updates = [
        Update(len(steps) / displays, *_bytes(plan, [one.name for one in group]))
        for group, steps in zip(plan.summed_updates, due, strict=True)
    ]
    return Traffic(
        network.batch, run.display, tuple(updates), len(set().union(*due)) / displays, len(events) / displays,
        learned / displays, recorded / displays, run.reduce == "overlapped",
        network.batch if plan.method.by_layers else plan.method.together,
        messages(plan.graph), portions(plan),
    )  # fmt: skip


def counts(plan: Plan, first: int, last: int) -> tuple[int, int]:
    """Return how often a slice learns, and how many rows it records, in steps first+1 .. last."""
    steps = range(first + 1, last + 1)
    learned = sum(update.due(step) for update in plan.weight_updates for step in steps)
    recorded = sum(len(r.steps(first + 1, last)) for r in plan.recordings if r.stream.batched)
    return learned, recorded


def _bytes(plan: Plan, names: list[str]) -> tuple[int, int]:
    """Return the bytes of the exponents and of the integers in an update of these connections."""
    keys = [f"connections/{name}/{kind}" for name in names for kind in plan.graph.summed[name]]
    shapes = [plan.graph.variables[key].shape for key in keys]
    return 4 * sum(math.prod(shape[:3]) for shape in shapes), 8 * sum(map(math.prod, shapes))
