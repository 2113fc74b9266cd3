"""A network under all steppers, on threads, ranks and a GPU, resumed and unobserved, compared.

Each step of each stepper is compared with the same step of layers one by one in float64, from the same state.
Where they differ, the reference is disturbed by as much as rounding does, which may decide whether a
threshold is crossed, or whether two energies are equal.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import product
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, rounding
from petabatch.errors import ParamsError
from petabatch.layers import Rescale
from petabatch.network.build import build
from petabatch.network.numbers import with_value
from petabatch.network.plan import schedule
from petabatch.network.slices import own_values, sliced
from petabatch.probes import PSNR
from petabatch.rounding import relative
from petabatch.spec.network import Network
from petabatch.spec.over_time import OverTime
from petabatch.weight_mode import over_slices
from petabatch.weights import normalisers
from support.pools import pooled
from support.random_networks.failing import points_that_fail
from support.random_networks.runs import Arrays, Steps, run, unobserved, with_run
from support.random_runs import on_ranks

TOLERANCE = 2e-5
"""Largest difference of float32 from float64 after a step, of the largest value of an array, at least 1."""
DISTURBED = 3e-6
"""Relative disturbance, about that of a sum of some hundred products in float32."""
REPETITIONS, STRETCH = 6, 4
REST = 1e-6
"""Largest change of a code that rests."""


def bits(found: Arrays, expected: Arrays, what: str) -> list[str]:
    """Return the arrays that are not the same byte for byte."""
    if missing := found.keys() ^ expected.keys():
        return [f"{what}: {', '.join(sorted(missing))} is there once only"]
    return [
        f"{what}: {key} differs by {_distance(found[key], array):.3g}"
        for key, array in expected.items()
        if found[key].tobytes() != array.tobytes()
    ]


def ranks_and_threads(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what changes bits on two ranks, without stops in between."""
    return _on_ranks(network, seen, 2, None, int(rng.integers(1, 3)))


def resumed(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what changes bits when a run is resumed from any step, on three ranks."""
    step = int(rng.integers(0, len(seen.states) - 1))
    return _on_ranks(network, seen, 3, (step, seen.states[step]), int(rng.integers(1, 3)))


def not_observed(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what changes bits where nothing is observed."""
    state = run(unobserved(network), (len(seen.states) - 1,)).states[-1]
    return bits(state, {key: seen.states[-1][key] for key in state}, "unobserved")


def in_calls(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what changes bits when a simulator makes the steps in several calls."""
    length = len(seen.states) - 1
    stops = sorted({int(step) for step in rng.integers(1, length, size=3)}) if length > 1 else []
    with warnings.catch_warnings(action="ignore"):
        result = in_memory.run(network, at=stops, threads=int(rng.integers(1, 3)))
    what = f"in calls up to {stops}"
    return bits(result.end.arrays, seen.states[-1], what) + bits(result.recorded, seen.recorded, what)


def in_a_pool(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what changes bits when slices come into free slots; where that is refused, unobserved."""
    try:
        mine = with_run(network, pool=True)
        build(mine)
    except ParamsError:
        return not_observed(network, seen, rng)
    size, threads = (int(number) for number in rng.integers(1, 3, 2))
    found, failures = pooled(mine, size, threads, int(rng.integers(2**32)))
    wrong = [f"in a pool: {error}" for error in failures if error is not None]
    return wrong + bits(found, {path: seen.recorded[path] for path in found}, "in a pool")


def with_values_of_one(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what changes bits of a slice when all slices have its values; else as `constant_course`."""
    number = int(rng.integers(network.batch))
    plan = schedule(build(network))
    together = any(over_slices(owner.mode) for owner in plan.graph.plastic.values())
    if together or not own_values(network, number):
        return constant_course(network, seen, rng)
    state, within = run(sliced(network, number)).states[-1], number % network.run.batch
    mine, alone = {}, {}
    for key, array in seen.states[-1].items():
        if plan.variables[key].per == "slice" and array[0].shape == state[key][0].shape:
            mine[key], alone[key] = array[number], state[key][within if len(state[key]) > 1 else 0]
    return bits(alone, mine, f"with the values of slice {number}")


def constant_course(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what changes bits where values over time do not change; unobserved where there are none."""
    if not network.over_time:
        return not_observed(network, seen, rng)
    courses = dict(network.over_time)
    path = str(rng.choice(sorted(courses)))
    value = courses.pop(path).values[0]
    given = with_value(network, path, value).model_copy(update={"over_time": courses})
    constant = {**courses, path: OverTime(at=(1,), values=(value,))}
    found = run(network.model_copy(update={"over_time": constant})).states[-1]
    return bits(found, run(given).states[-1], f"constant {path}")


INVARIANTS = (
    ranks_and_threads, resumed, not_observed, in_calls, in_a_pool, with_values_of_one, constant_course,
    points_that_fail,
)  # fmt: skip


def _on_ranks(
    network: Network, seen: Steps, ranks: int, start: tuple[int, Arrays] | None, threads: int
) -> list[str]:
    state, recorded = on_ranks(network, ranks, start, threads)
    later = {path: seen.recorded[path][-len(rest) :] for path, rest in recorded.items()}
    what = f"{ranks} ranks of {threads} threads" + (f", resumed at step {start[0]}" if start else "")
    return bits(state, seen.states[-1], what) + bits(recorded, later, what)


class Reference:
    """Layers one by one in float64, from the states of other runs."""

    def __init__(self, network: Network) -> None:
        self._network = with_run(network, kernel="array", precision="float64", device="cpu")

    def differences(self, found: Steps, what: str) -> tuple[list[str], int]:
        """Return where a run differs, and the number of values that rounding may have decided."""
        expected = run(self._network, states=found.states)
        apart = _apart(found, expected, {})
        if not apart:
            return [], 0
        with _rescaled_rounding(found.states):
            return self._apart_but_for_rounding(found, what, len(apart))

    def _apart_but_for_rounding(self, found: Steps, what: str, count: int) -> tuple[list[str], int]:
        """Return of `count` differences those that rounding has not decided, and the number of the others."""
        expected = run(self._network, states=found.states)
        apart = _apart(found, expected, {})
        if not apart:
            return [], count
        rng, numbers, left = np.random.default_rng(0), _arrays(expected), apart
        spread: dict[tuple[int, str], Any] = {}
        for place, reach in self._by_rounding(found.states):
            spread[place] = np.maximum(spread.get(place, 0), reach)
        for other in self._others(found.states, rng):
            for place, values in _arrays(other).items():
                reach = np.nan_to_num(abs(values - numbers[place]), nan=np.inf)
                spread[place] = np.maximum(spread.get(place, 0), reach)
            if not (left := _apart(found, expected, spread)):
                break  # more disturbances only give more room
        return [f"{what}: {line}" for line in left], count - len(left)

    def _by_rounding(self, states: Sequence[Arrays]) -> Iterator[tuple[tuple[int, str], np.ndarray]]:
        """Yield what follows from rounding alone.

        The step size of FISTA, in slices whose code rests; the PSNR of a layer with itself: the range of a
        layer that may be constant but for rounding, over a residual of 0.
        """
        for name, probe in self._network.probes.items():
            if isinstance(probe, PSNR) and probe.image == probe.reconstruction:
                yield (-1, f"probes/{name}/psnr"), np.array(np.inf)
        fistas = [name for name, layer in self._network.layers.items() if layer.type == "fista"]
        for (step, state), name in product(enumerate(states[:-1]), fistas):
            code = state[f"layers/{name}/A"]
            moved = abs(code[:, step % code.shape[1]] - state[f"layers/{name}/A_before"])
            reach = np.where(moved.max(axis=(1, 2, 3)) < REST, np.inf, 0.0)
            yield from (((step + 1, f"layers/{name}/{number}"), reach) for number in ("step", "age"))

    def _others(self, states: Sequence[Arrays], rng: np.random.Generator) -> Iterator[Steps]:
        """Yield runs that differ by rounding alone: disturbed, and of several steps from each state.

        Each disturbance is made with its opposite, which leads to the other side of an edge.
        Whether an energy falls that stays the same is seen with the one before raised, and lowered.
        In the latter, numbers that are equal in the run are equal, too, as the energies of two steps, or the
        drives of two steps where a code rests: then with the step sizes of the run.
        """
        whole = {key for key, one in build(self._network).variables.items() if one.whole is not None}
        for seed, sign in product(rng.integers(2**32, size=REPETITIONS // 2), (1, -1)):
            errors = np.random.default_rng(seed)
            disturbed = [
                {key: a if key in whole else _disturbed(key, a, errors, sign) for key, a in state.items()}
                for state in states
            ]
            yield run(self._network, states=disturbed)
        for factor in (1 - DISTURBED, 1 + DISTURBED):
            others = [
                {key: a * factor if key.endswith("/energy_before") else a for key, a in state.items()}
                for state in states
            ]
            yield run(self._network, states=others)
        for seed, sign in product(range(REPETITIONS // 2), (1, -1)):
            with _disturbed_sums(self._network, seed, sign):
                yield run(self._network, states=states)
        with _limits_of_float32():
            yield run(self._network, states=states)
        # A sum may be 0 but for a number that rounding leaves out, as of a weight that is almost 0.
        yield run(self._network, states=[{key: _without_small(a) for key, a in s.items()} for s in states])
        for first, sizes in product(range(STRETCH), (False, True)):
            yield run(self._network, states=states, stretch=(STRETCH, first), sizes=sizes)


def _arrays(steps: Steps) -> dict[tuple[int, str], np.ndarray]:
    """Return all numbers of a run by step and key, those recorded at step -1."""
    found = {(step, key): a for step, state in enumerate(steps.states) for key, a in state.items() if step}
    return found | {(-1, path): values for path, values in steps.recorded.items()}


def _apart(found: Steps, expected: Steps, spread: Mapping[tuple[int, str], Any]) -> list[str]:
    mine, lines = _arrays(found), list[str]()
    for place, theirs in _arrays(expected).items():
        ours = mine[place].astype(float)
        finite = np.isfinite(theirs)
        largest = max(1.0, float(abs(theirs[finite]).max(initial=0.0)))
        room = TOLERANCE * largest + 5 * spread.get(place, 0)
        with np.errstate(invalid="ignore"):  # of two infinities
            near = abs(ours - theirs) <= room
        same = np.where(finite, near, (ours == theirs) | (np.isnan(ours) & np.isnan(theirs)))
        if place[1] == "until/gap":
            same |= np.isinf(ours)  # compiled steps do not keep it while a display goes on
        if not same.all():
            which = "recorded " if place[0] < 0 else f"step {place[0]}: "
            lines.append(f"{which}{place[1]} differs by {_distance(ours, theirs):.3g} of {largest:.3g}")
    return lines


def _disturbed(key: str, array: np.ndarray, rng: np.random.Generator, sign: int) -> np.ndarray:
    """Return an array with errors as of rounding; those of its zeros are related to the other numbers.

    Activities of 0 have errors where all are 0, too, since they may be differences of equal numbers. What
    then has a sign is decided by rounding: a gradient of which only the sign counts, the edge of a bin.
    """
    if array.dtype.kind != "f" or not array.size:
        return array
    values = array.astype(float)
    noise = sign * rng.normal(size=array.shape) * DISTURBED
    finite, active = np.isfinite(values), key.endswith("/A")
    size = np.where(finite, abs(values), 0.0)
    least = 0.1 * (max(1.0, size.max()) if active else size.max())
    found = np.where(finite, values + noise * np.maximum(size, least), values)
    # as the variances of Adam, of which it takes the root
    return abs(found) if values.min() >= 0 and not active else found


@contextmanager
def _disturbed_sums(network: Network, seed: int, sign: int) -> Iterator[None]:
    """Have layers receive sums with errors as of rounding, as of weights that are no part of a state.

    With a negative sign, sums are 0 that would be but for rounding: whether a unit is active is then decided
    by it. With a positive one, sums of 0 have errors, too, since what is added may cancel; rules that divide
    a gradient by its size, as Adam does, make steps of it. Activities that are 0 in float32 are so in both.
    """
    rng = np.random.default_rng(seed)

    def least(sums: np.ndarray) -> float:
        return 0.1 * max(1.0, float(abs(sums).max(initial=0))) if sign > 0 else 0.0

    def disturbed(update: Any) -> Any:
        def updated(layer: Any, ctx: Any, state: Any, drive: Any, *arrays: Any) -> None:
            sums = [
                one + sign * DISTURBED * rng.normal(size=one.shape) * np.maximum(abs(one), least(one))
                for one in drive
            ]
            update(layer, ctx, state, sums if sign > 0 else [*map(_without_small, sums)], *arrays)
            activity = arrays[-1]
            activity[abs(activity) < np.finfo(np.float32).tiny] = 0

        return updated

    with pytest.MonkeyPatch.context() as patched:
        updates = {type(layer): type(layer).update for layer in network.layers.values()}
        for kind, update in updates.items():
            patched.setattr(kind, "update", disturbed(update))
        yield


@contextmanager
def _rescaled_rounding(states: Sequence[Arrays]) -> Iterator[None]:
    """Let layers that divide rounding by its size have the activities of the run with these `states`."""
    update, rounding = Rescale.update, 8 * float(np.finfo(np.float32).eps)

    def updated(layer: Any, ctx: Any, state: Any, drive: Any, previous: Any, activity: Any) -> None:
        update(layer, ctx, state, drive, previous, activity)
        if layer.method == "softmax":
            return  # which divides by no size
        run = states[ctx.step][f"layers/{ctx.layer}/A"]
        theirs = run[:, ctx.step % run.shape[1]]
        if len(theirs) != len(activity):
            theirs = theirs[list(ctx.slices)]
        axes = (1, 2, 3) if layer.over == "slice" else (3,)
        centred = drive[0] - (0 if layer.method == "length" else drive[0].mean(axis=axes, keepdims=True))
        size = np.sqrt(np.square(centred).mean(axis=axes, keepdims=True))
        largest = max(0.1, float(abs(drive[0]).max()))
        activity[...] = np.where(size * TOLERANCE < rounding * largest, theirs, activity)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Rescale, "update", updated)
        yield


@contextmanager
def _limits_of_float32() -> Iterator[None]:
    """Let normalisers leave those units as they are whose sums or differences are rounding in float32."""
    least = relative(np.dtype("float32"))
    with pytest.MonkeyPatch.context() as patched:
        for module in (normalisers, rounding):  # the second for units that are flat
            patched.setattr(module, "relative", lambda dtype: least)
        yield


def _without_small(array: np.ndarray) -> np.ndarray:
    """Return an array in which numbers are 0 that rounding leaves out of a sum with the largest."""
    if array.dtype.kind != "f" or not array.size:
        return array
    size = np.where(np.isfinite(array), abs(array), np.inf)
    largest = size[np.isfinite(size)].max(initial=0.0)
    return np.where(size < DISTURBED * largest, 0, array)


def _distance(found: np.ndarray, expected: np.ndarray) -> float:
    if found.shape != expected.shape:
        return float("nan")
    return float(np.nanmax(abs(found.astype(float) - expected.astype(float)), initial=0.0))
