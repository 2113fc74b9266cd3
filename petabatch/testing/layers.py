"""The contract of types of layers."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import numpy as np

from petabatch.arguments import checked
from petabatch.connections import Identity
from petabatch.layers import Input
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.parts.step_context import Tile
from petabatch.testing.contract import (
    DISPLAY,
    SLICES,
    STEPS,
    Broken,
    Contract,
    Skipped,
    State,
    common,
    images,
    near,
    of,
    run,
)

NAME = "checked"
"""Of the layer in its network."""
_SHAPE = (4, 4, 6)
_PARTS = range(2, 17)
"""Into how many parts rows and features may be divided."""
_ROUNDED = 2e-4


@checked()
def check_layer(
    kind: type[Layer],
    *,
    into: Sequence[str] | None = None,
    scale: float = 1.0,
    positive: bool = False,
    dt: float = 1.0,
    **keys: Any,
) -> Contract:
    """Check that a type of layers keeps its contract, in small networks that show it random images.

    Parameters
    ----------
    kind
        The class.
    into
        The channels, or the targets of a type with equations, that images are delivered to; by default all
        channels.
    scale
        The standard deviation of the images.
    positive
        Whether they have no negative values.
    dt
        The time step.
    **keys
        Keys of the layer, as in a params file; `shape` is [4, 4, 6] by default.

    Returns
    -------
    Contract
        The properties that hold, and those that do not apply, with the reason.

    Raises
    ------
    ContractError
        If a property does not hold: all of them, with what was found.

    Examples
    --------
    >>> from petabatch.layers import LeakyIntegrator
    >>> from petabatch.testing import check_layer
    >>> "resume" in check_layer(LeakyIntegrator, tau=5.0).held
    True
    """
    layer = kind(**({"shape": _SHAPE} | keys))
    contract = Contract(f"layers of type {layer.type}")
    into = tuple(layer.channels) if into is None else tuple(into)

    def network(others: int | None = None, **given: Any) -> Network:
        found = {"batch": SLICES, "steps": STEPS, "display": DISPLAY, "dt": dt} | given
        channels = () if layer.static else into
        shown = {
            f"images_{name}": Input(
                shape=layer.shape, source=images(layer.shape, scale, others, positive, number)
            )
            for number, name in enumerate(channels)
        }
        key = "target" if layer.targets else "channel"
        joined = {
            f"into_{name}": Identity(pre=f"images_{name}", post=NAME, **{key: name}) for name in channels
        }
        return Network(run=Run(**found), layers={**shown, NAME: layer}, connections=joined)

    state = common(contract, network, f"layers/{NAME}/")
    if state is None:
        return contract.settled()
    with contract.asks("moves"):
        if not into:
            raise Skipped("nothing is delivered to it")
        _moves(layer, network, of(state, f"layers/{NAME}/"))
    with contract.asks(f"{'row' if layer.row is not None else 'compiled'} and arrays"):
        if type(layer).update is Layer.update:
            raise Skipped("its row function is its only update")
        _agree(network)
    for name, split in (("local", _local), ("splittable", _splittable)):
        with contract.asks(name):
            if not getattr(layer, name):
                raise Skipped(f"it is not said to be `{name}`")
            split(layer, dt, scale)
    with contract.asks("graph_safe"):
        if not layer.graph_safe or layer.host_numbers:
            raise Skipped("it is not said to be `graph_safe`, without numbers from the host")
        _alike_in_all_steps(layer, dt, scale)
    _answers(contract, layer, network, dt, scale)
    return contract.settled()


def _moves(layer: Layer, network: Any, mine: State) -> None:
    if layer.static or layer.constant is not None:
        raise Skipped("its activity does not change")
    others = of(run(network(others=SLICES)), f"layers/{NAME}/")
    if all(array.tobytes() == others[key].tobytes() for key, array in mine.items()):
        raise Broken("with other images, nothing of it changes")


def _agree(network: Any) -> None:
    """Compare the first steps, before errors of rounding grow."""
    compiled, arrays = (run(network(steps=2, kernel=kernel)) for kernel in ("auto", "array"))
    near(of(compiled, f"layers/{NAME}/"), of(arrays, f"layers/{NAME}/"), _ROUNDED)


class _Units:
    """Arrays of a layer, on which its update is called without a network."""

    def __init__(self, layer: Layer, dt: float, scale: float) -> None:
        rng = np.random.default_rng(5)
        shape = (SLICES, *layer.shape)
        self.layer, self.ctx = layer, StepContext(1, dt, tuple(range(SLICES)), 3, layer=NAME, display=DISPLAY)
        self.state = {
            one.name: np.full((SLICES, *one.shape), one.initial, np.dtype(one.dtype_in("float32")))
            for one in layer.variables()
        }
        self.activity = np.zeros(shape, np.float32)
        self.drive = [scale * rng.normal(size=shape).astype(np.float32) for _ in range(layer.buffers)]
        layer.prepare(self.state, self.activity, dt)

    def parts(self, axis: int) -> list[_Units]:
        """Return the units in parts along an axis, from 1; raises Skipped where there are no equal ones."""
        length = self.layer.shape[axis - 1]
        count = next((count for count in _PARTS if length % count == 0), None)
        if count is None:
            raise Skipped(f"{length} {'rows' if axis == 1 else 'features'} are not divided")
        return [self._cut(axis, number, length // count) for number in range(count)]

    def _cut(self, axis: int, number: int, size: int) -> _Units:
        """Return a part of the units along an axis, as a layer of its own."""
        place = (slice(None),) * axis + (slice(number * size, (number + 1) * size),)
        shape = tuple(size if n == axis - 1 else length for n, length in enumerate(self.layer.shape))
        found = object.__new__(_Units)
        found.layer, found.ctx = self.layer.model_copy(update={"shape": shape}), self.ctx
        found.state = {
            key: array[place].copy() if array.shape[1:] == self.layer.shape else array.copy()
            for key, array in self.state.items()
        }
        found.activity = self.activity[place].copy()
        found.drive = [array[place].copy() for array in self.drive]
        return found

    def advance(self, step: int = 1, tile: Tile | None = None) -> State:
        """Make a step in place; return the state."""
        ctx = replace(self.ctx, step=step, tile=tile or Tile())
        self.layer.update(ctx, self.state, self.drive, self.activity.copy(), self.activity)
        return {**self.state, "A": self.activity}


def _joined(parts: Sequence[State], whole: State, axis: int) -> State:
    return {
        key: np.concatenate([part[key] for part in parts], axis)
        if parts[0][key].shape != array.shape
        else parts[0][key]
        for key, array in whole.items()
    }


def _local(layer: Layer, dt: float, scale: float) -> None:
    """Compare tiles of rows with the whole, in two steps."""
    units = _Units(layer, dt, scale)
    tiles = units.parts(1)
    count = len(tiles)
    meet, given = threading.Barrier(count, timeout=20), list[Any]([None] * count)

    def of_tile(number: int) -> State:
        def total(mine: Any) -> Any:
            given[number] = mine
            meet.wait()
            found = sum(given[1:], given[0])
            meet.wait()
            return found

        try:
            for step in (1, 2):
                found = tiles[number].advance(step, Tile(number, count, total))
            return found
        except BaseException:
            meet.abort()
            raise

    with ThreadPoolExecutor(count) as threads:
        parts = list(threads.map(of_tile, range(count)))
    units.advance(1)
    whole = units.advance(2)
    near(_joined(parts, whole, 1), whole, 1e-5)


def _splittable(layer: Layer, dt: float, scale: float) -> None:
    """Compare parts of features with the whole, in two steps."""
    units = _Units(layer, dt, scale)
    parts = units.parts(3)
    for step in (1, 2):
        whole = units.advance(step)
        found = [one.advance(step) for one in parts]
    near(_joined(found, whole, 3), whole, 1e-6)


def _alike_in_all_steps(layer: Layer, dt: float, scale: float) -> None:
    """Compare the update in steps of other numbers."""
    first, later = (_Units(layer, dt, scale).advance(step) for step in (1, 7))
    for key, array in first.items():
        if array.tobytes() != later[key].tobytes():
            raise Broken(f"{key} is another in step 7 than in step 1, of the same numbers")


def _answers(contract: Contract, layer: Layer, network: Any, dt: float, scale: float) -> None:
    """Look at what a layer says of its activity."""
    with contract.asks("silent"):
        if not layer.silent:
            raise Skipped("it is not said to be `silent`")
        units = _Units(layer, dt, scale)
        units.drive = [np.zeros_like(array) for array in units.drive]
        for step in range(1, 4):
            if units.advance(step)["A"].any():
                raise Broken(f"an activity of {np.abs(units.activity).max():.6g} in step {step}")
    with contract.asks("constant"):
        if (value := layer.constant) is None:
            raise Skipped("it is not said to be `constant`")
        found: Mapping[str, np.ndarray] = run(network())
        if not (found[f"layers/{NAME}/A"] == np.float32(value)).all():
            raise Broken(f"activities {np.unique(found[f'layers/{NAME}/A'])[:3]}, not {value}")
    with contract.asks("linear_gain"):
        if (gain := layer.linear_gain) is None:
            raise Skipped("it is not said to have a `linear_gain`")
        units = _Units(layer, dt, scale)
        near({"A": units.advance()["A"]}, {"A": gain * units.drive[0]}, 1e-6)
