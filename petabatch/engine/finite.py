"""The watch over numbers: whether the variables of slices and connections are still finite."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from petabatch.engine.history import History
from petabatch.errors import NonFiniteError
from petabatch.network.graph import Graph
from petabatch.network.plan import Plan
from petabatch.network.shares import side
from petabatch.spec.network import Network
from petabatch.spec.parts import Layer
from petabatch.variable import Array, Variable, host, module_of

_AXES = 4
"""Axes of the activities of slices in one step, `[slices, ny, nx, nf]`."""


class Watch:
    """The variables of some slices that steps change; others of connections are watched where they change."""

    def __init__(self, plan: Plan, arrays: Mapping[str, Array], slices: Sequence[int]) -> None:
        """Watch `arrays` by key, `[slices, ...]`; `slices` are their numbers."""
        self._graph, self._slices = plan.graph, slices
        self._variables = {
            key: variable
            for key, variable in plan.variables.items()
            if watched(variable)
            and variable.per == "slice"
            and (not key.startswith("connections/") or key in plan.graph.learned)
        }
        self._histories = {key: History(arrays[key]) for key in self._variables if key.endswith("/A")}
        self._others = {key: arrays[key] for key in self._variables if not key.endswith("/A")}
        method = plan.method
        lazy = method.program.lazy if method.stepper == "program" else ()
        decays = {f"layers/{code.layer}/V": arrays[code.decay] for code in lazy}
        self._vectors = [(array.reshape(-1), decays.get(key)) for key, array in self._others.items()]
        """With the decay of a lazily evaluated code, which has no V where that is not 0 (`LazyUpdate`)."""

    def finite(self, step: int) -> bool:
        """Return whether finite sums of squares prove that all is finite after `step`."""
        there = [vector for vector, decay in self._vectors if decay is None or not decay.all()]
        return _proven([*(one.at(step) for one in self._histories.values()), *there])

    def check(self, step: int, before: int | None = None) -> None:
        """Raise NonFiniteError unless all is finite after `step`, of activities that of the step.

        `before` is an earlier step known to be finite, which the error names.
        """
        if not self.finite(step):
            arrays = {key: one.at(step) for key, one in self._histories.items()} | self._others
            assert_finite(arrays, self._variables, self._graph, self._slices, step, before)


def changed_by_updates(
    name: str, arrays: Mapping[str, Array], variables: Mapping[str, Variable]
) -> dict[str, Array]:
    """Return the arrays of a connection that an update of its weights changes, of those watched, by key."""
    mine = (key for key in arrays if key.rpartition("/")[0] == f"connections/{name}")
    return {key: arrays[key] for key in mine if watched(variables[key])}


def watched(variable: Variable) -> bool:
    """Return whether a variable has numbers that might not be finite, and are state."""
    return variable.dtype.startswith("float") and variable.checkpoint


def assert_finite(
    arrays: Mapping[str, Array],
    variables: Mapping[str, Variable],
    graph: Graph,
    slices: Sequence[int],
    step: int,
    before: int | None = None,
) -> None:
    """Raise NonFiniteError if an array holds a NaN, or an infinity that its variable does not declare.

    `arrays` by key are `[slices, ...]`, or `[1, ...]` of the network. Units that have spiked in `step` are
    judged after the reset with which the next one begins. The error names the place in the whole layer, also
    where this rank has a part of its rows or features, and a step `before` in which all was finite.
    """
    if not _proven(list(arrays.values())):
        values = _after_resets(arrays, graph.network, step)
        for key in sorted(values, key=_place(graph.network)):
            _assert_finite(key, values[key], variables[key], graph, slices, step, before)


def _place(network: Network) -> Callable[[str], tuple[int, bool]]:
    """Return the order of keys in which they are named: by layer, its activity after its variables."""
    numbers = {f"layers/{name}": number for number, name in enumerate(network.layers)}
    return lambda key: (numbers.get(key.rpartition("/")[0], len(numbers)), key.endswith("/A"))


def _after_resets(arrays: Mapping[str, Array], network: Network, step: int) -> dict[str, np.ndarray]:
    """Return arrays on the host, those of units that have spiked as they are after their reset."""
    found = {key: host(array) for key, array in arrays.items()}
    for name, layer in network.layers.items():
        folder = f"layers/{name}/"
        activity = found.get(f"{folder}A")
        if activity is None or not layer.spiking:
            continue
        if activity.ndim > _AXES:
            activity = History(activity).at(step)
        state = {key.removeprefix(folder): array for key, array in found.items() if key.startswith(folder)}
        after = layer.after_reset(state, activity, step, network.run.dt)
        found |= {folder + variable: values for variable, values in after.items()}
    return found


def _proven(arrays: Sequence[Array]) -> bool:
    """Return whether finite sums of squares prove that all is finite, faster than isfinite().all() does."""
    xp = module_of(arrays[0]) if arrays else np
    if xp is np:
        return math.isfinite(sum([float(np.vdot(array, array)) for array in arrays]))
    squares = [xp.vdot(array.ravel(), array.ravel()).astype(float) for array in arrays]
    return math.isfinite(host(xp.stack(squares).sum()))  # waits for the device once


def _assert_finite(
    key: str,
    values: np.ndarray,
    variable: Variable,
    graph: Graph,
    slices: Sequence[int],
    step: int,
    before: int | None,
) -> None:
    bad = np.isnan(values) if variable.infinite else ~np.isfinite(values)
    if not bad.any():
        return
    first, *place = np.argwhere(bad)[0].tolist()
    # of activities of a single step, the axis of steps is missing
    names = variable.dims[-len(place) :] if place else ()
    first_of = _first(key, graph)
    at = ", ".join(f"{name} {first_of.get(name, 0) + n}" for name, n in zip(names, place, strict=True))
    whose = f" of slice {slices[first]}" if variable.per == "slice" else ""
    what, hint = _described(key, graph.network)
    said = "is no longer finite at step" if step else "is not finite at step"
    was = f"; it was at step {before}" if before is not None and before < step - 1 else ""
    error = NonFiniteError(
        f"{what}{whose} {said} {step}{was}\n"
        f"    found:    {values[(first, *place)]}{at and f' at {at}'}\n"
        f"    hint:     {hint}",
        what,
        step,
    )
    error.slices = [slices[first]] if variable.per == "slice" else ()
    raise error


def _first(key: str, graph: Graph) -> dict[str, int]:
    """Return where this rank's part of an array begins, by dimension; nothing where it has all of it."""
    folder, _, rest = key.partition("/")
    name, found = rest.rpartition("/")[0], {}
    if folder == "layers":
        rows, _, features = graph.network.layers[name].shape
        if name in graph.tiling.layers:
            found["y"] = graph.tiling.part.number * rows
        if name in graph.parted:
            found["feature"] = graph.part.number * features
    owner = graph.network.connections[name].patch_owner if folder == "connections" else None
    if owner is not None and (split_by := side(owner, graph.parted)):
        layer = owner.pre if split_by == "pre" else owner.post
        found[f"{split_by}_feature"] = graph.part.number * graph.network.layers[layer].shape[2]
    return found


def _described(key: str, network: Network) -> tuple[str, str]:
    """Return what an array is called in an error, and what may have made its numbers too large."""
    folder, _, rest = key.partition("/")
    owner, _, name = rest.rpartition("/")
    if folder == "layers":
        layer = network.layers[owner]
        hint = layer.remedy(name) if layer.images is None else "the images of its source have such numbers"
        return f"layer {owner}" if name == "A" else f"{name} of layer {owner}", hint
    if folder == "connections":
        one, hint = network.connections[owner].owner, f"see connections.{owner}.init"
        if one is not None and one.plasticity is not None:
            hint = f"see connections.{owner}.learn: `bounds` keep weights between two values"
        elif one is not None and one.learns:
            hint = "lower learn.rate, or normalise the weights"
        if name == "pending":
            hint = f"what arrives is too large: lower connections.{owner}.strength, or its weights"
        return f"{name} of connection {owner}", hint
    return key, Layer.diverges
