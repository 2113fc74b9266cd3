"""Numbers of ranks over which the features or rows of layers can be split."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal, get_args

from petabatch.spec.network import Network, Parallel

Axis = Literal["features", "rows"]
"""What slices are split by, if several ranks share each; with one rank each, the batch alone is split."""
AXES: tuple[Axis, ...] = get_args(Axis)
_MOST, _SHOWN = 4096, 5


def divisors(counts: Iterable[int]) -> list[int]:
    """Return the numbers from 2 on, up to 4096, that divide all counts."""
    whole = math.gcd(*counts)
    return [parts for parts in range(2, min(whole, _MOST) + 1) if whole % parts == 0]


def numbers(counts: Iterable[int]) -> list[int]:
    """Return the numbers from 2 on, up to 4096, that divide any of the counts."""
    return sorted({parts for count in set(counts) for parts in divisors([count])})


def sizes(network: Network, axis: Axis) -> dict[str, int]:
    """Return the number of features or rows of each layer that can be split, by name."""
    layers = network.layers.items()
    if axis == "features":
        return {name: layer.shape[2] for name, layer in layers if layer.splittable}
    return {name: layer.shape[0] for name, layer in layers if layer.local}


def undivided(network: Network, axis: Axis) -> dict[str, str]:
    """Return those of these layers that do not divide into parts of one size, and why."""
    ranks: int = getattr(network.parallel, axis)
    parts = f"{ranks} parts" if axis == "features" else f"{ranks} tiles of one height"
    found = {name: size for name, size in sizes(network, axis).items() if size % ranks}
    return {name: f"{size} {axis} cannot be split into {parts}" for name, size in found.items()}


def with_parts(network: Network, axis: Axis, parts: int) -> Network:
    """Return a network whose features or rows are split over `parts` ranks."""
    return network.model_copy(update={"parallel": Parallel.model_validate({axis: parts})})


def hint(axis: Axis, ranks: int, possible: Sequence[int]) -> str:
    """Return what to set `parallel.AXIS` to instead: the possible numbers next to it, or 1."""
    near = sorted(sorted(possible, key=lambda number: abs(number - ranks))[:_SHOWN])
    numbers = ", ".join(map(str, near[:-1])) + " or " * (len(near) > 1) + "".join(map(str, near[-1:]))
    other = f"{numbers}, or to " if near else ""
    return f"parallel.{axis} is {ranks}; set it to {other}1 not to split {axis} over ranks"


def by_reason(found: Mapping[str, str]) -> str:
    """Return the reasons of layers as text, each once, after the names of the layers that it holds for."""
    names: dict[str, list[str]] = {}
    for name, reason in found.items():
        names.setdefault(reason, []).append(name)
    return "; ".join(f"{', '.join(layers)}: {reason}" for reason, layers in names.items())
