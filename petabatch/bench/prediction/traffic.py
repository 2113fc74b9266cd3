"""The traffic of a network: what its ranks exchange in a display, by its own schedules."""

from __future__ import annotations

import math
from dataclasses import dataclass

from petabatch.engine.weight_update import SUMMED
from petabatch.errors import ParamsError
from petabatch.network.build import build
from petabatch.network.plan import Plan
from petabatch.network.possible_parts import AXES, Axis, divisors, sizes, undivided, with_parts
from petabatch.network.shares import gathered, summed
from petabatch.network.tiles import connections_as_a_whole, exchanged_rows, gathered_rows
from petabatch.spec.network import Network


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
    """What ranks exchange, and how often slices do anything that takes time but steps."""

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
    partial: tuple[int, ...]
    """Bytes of each partial sum that a slice sends in each step if features are split."""
    gathered: tuple[int, ...]
    """Bytes of each layer whose features are then gathered in each step; a rank sends its part."""
    borders: tuple[int, ...]
    """Bytes of each message to a neighbour that a slice sends in each step if rows are split."""
    gathered_rows: tuple[int, ...]
    """Bytes of each layer whose rows are then gathered in each step; a rank sends its tile."""
    together: int
    """Maximum number of slices in one call; it sends their partial sums in one message."""


def traffic(plan: Plan) -> Traffic:
    """Return the traffic of a plan, by its second display, or the first if it is the only one."""
    network = plan.graph.network
    run = network.run
    features, rows = (with_parts(network, axis, _fewest(network, axis)) for axis in AXES)
    wirings = plan.graph.wirings
    first = run.display if plan.length >= 2 * run.display else 0
    last = min(first + run.display, plan.length)
    displays = (last - first) / run.display
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
        tuple(summed(features)), tuple(gathered(features)),
        tuple(exchanged_rows(rows, wirings)), tuple(gathered_rows(rows, wirings)),
        network.batch if plan.method.by_layers else plan.method.together,
    )  # fmt: skip


def counts(plan: Plan, first: int, last: int) -> tuple[int, int]:
    """Return how often a slice learns, and how many rows it records, in steps first+1 .. last."""
    steps = range(first + 1, last + 1)
    learned = sum(update.due(step) for update in plan.weight_updates for step in steps)
    recorded = sum(len(r.steps(first + 1, last)) for r in plan.recordings if r.stream.batched)
    return learned, recorded


def obstacle(network: Network, axis: Axis, parts: int) -> str:
    """Return why a split into `parts` is refused or not predicted; an empty string if it is neither."""
    parted = with_parts(network, axis, parts)
    for name, reason in undivided(parted, axis).items():  # which would be whole on each rank
        return f"layers.{name}.shape: {reason}"
    try:
        wirings = build(parted).wirings
    except ParamsError as error:
        return f"{error.problems[0].key}: {error.problems[0].message}"
    if axis == "rows":  # of lower tiles, patches reach further: what is sent is that of the highest
        known = connections_as_a_whole(with_parts(network, axis, _fewest(network, axis)), wirings)
        for name, reason in connections_as_a_whole(parted, wirings).items():
            if name not in known:
                return f"connections.{name}: {reason}"
    return ""


def _fewest(network: Network, axis: Axis) -> int:
    """Return the smallest number of ranks that splits every layer that can be split."""
    return min(divisors(sizes(network, axis).values()), default=2)


def _bytes(plan: Plan, names: list[str]) -> tuple[int, int]:
    """Return the bytes of the exponents and of the integers in an update of these connections."""
    keys = [f"connections/{name}/{kind}" for name in names for kind in SUMMED]
    shapes = [plan.graph.variables[key].shape for key in keys if key in plan.graph.variables]
    return 4 * sum(math.prod(shape[:3]) for shape in shapes), 8 * sum(map(math.prod, shapes))
