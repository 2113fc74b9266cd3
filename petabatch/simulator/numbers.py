"""Numbers of a network that are changed between steps: the keys that may vary over time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from petabatch.errors import ArgumentError, Problem
from petabatch.network.numbers import problem_of_values, trace_problem, value_of, with_value
from petabatch.spec.model import Model
from petabatch.spec.network import Network


def number(network: Network, path: str) -> float | np.ndarray | None:
    """Return the value of a key, `[batch]` where slices have their own; None if there is no such number."""
    if path in network.slices:
        return np.array(network.slices[path])
    if network.sweep is not None and path in network.sweep.columns:
        points = [network.sweep.point(n)[path] for n in range(network.sweep.points)]
        return np.repeat(points, network.run.batch)
    return value_of(network, path)


def keys(network: Network, path: str, table: Model) -> Iterator[str]:
    """Yield the keys of the numbers of a table at `path`, and of those in it, such as `learn.rate`."""
    for key in type(table).model_fields:
        inner = getattr(table, key)
        if isinstance(inner, Model):
            yield from (f"{key}.{one}" for one in keys(network, f"{path}.{key}", inner))
        elif isinstance(inner, Mapping):
            yield from (f"{key}.{one}" for one in inner if number(network, f"{path}.{key}.{one}") is not None)
        elif number(network, f"{path}.{key}") is not None:
            yield key


def changed(network: Network, path: str, value: Any) -> Network:
    """Return the network with another value of a key, or one for each slice `[batch]`.

    Raises ArgumentError if the key is no number that may vary over time, or cannot have this value.
    """
    try:
        given = np.asarray(value)
    except (TypeError, ValueError):
        given = np.asarray(None)
    if given.dtype.kind not in "fiu":
        raise ArgumentError(path, "the value has the wrong type", value, "a number, or one for each slice")
    values = given.astype(float)
    if values.ndim > 1:
        raise ArgumentError(path, "this is neither a number nor one for each slice", f"{list(values.shape)}")
    if path in network.over_time or (network.sweep is not None and path in network.sweep.columns):
        source = "[over_time]" if path in network.over_time else "[sweep]"
        raise ArgumentError(path, f"this key has its values from {source}", value)
    each = values.ndim == 1
    count = network.run.batch if each else None
    problem = problem_of_values(network, path, path, values.reshape(-1).tolist(), count, over_time=not each)
    problem = problem or trace_problem(network, path, path)
    if problem is None and path.startswith("run."):
        problem = Problem(path, "this cannot be changed in a run", expected="a number of the dynamics")
    if problem is not None:
        raise ArgumentError(path, problem.message, problem.found or value, problem.expected, problem.hint)
    others = {key: own for key, own in network.slices.items() if key != path}
    if each:
        return network.model_copy(update={"slices": {**others, path: tuple(values.tolist())}})
    return with_value(network.model_copy(update={"slices": others}), path, float(values))
