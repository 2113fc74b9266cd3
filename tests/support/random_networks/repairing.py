"""What is refused of a drawn network is taken out of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from petabatch.errors import ParamsError, Problem, TableError
from petabatch.sources import ImageArray
from petabatch.spec.network import Network
from petabatch.weights import Uniform
from support.random_networks.acting import without
from support.random_networks.pairs import VARIED
from support.random_networks.runs import walk
from support.random_networks.words import replaced, value_at

_ATTEMPTS = 8
NUMBER = 0.6
"""What takes the place of a parameter of equations."""
_INSTEAD = {
    "init": lambda connection: Uniform(low=0.1, high=0.2),
    "source": lambda layer: ImageArray(data=np.random.default_rng(0).normal(size=(1, *layer.shape))),
}
"""What takes the place of given values that do not fit."""


def repaired(network: Network, refused: Callable[[Network, Network, Problem], None]) -> Network:
    """Return a network that can start, without what is refused of a drawn one: by `check`, or when it starts.

    `refused` is told of each network that lacks more, and why. Raises ParamsError where nothing is left to
    take out.
    """
    for _ in range(_ATTEMPTS):
        try:
            next(walk(network, ()))
        except ParamsError as error:
            problems = error.problems
        else:
            return network
        other = network
        for problem in problems:
            less = _without(other, problem)
            if less is not None:
                refused(other, less, problem)
                other = less
        if other is network:
            raise ParamsError(problems)
        network = other
    raise ParamsError(problems)


def _without(network: Network, problem: Problem) -> Network | None:
    """Return a network without what a problem is of, None if that cannot be."""
    kind, *path = problem.key.split(".")
    if kind in VARIED:
        return _not_varied(network, kind, ".".join(path))
    if kind == "run":
        run = _usual(network.run, path)
        return None if run is None else network.model_copy(update={"run": run})
    if kind == "output":
        return _not_recorded(network, *path[:2])
    if kind not in ("layers", "connections", "probes") or path[0] not in getattr(network, kind):
        return None
    (name, *path), parts = path, getattr(network, kind)
    for way in VARIED:
        if path and (less := _not_varied(network, way, f"{kind}.{name}.{path[0]}")) is not None:
            return less
    if kind == "connections" and "cycle" in problem.message:
        part = replaced(parts[name], ("feedback",), True)
    else:
        part = _usual(parts[name], path)
    if part is not None and part != parts[name]:
        return network.model_copy(update={kind: {**parts, name: part}})
    if kind == "connections":
        return without(network, {name})
    if kind == "probes":
        left = {other: probe for other, probe in parts.items() if other != name}
        return network.model_copy(update={kind: left})
    return None


def _not_recorded(network: Network, kind: str, name: str) -> Network | None:
    """Return a network of which a part is not recorded, None if it is not anyway."""
    recorded = getattr(network.output, kind, {})
    if name not in recorded:
        return None
    left = {other: one for other, one in recorded.items() if other != name}
    return network.model_copy(update={"output": network.output.model_copy(update={kind: left})})


def _not_varied(network: Network, way: str, path: str) -> Network | None:
    """Return a network in which the number at a path does not vary, None if it does not anyway."""
    if way == "sweep":
        found = network.sweep is not None and any(one.startswith(path) for one in network.sweep.columns)
        return network.model_copy(update={"sweep": None}) if found else None
    varied = getattr(network, way)
    left = {one: values for one, values in varied.items() if not one.startswith(path)}
    return network.model_copy(update={way: left}) if len(left) < len(varied) else None


def _usual(part: Any, path: Iterable[str]) -> Any:
    """Return a part with the default at a path or, where there is none, above it; None if there is none."""
    keys = list(path)
    while keys:
        try:
            table = value_at(part, tuple(keys[:-1]))
            field = type(table).model_fields.get(keys[-1]) if not isinstance(table, dict | tuple) else None
            if isinstance(table, dict) and keys[-1] in table:
                return replaced(part, tuple(keys), NUMBER if keys[0] == "parameters" else None)
            if keys[-1] in _INSTEAD and getattr(table, keys[-1]).type in ("array", "file"):
                return replaced(part, tuple(keys), _INSTEAD[keys[-1]](part))
            if field is not None and not field.is_required():
                usual = field.get_default(call_default_factory=True)
                if getattr(table, keys[-1]) != usual:
                    return replaced(part, tuple(keys), usual)
        except (AttributeError, KeyError, TypeError, ValueError, TableError):
            pass
        keys.pop()
    return None
