"""The model: the time of a display on many ranks, from a calibration, the traffic and a link."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from petabatch.bench.prediction.calibration import Calibration
from petabatch.bench.prediction.collectives import exchange, gather, tree
from petabatch.bench.prediction.link import Link
from petabatch.bench.prediction.traffic import Traffic
from petabatch.parallel.comm import shares
from petabatch.spec.network import Parallel

_FLAGS, _PROGRESS = 8, 64
"""Bytes of the request to stop, and of a number of the progress report; at each meeting of the slices."""


@dataclass(frozen=True)
class Prediction:
    """A display on a number of ranks, in seconds of the slowest."""

    ranks: int
    features: int
    """Ranks by which features are split; 1 if they are not."""
    rows: int
    """The same of rows; the batch is split over `ranks` / (`features` * `rows`)."""
    slices: int
    """Slices of the rank that has most."""
    computing: float
    """Steps and all else that lanes do."""
    updating: float
    """What the ranks compute in updates of weights that all slices share."""
    communication: float
    """Messages that no steps hide."""
    sent: float
    """Bytes over the link of a rank, each way."""
    sent_per_update: float
    """The same from update to update; without updates, in a display."""
    messages: float
    """Messages one after the other."""
    measured: bool = True
    """The steps of parts alike were measured; if not, they are estimated by their arithmetic."""

    @property
    def split(self) -> str:
        """Return what is split, `batch` if each slice is on one rank: the others are, besides."""
        return " and ".join(Parallel(features=self.features, rows=self.rows).names) or "batch"

    @property
    def parts(self) -> int:
        """Return the ranks that share each slice."""
        return self.features * self.rows

    @property
    def seconds(self) -> float:
        """Return the time of a display."""
        return self.computing + self.updating + self.communication

    @property
    def share(self) -> float:
        """Return the fraction of it that is communication."""
        return self.communication / self.seconds

    def efficiency(self, alone: Prediction) -> float:
        """Return the speed-up relative to one rank, divided by the number of ranks."""
        return alone.seconds / (self.ranks * self.seconds)


def by_batch(traffic: Traffic, calibration: Calibration, link: Link, ranks: int) -> Prediction:
    """Predict a display whose slices are distributed; of more ranks than slices, the rest is idle."""
    busy = min(ranks, traffic.batch)
    slices = -(-traffic.batch // busy)
    computing = _slowest(traffic, calibration, busy) + traffic.events * calibration.event
    updating = traffic.update_events * (calibration.update + slices * calibration.update_slice)
    cost = _sums(traffic, calibration, link, busy, computing).plus(
        _meetings(traffic, link, calibration, busy)
    )
    return _prediction(Parallel(), traffic, ranks, slices, computing, updating, cost)


def by_parts(
    traffic: Traffic, calibration: Calibration, link: Link, parallel: Parallel, ranks: int
) -> Prediction:
    """Predict a display on ranks that share slices, from the traffic of one of them.

    A rank computes its portion of all that is done for a slice. Of a part of the features of a tile, steps
    take the share of these features in that of a tile; of parts that were not measured, that of their
    arithmetic.
    """
    measured = calibration.part(parallel)
    steps = traffic.portions.arithmetic if measured is None else measured
    busy = min(ranks // parallel.parts, traffic.batch)
    slices = -(-traffic.batch // busy)
    computing = _slowest(traffic, calibration, busy, steps) + traffic.events * calibration.event
    updating = traffic.update_events * (calibration.update + slices * calibration.update_slice)
    updating *= traffic.portions.weights
    cost = _steps(traffic, calibration, link, parallel, slices)
    cost = cost.plus(_sums(traffic, calibration, link, busy * parallel.rows, computing))
    cost = cost.plus(_meetings(traffic, link, calibration, busy * parallel.parts))
    return _prediction(parallel, traffic, ranks, slices, computing, updating, cost, measured is not None)


@dataclass(frozen=True)
class _Cost:
    """Seconds, bytes and messages."""

    seconds: float = 0.0
    sent: float = 0.0
    messages: float = 0.0

    def plus(self, other: _Cost) -> _Cost:
        return _Cost(self.seconds + other.seconds, self.sent + other.sent, self.messages + other.messages)

    def times(self, number: float) -> _Cost:
        return _Cost(number * self.seconds, number * self.sent, number * self.messages)


def _steps(traffic: Traffic, calibration: Calibration, link: Link, parallel: Parallel, slices: int) -> _Cost:
    """Return what ranks that share slices exchange in the steps of a display, in messages of each call."""
    calls = -(-slices // traffic.together)
    each = -(-slices // calls)
    sent, found = traffic.messages, _Cost()
    for messages, ranks in (
        ((*sent.summed, *sent.gathered), parallel.features),
        (sent.borders, min(parallel.rows, 3)),  # of two tiles at most
        (sent.gathered_rows, parallel.rows),
    ):
        for message in messages:
            one = exchange(each * message.nbytes, ranks)
            # Threads wait for the messages of different calls at the same time.
            waiting = one.messages * link.latency / min(calibration.threads, calls)
            seconds = waiting + one.path * (1 / link.bandwidth + calibration.addition)
            times = calls * traffic.display / message.period
            found = found.plus(_Cost(seconds, one.sent, one.messages).times(times))
    return found


def _sums(traffic: Traffic, calibration: Calibration, link: Link, ranks: int, computing: float) -> _Cost:
    """Return what the exact sums of a display cost."""
    start, found = calibration.reduction or 0.0, _Cost()
    if ranks == 1:
        return found
    for update in traffic.updates:
        both = tree(update.exponents, ranks, 4), tree(update.integers, ranks)
        seconds = sum(one.seconds(link, calibration.addition) + start for one in both)
        if traffic.overlapped:
            seconds = max(0.0, seconds - computing / max(1.0, traffic.update_events))
        one = _Cost(seconds, sum(one.sent for one in both), sum(one.messages for one in both))
        found = found.plus(one.times(update.per_display))
    return found


def _meetings(traffic: Traffic, link: Link, calibration: Calibration, ranks: int) -> _Cost:
    """Return what ranks exchange in a display whenever they meet: whether to stop, and their progress.

    Two numbers of progress; what they send is next to nothing, and does not count.
    """
    if ranks == 1:
        return _Cost()
    found = tree(_FLAGS, ranks), gather(2 * _PROGRESS, ranks)
    seconds = sum(one.seconds(link) for one in found) + (calibration.reduction or 0.0)
    return _Cost(seconds, 0.0, sum(one.messages for one in found)).times(traffic.events)


def _prediction(
    parallel: Parallel,
    traffic: Traffic,
    ranks: int,
    slices: int,
    computing: float,
    updating: float,
    cost: _Cost,
    measured: bool = True,
) -> Prediction:
    each = cost.sent / max(1.0, traffic.update_events)
    parts = parallel.features, parallel.rows
    return Prediction(
        ranks, *parts, slices, computing, updating, cost.seconds, cost.sent, each, cost.messages,
        measured,
    )  # fmt: skip


def _slowest(traffic: Traffic, calibration: Calibration, ranks: int, steps: float = 1.0) -> float:
    """Return the seconds of the slices of the slowest rank, the mean over displays.

    Their steps take `steps` of the time of whole ones. Slices beyond those that were measured are like some
    of them, drawn always alike.
    """
    portions = traffic.portions
    others = (
        calibration.image * portions.images
        + traffic.learned * calibration.learning * portions.products
        + traffic.recorded * calibration.recording * portions.recordings
    )
    each = traffic.display * steps * np.asarray(calibration.slices) + others
    known = each.shape[1]
    drawn = np.random.default_rng(1).integers(known, size=max(0, traffic.batch - known))
    of_slices = each[:, np.r_[: min(known, traffic.batch), drawn]]
    first = np.array([lo for lo, _ in shares(traffic.batch, ranks)])
    whole, longest = np.add.reduceat(of_slices, first, axis=1), np.maximum.reduceat(of_slices, first, axis=1)
    return float(np.maximum(whole / calibration.threads, longest).max(axis=1).mean())
