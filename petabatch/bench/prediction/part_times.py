"""Measurement of the steps of parts of a slice, on one rank without the others."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.bench.prediction.alike import alike
from petabatch.bench.prediction.calibration import PartTimes
from petabatch.bench.prediction.clocks import IN_LANE, Clocks
from petabatch.bench.prediction.portions import portions
from petabatch.bench.prediction.sample import batch_of, sample_size, whole
from petabatch.bench.prediction.ways import first_part
from petabatch.engine.driver import At, drive, flush
from petabatch.engine.lone_part import LonePart
from petabatch.errors import ParamsError
from petabatch.network.build import build
from petabatch.network.evaluation import fixed
from petabatch.network.plan import schedule
from petabatch.network.possible_parts import AXES, Axis, with_parts
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from petabatch.spec.parts import Wiring

_WARM, _MOST = 2, 1e11
"""Steps before those that are measured, if these are fewer than a display; dense multiply-adds of the whole
in those that are measured."""
_MOST_PARTS = 32
"""Ranks that share a slice when that is measured, at most, unless none alike are fewer."""
_MOST_GROUPS, _LEAST_GAIN = 3, 0.05
"""Groups of numbers of parts that are measured along each axis; what a part must save for that of the
arithmetic of the whole."""


def part_times(network: Network, threads: int) -> dict[Axis, list[PartTimes]]:
    """Return what the steps of parts of a slice take of those of the whole, by axis.

    For the fewest and the most parts of each group of numbers that are alike.
    """
    wirings = build(whole(network)).wirings
    ways = {axis: _ways(network, axis, wirings) for axis in AXES}
    if not any(ways.values()):
        return {}
    alone = _steps(whole(network), threads).sum()
    return {
        axis: [
            PartTimes(numbers, {n: _steps_of_parts(network, axis, n, threads) / alone for n in some})
            for numbers, some in groups
        ]
        for axis, groups in ways.items()
    }


def _ways(network: Network, axis: Axis, wirings: Mapping[str, Wiring]) -> list[tuple[list[int], list[int]]]:
    """Return groups of numbers of parts that are alike, each with those that are measured."""
    found = list[tuple[list[int], list[int]]]()
    for numbers in alike(network, axis, wirings):
        few = [parts for parts in numbers if parts <= _MOST_PARTS] or numbers[:1]
        if len(found) < _MOST_GROUPS and _gain(with_parts(network, axis, few[-1])) > _LEAST_GAIN:
            found.append((numbers, sorted({few[0], few[-1]})))
    return found


def _gain(parted: Network) -> float:
    """Return how much of the arithmetic a part saves; nothing where there cannot be parts."""
    try:
        return 1 - portions(first_part(parted).features.plan).arithmetic
    except ParamsError:
        return 0.0


def _steps_of_parts(network: Network, axis: Axis, parts: int, threads: int) -> float:
    """Return the seconds of the steps of a part; of each slice those of the slower of two.

    Ranks wait for each other in each step of a slice, in which another one has more active units than in the
    next slice.
    """
    some = (_steps(with_parts(network, axis, parts), threads, part) for part in (0, parts - 1))
    return float(np.maximum(*some).sum())


def _steps(network: Network, threads: int, part: int = 0) -> np.ndarray:
    """Return the seconds of the second display of each of some slices of a network, or of a rank's part.

    Of large networks those of the first steps. Without images, learning and recordings. Ratios of these are
    the same for all slices.
    """
    slices, cut = sample_size(network, _MOST)
    warm = network.run.display if cut == network.run.display else _WARM  # it begins with nothing active
    last = warm + cut
    of_run = {"displays": None, "steps": last, "batch": batch_of(network, slices)}
    changed = {"run": network.run.model_copy(update=of_run), "evaluate": None, "connections": fixed(network)}
    plan = schedule(build(network.model_copy(update=changed)))
    engine = LonePart(plan, Serial(), threads, part=part).planned(stops=(warm, last)).engine()
    engine.start()
    looks = list[Clocks]()

    def look(step: int) -> None:
        looks.append(Clocks.at(engine))

    for _ in drive(engine, flush(engine), At((warm, last).__contains__, look)):
        pass
    first, second = looks
    spent: np.ndarray = second.spent - first.spent
    others = sum(second.parts[name] - first.parts[name] for name in IN_LANE)
    return np.asarray(np.maximum(1e-9, spent - others / len(spent)))
