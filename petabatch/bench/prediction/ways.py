"""Ways to share slices among ranks: by features, by rows, and by both."""

from __future__ import annotations

from contextlib import suppress
from itertools import product

from petabatch.engine.lone_part import LonePart
from petabatch.errors import ParamsError
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.possible_parts import AXES, Axis, with_parts
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network, Parallel


def first_part(network: Network) -> LonePart:
    """Return the first of the ranks that share a slice as `[parallel]` says; raises ParamsError."""
    return LonePart(schedule(build(network)), Serial())


def ways(network: Network, ranks: int) -> tuple[list[LonePart], dict[Axis, str]]:
    """Return a rank of each way to share slices among groups of ranks, those along one axis first.

    Each group has at least one slice. And why all of the ranks cannot share each slice along an axis.
    """
    found, refused = list[LonePart](), dict[Axis, str]()
    possible: dict[Axis, list[int]] = {axis: [] for axis in AXES}
    for axis, parts in product(AXES, _divisors(ranks)):
        try:
            found.append(first_part(with_parts(network, axis, parts)))
        except ParamsError as error:
            if parts == ranks:
                refused[axis] = f"{error.problems[0].message}: {error.problems[0].found}"
            continue
        possible[axis].append(parts)
    fewest = -(-ranks // network.batch)
    for features, rows in product(possible["features"], possible["rows"]):
        if ranks % (features * rows) == 0 and features * rows >= fewest:
            parallel = Parallel(features=features, rows=rows)
            with suppress(ParamsError):
                found.append(first_part(network.model_copy(update={"parallel": parallel})))
    return [part for part in found if part.network.parallel.parts >= fewest], refused


def _divisors(ranks: int) -> list[int]:
    return [parts for parts in range(2, ranks + 1) if ranks % parts == 0]
