"""A forecast: predictions for several numbers of ranks, and which way of splitting to choose."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from petabatch.bench.prediction.calibration import Calibration
from petabatch.bench.prediction.collectives import ring, tree
from petabatch.bench.prediction.fill import H100, slices_to_fill
from petabatch.bench.prediction.link import Link
from petabatch.bench.prediction.model import Prediction, by_batch, by_features
from petabatch.bench.prediction.part import FirstPart
from petabatch.bench.prediction.traffic import Traffic, obstacle, traffic, with_features
from petabatch.bench.prediction.units import size
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Serial
from petabatch.report.memory import needed
from petabatch.spec.network import Network, Parallel


@dataclass(frozen=True)
class Way:
    """One way of splitting a network over ranks."""

    prediction: Prediction
    efficiency: float
    memory: int
    """Bytes of arrays on the rank with most slices."""


@dataclass(frozen=True)
class Row:
    """What is predicted for a number of ranks."""

    ranks: int
    batch: Way
    features: Way | None
    obstacle: str
    """Why features cannot be split over them."""
    ring: float
    tree: float
    """Seconds of the all-reduce of an update's integers, by algorithm."""
    choice: str
    """Which way is faster, and which sends less."""


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
    return Forecast(title, link, found, calibration, rows, list(_remarks(plan, found, calibration, ranks)))


def _row(plan: Plan, found: Traffic, calibration: Calibration, link: Link, ranks: int) -> Row:
    network, threads = plan.graph.network, calibration.threads
    alone = by_batch(found, calibration, link, 1)
    batch, features = by_batch(found, calibration, link, ranks), None
    of_batch = Way(batch, batch.efficiency(alone), needed(plan, batch.slices, threads))
    reason = obstacle(network, ranks) if ranks > 1 else ""
    if ranks > 1 and not reason:
        part = FirstPart(schedule(build(with_features(network, ranks))), Serial()).features.plan
        by = by_features(found, calibration, link, ranks)
        features = Way(by, by.efficiency(alone), needed(part, found.batch, threads))
    integers, busy = sum(update.integers for update in found.updates), min(ranks, found.batch)
    of_ring, of_tree = (way(integers, busy).seconds(link, calibration.addition) for way in (ring, tree))
    choice = choose_split(batch, features.prediction if features else None, reason)
    return Row(ranks, of_batch, features, reason, of_ring, of_tree, choice)


def choose_split(batch: Prediction, features: Prediction | None, reason: str) -> str:
    """Return which way is faster, and why."""
    if batch.ranks == 1:
        return "nothing to split"
    sends = "nothing" if batch.sent == 0 else size(batch.sent_per_update)
    if features is None:
        return f"split the batch, which sends {sends} from update to update; {reason}"
    other = size(features.sent_per_update)
    if batch.seconds <= features.seconds:
        if batch.sent <= features.sent:
            return f"split the batch, which sends {sends} from update to update; features would send {other}"
        return (
            f"split the batch, though features would send less ({other} instead of {sends} from update to "
            "update): each step waits for messages"
        )
    if features.sent <= batch.sent:
        return f"split the features, which sends {other} from update to update; the batch would send {sends}"
    return (
        f"split the features, though the batch would send less ({sends} instead of {other} from update to "
        f"update): the rank with most slices has {batch.slices}"
    )


def _remarks(plan: Plan, found: Traffic, calibration: Calibration, ranks: Sequence[int]) -> Iterator[str]:
    """Yield where the batch is too small, or does not divide."""
    for number in ranks:
        slices = -(-found.batch // number)
        if number > found.batch:
            idle = number - found.batch
            yield (
                f"{number:,} ranks: {found.batch:,} slices leave {idle:,} of them idle, which `run` "
                "refuses; raise run.batch"
            )
        elif found.batch % number:
            yield f"{number:,} ranks: those with {slices - 1:,} slices wait for those with {slices:,}"
        if slices < calibration.threads:
            yield f"{number:,} ranks: predicted as if each slice had one of {calibration.threads} threads"
    if (note := _gpu(plan, found.batch, ranks)) is not None:
        yield note


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
