"""The model: the time of a display on many ranks, from a calibration, the traffic and a link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from petabatch.bench.prediction.calibration import Calibration
from petabatch.bench.prediction.collectives import Collective, exchange, gather, tree
from petabatch.bench.prediction.link import Link
from petabatch.bench.prediction.traffic import Traffic
from petabatch.parallel.comm import shares

_FLAGS, _PROGRESS = 8, 64
"""Bytes of the request to stop, and of a number of the progress report; at each meeting of the slices."""


@dataclass(frozen=True)
class Prediction:
    """A display on a number of ranks, in seconds of the slowest."""

    split: Literal["batch", "features"]
    ranks: int
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
    if ranks == 1:
        return Prediction("batch", 1, slices, computing, updating, 0.0, 0.0, 0.0, 0.0)
    start, addition = calibration.reduction or 0.0, calibration.addition
    communication, sent, messages = 0.0, 0.0, 0.0
    for update in traffic.updates:
        both = tree(update.exponents, busy, 4), tree(update.integers, busy)
        seconds = sum(one.seconds(link, addition) + start for one in both)
        if traffic.overlapped:
            seconds = max(0.0, seconds - computing / max(1.0, traffic.update_events))
        communication += update.per_display * seconds
        sent += update.per_display * sum(one.sent for one in both)
        messages += update.per_display * sum(one.messages for one in both)
    met = _meeting(busy)
    communication += traffic.events * (sum(one.seconds(link) for one in met) + start)
    messages += traffic.events * sum(one.messages for one in met)
    each = sent / max(1.0, traffic.update_events)
    return Prediction("batch", ranks, slices, computing, updating, communication, sent, each, messages)


def by_features(traffic: Traffic, calibration: Calibration, link: Link, ranks: int) -> Prediction:
    """Predict a display on ranks that share the features of all slices; there must be `calibration.split`.

    Each rank shows the images of all slices and records as one rank does; it learns its features alone.
    """
    between = (
        calibration.image
        + traffic.learned * calibration.learning / ranks
        + traffic.recorded * calibration.recording
    )
    of_slice = traffic.display * _split_step(calibration, ranks) + between
    computing = traffic.batch * of_slice + traffic.events * calibration.event
    updating = traffic.update_events * (calibration.update + traffic.batch * calibration.update_slice) / ranks
    parts = [exchange(nbytes, ranks) for nbytes in traffic.partial for _ in range(traffic.batch)]
    of_parts = sum(one.seconds(link) + one.path * calibration.addition for one in parts)
    of_meeting = sum(one.seconds(link) for one in _meeting(ranks))
    communication = traffic.display * of_parts + traffic.events * of_meeting
    sent = traffic.display * sum(one.sent for one in parts)
    messages = traffic.display * sum(one.messages for one in parts)
    each = sent / max(1.0, traffic.update_events)
    return Prediction(
        "features", ranks, traffic.batch, computing, updating, communication, sent, each, messages
    )


def _meeting(ranks: int) -> tuple[Collective, ...]:
    """Return what ranks exchange at each meeting: whether to stop, and two numbers of progress."""
    return tree(_FLAGS, ranks), gather(2 * _PROGRESS, ranks)


def _slowest(traffic: Traffic, calibration: Calibration, ranks: int) -> float:
    """Return the seconds of the slices of the slowest rank, the mean over displays.

    Slices beyond those that were measured are like some of them, drawn always alike.
    """
    measured = np.asarray(calibration.slices)
    others = (
        calibration.image + traffic.learned * calibration.learning + traffic.recorded * calibration.recording
    )
    each = traffic.display * measured + others
    known = each.shape[1]
    drawn = np.random.default_rng(1).integers(known, size=max(0, traffic.batch - known))
    of_slices = each[:, np.r_[: min(known, traffic.batch), drawn]]
    first = np.array([lo for lo, _ in shares(traffic.batch, ranks)])
    whole, longest = np.add.reduceat(of_slices, first, axis=1), np.maximum.reduceat(of_slices, first, axis=1)
    return float(np.maximum(whole / calibration.threads, longest).max(axis=1).mean())


def _split_step(calibration: Calibration, ranks: int) -> float:
    """Return the seconds of a step of a slice on a rank with a part of the features.

    A line in 1 / ranks through what was measured: part of a step is the same on all ranks.
    """
    (few, slow), *more = sorted(calibration.split.items())
    if not more:
        return slow * few / ranks
    many, fast = more[-1]
    part = max(0.0, (slow - fast) / (1 / few - 1 / many))
    return max(0.0, slow - part / few) + part / ranks
