"""Displays that begin at the exact code of their image, `run.until.solver = "homotopy"`."""

from __future__ import annotations

import threading
from collections.abc import Mapping

import numpy as np

from petabatch.engine.signals import Signals
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

    def lasso(self, weights: np.ndarray, exact: Exact, until: Until) -> Lasso:
        """Return the solver of weights `[features, pixels]` for the penalty of a slice, on any thread."""
        with self._lock:
            if self._weights is None or not np.array_equal(weights, self._weights):
                self._weights = weights.copy()
                self._lasso = Lasso(self._weights, exact.penalty, signed=exact.signed, gap=until.gap)
            return self._lasso.of(exact.penalty, exact.signed)


class ExactStart:
    """Puts the exact code of an image in place, with the state in which a layer rests there."""

    def __init__(self, plan: Plan, exact: Exact, until: Until, dictionary: Dictionary) -> None:
        self._exact, self._until, self._dictionary = exact, until, dictionary
        network = plan.graph.network
        self._layer, self._precision = network.layers[exact.code], network.run.precision

    def warm_up(self) -> None:
        """Have compiled what solving needs."""
        one = np.eye(1, dtype=self._precision)
        Lasso(one, 1.0, signed=self._exact.signed).here(one)

    def begin(self, step: int, signals: Signals, arrays: Mapping[str, Array]) -> bool:
        """Put the codes of the images of `step` in place, before it; return whether they are finite.

        Numbers that are not finite, and those beyond the type, are left to the steps.
        """
        exact = self._exact
        image = host(signals.histories[exact.image].at(step))
        key = f"connections/{exact.dictionary}/weights"
        weights = host(arrays[key])[0].reshape(self._layer.shape[2], -1)
        items = image.reshape(len(image), -1).astype(weights.dtype, copy=False)
        if not (np.isfinite(items).all() and np.isfinite(weights).all()):
            return False
        code = self._dictionary.lasso(weights, exact, self._until).here(items).code
        shown = code @ weights
        drive = (items - shown) @ weights.T
        if not (np.isfinite(code).all() and np.isfinite(drive).all()):
            return False
        before, state = step - 1, owned(arrays, f"layers/{exact.code}")
        for layer, values in ((exact.code, code), (exact.reconstruction, shown)):
            place = signals.histories[layer].at(before)
            place[...] = module_of(place).asarray(values.reshape(place.shape))
        # Active units are driven by the penalty, others by less: rounding activates none.
        drive = np.where(code != 0, np.copysign(exact.penalty, code), drive)
        lowest = -exact.penalty if exact.signed else -np.inf
        drive = np.clip(drive, lowest, exact.penalty).astype(code.dtype)
        like = next(iter(state.values()))
        units = (len(code), *self._layer.shape)
        to_device = module_of(like).asarray
        self._layer.settle(state, to_device(code.reshape(units)), to_device(drive.reshape(units)))
        return True


def exact_start(plan: Plan, dictionary: Dictionary) -> ExactStart | None:
    """Return what begins the displays of a slice, None where nothing does."""
    network = plan.graph.network
    exact = find_exact(network)
    return (
        None
        if exact is None or network.run.until is None
        else ExactStart(plan, exact, network.run.until, dictionary)
    )
