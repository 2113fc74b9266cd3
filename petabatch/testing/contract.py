"""A contract of a type: properties that are looked at one by one, and what was found."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import ContractError, NonFiniteError, PartError, PetabatchError
from petabatch.parallel.comm import Serial
from petabatch.sources import Function
from petabatch.spec.network import Network

State = Mapping[str, np.ndarray]
"""Every array of a network by its key."""
SLICES = 3
"""Slices of a batch."""
DISPLAY, STEPS = 4, 12
"""Steps of a display, and of all."""
BEFORE = (STEPS // 2, STEPS - 1)
"""Steps from which runs go on."""


class Broken(Exception):
    """A property does not hold: what was found."""


class Skipped(Exception):
    """A property is not asked for: why."""


@dataclass
class Contract:
    """What holds of a type, as `check_layer` and its neighbours return it; `print` lists it."""

    what: str
    """Such as `layers of type lca`."""
    held: list[str] = field(default_factory=list)
    """Properties that hold."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Properties that do not apply, each with the reason."""
    broken: dict[str, str] = field(default_factory=dict)
    """Properties that do not hold, each with what was found."""

    @contextmanager
    def asks(self, name: str) -> Iterator[None]:
        """Look at a property within the block: it raises Broken, Skipped, or what the type raises."""
        try:
            yield
        except Skipped as reason:
            self.skipped[name] = str(reason)
        except Broken as found:
            self.broken[name] = str(found)
        except Exception as error:  # of any kind: what the type raises is what is broken
            self.broken[name] = _said(error)
        else:
            self.held.append(name)

    def settled(self) -> Contract:
        """Return this; raises ContractError with everything that is broken."""
        if self.broken:
            lines = [f"{self.what} break their contract"]
            for name, found in self.broken.items():
                text = found.replace("\n", "\n              ")
                lines.append(f"    {name}\n        found:    {text}\n        expected: {MEANING[name]}")
            raise ContractError("\n".join(lines))
        return self

    def __str__(self) -> str:
        lines = [f"{self.what}: {len(self.held)} properties hold", *(f"  {name}" for name in self.held)]
        return "\n".join(
            [*lines, *(f"  not asked: {name}, because {why}" for name, why in self.skipped.items())]
        )


MEANING = {
    "runs": "a network that makes its steps, in which all numbers stay finite",
    "moves": "something that depends on its input; if not of these numbers, give others by `scale`",
    "repeats": "the same bits in each run: random numbers of `draws` or `ctx`, nothing else from outside",
    "slices apart": "a slice that depends on no other: nothing is summed or compared along the first axis",
    "batch": "a slice with the same bits alone and in a batch; of probes, or no `slicewise`",
    "resume": "a state of declared variables alone, from which a run goes on as if it had not stopped",
    "row and arrays": "a row function and an `update` that agree to rounding",
    "compiled and arrays": "compiled steps and an `update` that agree to rounding",
    "local": "rows that can be computed apart, with sums by `ctx.tile.total`; or no `local`",
    "splittable": "features that can be computed apart; or no `splittable`",
    "graph_safe": "an `update` that is the same in each step; or no `graph_safe`, or `host_numbers`",
    "silent": "an activity that stays 0 as long as its input does; or no `silent`",
    "constant": "the activity that `constant` says, in all units and steps",
    "linear_gain": "A = linear_gain * input",
    "leaves the pre layer": "a `deliver` that changes nothing of what it is given",
    "operation": "an `operation` that is what `deliver` does, if there is one, compiled or not, to rounding",
    "observes": "a measurement that changes no bit of the network",
    "norms": "norms that are what `measure` returns, to rounding",
    "learns": "weights that change from activities of about 1",
    "featurewise": "pre features that learn apart; or no `featurewise`",
}
"""What is expected, by property."""


def _said(error: Exception) -> str:
    """Return what a type has raised, without what is true of the network of the check alone."""
    if isinstance(error, PartError):
        return str(error).partition(": ")[2].replace("\n    found:    ", "\n    ")
    if isinstance(error, NonFiniteError):
        return str(error).partition("\n    hint:")[0].replace("\n    found:    ", ": ")
    return str(error) if isinstance(error, PetabatchError) else f"{type(error).__name__}: {error}"


def run(network: Network, after: tuple[int, State] | None = None) -> State:
    """Return the state at the end of a network, from the beginning or `after` a step with its state."""
    return made(network, after).state.saved()


def made(network: Network, after: tuple[int, State] | None = None) -> Engine:
    """Return an engine that has made all steps of a network."""
    engine = Assembly.of(network, Serial(), 1).engine()
    engine.start()
    if after is not None:
        engine.resume(after[0], after[1])
    for _ in drive(engine):
        engine.flushed()
    engine.collect()
    return engine


def with_run(network: Network, **keys: object) -> Network:
    """Return a network with other keys of its run."""
    return network.model_copy(update={"run": network.run.model_copy(update=keys)})


def images(
    shape: tuple[int, int, int],
    scale: float,
    others: int | None = None,
    positive: bool = False,
    kind: int = 0,
) -> Function:
    """Return images about `scale`, of each slice its own; all but that of slice `others` can be others."""

    def image(slice_: int, display: int) -> np.ndarray:
        moved = 0 if others is None or slice_ == others else 1
        rng = np.random.default_rng((11 + kind, slice_, display, moved))
        found = (scale * rng.normal(size=shape)).astype(np.float32)
        return np.abs(found) if positive else found

    return Function(call=image)


def same(found: State, expected: State, place: slice = slice(None), why: str = "") -> None:
    """Raise Broken unless the slices at `place` have the same bits; arrays of all slices are left out."""
    for key, values in expected.items():
        mine, theirs = (array[place] for array in (found[key], values))
        if mine.shape != theirs.shape:
            raise Broken(f"{key} is {list(mine.shape)}, not {list(theirs.shape)}{why and f', {why}'}")
        if mine.tobytes() != theirs.tobytes():
            at = tuple(np.argwhere(_bits(mine) != _bits(theirs))[0].tolist())
            raise Broken(f"{key} {list(at)} is {mine[at]:.9g}, not {theirs[at]:.9g}{why and f', {why}'}")


def _bits(numbers: np.ndarray) -> np.ndarray:
    """Return the bits of numbers, in which 0 differs from -0."""
    return np.ascontiguousarray(numbers).view(f"u{numbers.itemsize}")


def near(found: State, expected: State, tolerance: float) -> None:
    """Raise Broken unless arrays agree to a tolerance, of the largest value of each."""
    for key, values in expected.items():
        mine, values = found[key].astype(float), values.astype(float)
        scale = float(np.abs(values[np.isfinite(values)]).max(initial=0)) or 1.0
        with np.errstate(invalid="ignore"):
            off = np.where(mine == values, 0.0, np.abs(mine - values))  # infinities, too
        if off.size and not float(off.max()) <= tolerance * scale:
            at = np.unravel_index(int(np.nanargmax(np.where(np.isnan(off), np.inf, off))), off.shape)
            place = [int(one) for one in at]
            raise Broken(f"{key} {place} is {mine[at]:.7g}, not {values[at]:.7g}")


def of(state: State, prefix: str) -> State:
    """Return the arrays of a part."""
    return {key: array for key, array in state.items() if key.startswith(prefix)}


def common(
    contract: Contract, make: Callable[..., Network], prefix: str, moves: str = "moves"
) -> State | None:
    """Look at what any part has to hold; return its state at the end, None where it does not run.

    `make(others=None, **run)` returns the network; with `others`, all slices but that one see other images.
    The arrays of the part are those whose key begins with `prefix`.
    """
    whole: State | None = None
    with contract.asks("runs"):
        whole = {key: array.copy() for key, array in run(make()).items()}
    if whole is None:
        return None
    mine = of(whole, prefix)
    with contract.asks("repeats"):
        same(of(run(make()), prefix), mine, why="in a second run")
    with contract.asks("slices apart"):
        for number in range(SLICES):
            others = of(run(make(others=number)), prefix)
            per_slice = {key: array for key, array in mine.items() if len(array) == SLICES}
            place = slice(number, number + 1)
            same(others, per_slice, place, f"where slices other than {number} see other images")
    with contract.asks("batch"):
        per_slice = {key: array for key, array in mine.items() if len(array) == SLICES}
        same(of(run(make(batch=1)), prefix), per_slice, slice(0, 1), "alone")
    with contract.asks("resume"):
        for step in BEFORE:
            before = {key: array.copy() for key, array in run(make(steps=step)).items()}
            run(make(others=SLICES))  # which changes what is kept elsewhere than in the state
            same(of(run(make(), (step, before)), prefix), mine, why=f"in a run that goes on from step {step}")
    return whole
