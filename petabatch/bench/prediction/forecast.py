"""A forecast: predictions for several numbers of ranks, and which way of splitting to choose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from petabatch.bench.prediction.calibration import Calibration
from petabatch.bench.prediction.collectives import ring, tree
from petabatch.bench.prediction.fill import H100, slices_to_fill
from petabatch.bench.prediction.link import Link
from petabatch.bench.prediction.model import Prediction, by_batch, by_parts
from petabatch.bench.prediction.traffic import Traffic, traffic
from petabatch.bench.prediction.units import duration, size
from petabatch.bench.prediction.ways import ways
from petabatch.network.build import build
from petabatch.network.messages import Messages
from petabatch.network.method import choose
from petabatch.network.plan import Plan, schedule
from petabatch.network.possible_parts import AXES, Axis
from petabatch.report.memory import needed
from petabatch.sizes import counted
from petabatch.spec.network import Network, Parallel

BOTH = " and ".join(AXES)
"""What is split where both are."""


@dataclass(frozen=True)
class Way:
    """One way of splitting a network over ranks."""

    prediction: Prediction
    efficiency: float
    memory: int
    """Bytes of arrays on the rank with most slices."""
    messages: Messages = field(default_factory=Messages)
    """What a rank sends in the steps of a slice."""


@dataclass(frozen=True)
class Row:
    """What is predicted for a number of ranks."""

    ranks: int
    batch: Way
    shared: list[Way]
    """Ways in which several ranks share each slice: by features, by rows, and by both."""
    refused: dict[Axis, str]
    """Why all of these ranks cannot share each slice."""
    ring: float
    tree: float
    """Seconds of the all-reduce of an update's integers, by algorithm."""
    choice: str
    """Which way is fastest, and why."""

    def best(self, split: str) -> Way | None:
        """Return the fastest way of splitting slices by `features`, by `rows`, or by both of `BOTH`."""
        ways = [way for way in self.shared if way.prediction.split == split]
        return min(ways, key=lambda way: way.prediction.seconds, default=None)


@dataclass(frozen=True)
class Forecast:
    """A prediction, never a measurement."""

    title: str
    link: Link
    traffic: Traffic
    calibration: Calibration
    rows: list[Row]
    remarks: list[str]


def forecast(
    network: Network, title: str, calibration: Calibration, link: Link, ranks: Sequence[int]
) -> Forecast:
    """Predict displays of a network on each of these numbers of ranks."""
    plan = schedule(build(network.model_copy(update={"parallel": Parallel()})))
    found = traffic(plan)
    rows = [_row(plan, found, calibration, link, number) for number in ranks]
    remarks = [*_remarks(plan, found, calibration, ranks), *_estimated(rows)]
    return Forecast(title, link, found, calibration, rows, remarks)


def _row(plan: Plan, found: Traffic, calibration: Calibration, link: Link, ranks: int) -> Row:
    network, threads = plan.graph.network, calibration.threads
    alone = by_batch(found, calibration, link, 1)
    batch = by_batch(found, calibration, link, ranks)
    of_batch = Way(batch, batch.efficiency(alone), needed(plan, batch.slices, threads))
    parts, refused = ways(network, ranks)
    shared = list[Way]()
    for part in parts:
        own = part.features.plan
        sent = traffic(own)
        one = by_parts(sent, calibration, link, part.network.parallel, ranks)
        memory = needed(own, one.slices, threads)
        shared.append(Way(one, one.efficiency(alone), memory, sent.messages))
    integers, busy = sum(update.integers for update in found.updates), min(ranks, found.batch)
    of_ring, of_tree = (way(integers, busy).seconds(link, calibration.addition) for way in (ring, tree))
    feasible = [*([batch] if ranks <= found.batch else []), *(way.prediction for way in shared)]
    choice = choose_split(feasible, refused, link, ranks)
    return Row(ranks, of_batch, shared, refused, of_ring, of_tree, choice)


def choose_split(ways: Sequence[Prediction], refused: Mapping[Axis, str], link: Link, ranks: int) -> str:
    """Return which way is fastest, and what makes the others slower: arithmetic, messages or bytes.

    The `ways` are those in which no rank is idle; there may be none.
    """
    if ranks == 1:
        return "nothing to split"
    why = [f"{axis} of all {ranks:,} ranks: {reason}" for axis, reason in refused.items()]
    if not ways:
        return "; ".join(["no way to split gives work to all of them", *why])
    best = min(ways, key=lambda way: way.seconds)
    said = [f"split {_name(best)}: {duration(best.seconds)} a display"]
    for split in dict.fromkeys(way.split for way in ways):
        others = [way for way in ways if way.split == split and way is not best]
        if split != best.split and others:
            said.append(_slower(min(others, key=lambda way: way.seconds), best, link))
    return "; ".join([*said, *why])


def _name(way: Prediction) -> str:
    if way.split == "batch":
        return "the batch"
    each = f", {way.features:,} by {way.rows:,}" if way.split == BOTH else ""
    whole = f"the {way.split} over {way.parts:,} ranks{each}"
    return (
        whole if way.parts == way.ranks else f"{whole}, and the batch over {way.ranks // way.parts:,} groups"
    )


def _slower(way: Prediction, best: Prediction, link: Link) -> str:
    """Return how much slower a way is than the best, and what it has most more of."""
    (of_way, of_best) = (_seconds(one, link) for one in (way, best))
    words = (
        f"arithmetic ({duration(of_way[0])} instead of {duration(of_best[0])})",
        f"messages ({way.messages:,.0f} one after the other instead of {best.messages:,.0f})",
        f"bytes ({size(way.sent)} instead of {size(best.sent)})",
    )
    _, why = max((a - b, one) for a, b, one in zip(of_way, of_best, words, strict=True))
    return f"{_name(way)} would take {way.seconds / best.seconds:.2f} times as long, for its {why}"


def _seconds(way: Prediction, link: Link) -> tuple[float, float, float]:
    """Return the seconds of arithmetic, of the latency of messages, and of their bytes."""
    messages = min(way.communication, way.messages * link.latency)
    return way.computing + way.updating, messages, way.communication - messages


def _remarks(plan: Plan, found: Traffic, calibration: Calibration, ranks: Sequence[int]) -> Iterator[str]:
    """Yield where the batch is too small, or does not divide."""
    for number in ranks:
        slices = -(-found.batch // number)
        if number > found.batch:
            idle = number - found.batch
            leave = f"{counted(found.batch, 'slice')} leave{'s' * (found.batch == 1)}"
            yield (
                f"{number:,} ranks: {leave} {idle:,} of them idle if the batch alone is split, which `run` "
                "refuses; raise run.batch"
            )
        elif found.batch % number:
            fewer = counted(slices - 1, "slice")
            yield f"{number:,} ranks: those with {fewer} wait for those with {slices:,}"
        if slices < calibration.threads:
            yield f"{number:,} ranks: predicted as if each slice had one of {calibration.threads} threads"
    if (note := _gpu(plan, found.batch, ranks)) is not None:
        yield note


def _estimated(rows: Sequence[Row]) -> Iterator[str]:
    """Yield the parts of slices whose steps were not measured."""
    ways = [way.prediction for row in rows for way in row.shared if not way.prediction.measured]
    for split in dict.fromkeys(way.split for way in ways):
        parts = ", ".join(f"{n:,}" for n in sorted({way.parts for way in ways if way.split == split}))
        yield f"{split} over {parts} ranks: steps were not measured, and are estimated by their arithmetic"


def _gpu(plan: Plan, batch: int, ranks: Sequence[int]) -> str | None:
    """Return from which of these numbers of ranks on a rank has too few slices for a GPU."""
    network = plan.graph.network
    on_gpu = network.run.model_copy(update={"device": "gpu", "kernel": "auto", "until": None})
    method = choose(build(network.model_copy(update={"run": on_gpu})), H100)
    fill = slices_to_fill(method, H100)
    few = [number for number in ranks if -(-batch // number) < fill]
    if not few:
        return None
    fewer = "the batch has fewer" if batch < fill else f"from {few[0]:,} ranks on, each has fewer"
    return (
        f"on GPUs: it takes {fill:,} slices to fill an H100 ({H100.multiprocessors} multiprocessors, "
        f"{method.kernel} kernel); {fewer}"
    )
