"""Displays that begin at the exact code of their image, `run.until.solver = "homotopy"`."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from petabatch.engine.history import History
from petabatch.engine.state import owned
from petabatch.lasso import Lasso
from petabatch.network.exact import Exact, find_exact
from petabatch.network.plan import Plan
from petabatch.spec.network import Until
from petabatch.variable import Array, host, module_of


class Dictionary:
    """The dictionary of all slices, prepared for solving; it is prepared again when its weights change."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: np.ndarray | None = None
        self._lasso: Lasso

    def lasso(self, weights: np.ndarray, exact: Exact, until: Until) -> Lasso | None:
        """Return the solver of weights `[features, pixels]`, on any thread; None if they are not finite."""
        with self._lock:
            if self._weights is None or not np.array_equal(weights, self._weights):
                if not np.isfinite(weights).all():
                    return None
                self._weights = weights.copy()
                self._lasso = Lasso(self._weights, exact.penalty, signed=exact.signed, gap=until.gap)
            return self._lasso.of(exact.penalty, exact.signed)


class ExactStart:
    """The exact code of the image of a slice, and the state in which its layer rests there."""

    def __init__(
        self, plan: Plan, exact: Exact, until: Until, dictionary: Dictionary, arrays: Mapping[str, Array]
    ) -> None:
        network = plan.graph.network
        self.exact, self._until, self._dictionary, self._arrays = exact, until, dictionary, arrays
        self._layer, self._precision = network.layers[exact.code], network.run.precision
        self._state = owned(arrays, f"layers/{exact.code}")

    def warm_up(self) -> None:
        """Have compiled what solving needs."""
        one = np.eye(1, dtype=self._precision)
        Lasso(one, 1.0, signed=self.exact.signed).here(one)

    def image(self, step: int, histories: Mapping[str, History]) -> np.ndarray:
        """Return the images of `step`, `[lanes, pixels]`."""
        found = host(histories[self.exact.image].at(step))
        return found.reshape(len(found), -1)

    def solved(self, items: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray] | None:
        """Return codes of items, of slices like this one, what they show, and the drive that is left.

        None where the weights are not finite; such numbers are left to the steps.
        """
        weights = host(self._arrays[f"connections/{self.exact.dictionary}/weights"])[0]
        weights = weights.reshape(self._layer.shape[2], -1)
        lasso = self._dictionary.lasso(weights, self.exact, self._until)
        if lasso is None:
            return None
        code = lasso.here(np.where(np.isfinite(items), items, 0)).code
        # Each in a product of its own: bits do not depend on how many are solved together.
        shown = np.stack([one @ weights for one in code])
        return code, shown, np.stack([weights @ one for one in items - shown])

    def put(
        self, step: int, histories: Mapping[str, History], code: Array, shown: Array, drive: Array
    ) -> None:
        """Put codes in place before `step`."""
        penalty = self.exact.penalty
        # Active units are driven by the penalty, others by less: rounding activates none.
        drive = np.where(code != 0, np.copysign(penalty, code), np.minimum(drive, penalty))
        if self.exact.signed:
            drive = np.maximum(drive, -penalty)
        xp, kind = module_of(next(iter(self._state.values()))), code.dtype
        for layer, values in ((self.exact.code, code), (self.exact.reconstruction, shown)):
            place = histories[layer].at(step - 1)
            place[...] = xp.asarray(values.reshape(place.shape))
        units = len(code), *self._layer.shape
        both = (xp.asarray(one.reshape(units).astype(kind, copy=False)) for one in (code, drive))
        self._layer.settle(self._state, *both)


def exact_start(plan: Plan, dictionary: Dictionary, arrays: Mapping[str, Array]) -> ExactStart | None:
    """Return what begins the displays of the slices of a lane, None where nothing does."""
    network = plan.graph.network
    exact = find_exact(network)
    if exact is None or network.run.until is None:
        return None
    return ExactStart(plan, exact, network.run.until, dictionary, arrays)


def begin(step: int, slices: Iterable[tuple[ExactStart, Mapping[str, History]]]) -> Sequence[bool]:
    """Put the exact codes of the images of `step` in place in some slices, before it; return in which.

    Numbers that are not finite, or beyond their type, are left to the steps.
    """
    given = list(slices)
    done = [False] * len(given)
    kinds: dict[Exact, list[int]] = {}
    for place, (one, _) in enumerate(given):
        kinds.setdefault(one.exact, []).append(place)
    for places in kinds.values():
        images = [given[place][0].image(step, given[place][1]) for place in places]
        if (found := given[places[0]][0].solved(np.concatenate(images))) is None:
            continue
        ends = np.cumsum([len(one) for one in images])[:-1]
        for place, image, *values in zip(
            places, images, *(np.split(one, ends) for one in found), strict=True
        ):
            if all(np.isfinite(one).all() for one in (image, *values)):
                given[place][0].put(step, given[place][1], *values)
                done[place] = True
    return done
