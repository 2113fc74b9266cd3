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
    cost = _sums(traffic, calibration, link, busy, 1, computing).plus(
        _meetings(traffic, link, calibration, busy)
    )
    return _prediction(Parallel(), traffic, ranks, slices, computing, updating, cost)


def by_parts(
    traffic: Traffic, calibration: Calibration, link: Link, parallel: Parallel, ranks: int
) -> Prediction:
    """Predict a display on ranks that share slices; raises KeyError without the calibration of a part.

    A rank computes its part of all that is done for a slice, but for images and recordings where features are
    split. It learns its features alone, from its rows. Of a part of the features of a tile, steps take that
    share of the share of a tile.
    """
    features, rows = parallel.features, parallel.rows
    busy = min(ranks // parallel.parts, traffic.batch)
    slices = -(-traffic.batch // busy)
    computing = _slowest(traffic, calibration, busy, features, rows) + traffic.events * calibration.event
    updating = traffic.update_events * (calibration.update + slices * calibration.update_slice) / features
    groups = -(-slices // traffic.together)
    each = -(-slices // groups)
    of_features = [*traffic.partial, *(nbytes // features for nbytes in traffic.gathered)]
    sums = [exchange(each * nbytes // rows, features) for nbytes in of_features]
    borders = [exchange(each * nbytes, min(rows, 3)) for nbytes in traffic.borders]  # of two tiles at most
    tiles = [exchange(each * nbytes // rows, rows) for nbytes in traffic.gathered_rows]
    messages = [one for one in (*sums, *borders, *tiles) for _ in range(groups)]
    steps = _Cost(
        # Threads wait for the messages of different slices at the same time.
        sum(one.messages * link.latency for one in messages) / min(calibration.threads, groups)
        + sum(one.path / link.bandwidth + one.path * calibration.addition for one in messages),
        sum(one.sent for one in messages),
        sum(one.messages for one in messages),
    ).times(traffic.display)
    cost = steps.plus(_sums(traffic, calibration, link, busy * rows, features, computing))
    cost = cost.plus(_meetings(traffic, link, calibration, busy * parallel.parts))
    return _prediction(parallel, traffic, ranks, slices, computing, updating, cost)


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


def _sums(
    traffic: Traffic, calibration: Calibration, link: Link, ranks: int, parts: int, computing: float
) -> _Cost:
    """Return what the exact sums of a display cost, of a part of the weights."""
    start, found = calibration.reduction or 0.0, _Cost()
    if ranks == 1:
        return found
    for update in traffic.updates:
        both = tree(update.exponents // parts, ranks, 4), tree(update.integers // parts, ranks)
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
) -> Prediction:
    each = cost.sent / max(1.0, traffic.update_events)
    parts = parallel.features, parallel.rows
    return Prediction(
        ranks, *parts, slices, computing, updating, cost.seconds, cost.sent, each, cost.messages
    )


def _slowest(
    traffic: Traffic, calibration: Calibration, ranks: int, features: int = 1, rows: int = 1
) -> float:
    """Return the seconds of the slices of the slowest rank, the mean over displays.

    Slices beyond those that were measured are like some of them, drawn always alike.
    """
    part = calibration.part("features", features) * calibration.part("rows", rows)
    measured = np.asarray(calibration.slices) * part
    others = (
        calibration.image / rows
        + traffic.learned * calibration.learning / (features * rows)
        + traffic.recorded * calibration.recording / rows
    )
    each = traffic.display * measured + others
    known = each.shape[1]
    drawn = np.random.default_rng(1).integers(known, size=max(0, traffic.batch - known))
    of_slices = each[:, np.r_[: min(known, traffic.batch), drawn]]
    first = np.array([lo for lo, _ in shares(traffic.batch, ranks)])
    whole, longest = np.add.reduceat(of_slices, first, axis=1), np.maximum.reduceat(of_slices, first, axis=1)
    return float(np.maximum(whole / calibration.threads, longest).max(axis=1).mean())
