"""Probes that the compiled loop measures by itself: what three sums of a step are enough for.

The sums of error^2, |A| and active units of one slice; quantities are weighted sums of them. They are those
of the probe's own `measure` to rounding (a relative 1e-12), the same bits whatever else is observed.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from petabatch.engine.recorder import Recorder
from petabatch.engine.steppers.bind import Weights
from petabatch.network.loop import Loop
from petabatch.network.plan import Plan
from petabatch.probes import L0, L1, L2, Energy
from petabatch.probes.terms import Sum
from petabatch.spec.parts import Probe


def of_sums(probe: Probe, loop: Loop, units: int) -> Mapping[str, Weights] | None:
    """Return the weights of each quantity of a probe, or None where it needs more than the sums."""
    if isinstance(probe, (L0, L1, L2)) and probe.mask is not None:
        return None
    if type(probe) is L2 and probe.layer == loop.error:
        return {"squares": (1.0, 0.0, 0.0)}
    if type(probe) is L1 and probe.layer == loop.code:
        return {"sum": (0.0, 1.0, 0.0)}
    if type(probe) is L0 and probe.layer == loop.code and probe.above == 0:
        return {"active": (0.0, 0.0, 1.0), "fraction": (0.0, 0.0, 1 / units)}
    if type(probe) is Energy and (probe.error, probe.code) == (loop.error, loop.code):
        price = _price(probe.cost, probe.above, probe.coefficient)
        if price is not None:
            residual = (0.5, 0.0, 0.0)
            return {"total": _plus(residual, price), "residual": residual, "sparsity": price}
    if type(probe) is Sum:
        return _terms(probe, loop)
    return None


class LoopProbes:
    """The recordings of a network that its compiled loop makes."""

    def __init__(self, plan: Plan, loop: Loop, units: int) -> None:
        self.recordings: dict[int, Weights] = {}
        """Number of the recording to the weights of its quantity."""
        self._all = plan.recordings
        probes = plan.graph.network.probes
        found = {name: of_sums(probe, loop, units) for name, probe in probes.items()}
        self.energies = {
            name: weights["total"] for name, weights in found.items() if weights and "total" in weights
        }
        """What an adaptive time scale can follow in the loop, by the name of the probe."""
        for index, recording in enumerate(plan.recordings):
            kind, name, quantity = recording.stream.path.split("/")
            weights = found.get(name) if kind == "probes" else None
            if weights is not None:
                self.recordings[index] = weights[quantity]

    def due(self, first: int, last: int) -> np.ndarray:
        """Say which of the steps first+1 .. last are looked at, `[steps]`."""
        looked = np.zeros(last - first, bool)
        for index in self.recordings:
            looked[self._steps(index, first, last)] = True
        return looked

    def write(self, recorder: Recorder, lanes: slice, first: int, last: int, sums: np.ndarray) -> None:
        """Record what is due in steps first+1 .. last, from `sums` `[steps, lanes, 3]`."""
        for index, (squares, size, active) in self.recordings.items():
            steps = self._steps(index, first, last)
            if steps.size:
                s = sums[steps]
                values = squares * s[..., 0] + size * s[..., 1] + active * s[..., 2]
                recorder.rows(index, first + 1, last)[:, lanes] = values

    def _steps(self, index: int, first: int, last: int) -> np.ndarray:
        """Return the steps of a recording in first+1 .. last, counted from 0."""
        one = self._all[index]
        if not one.period:
            return np.zeros(0, int)
        return np.arange((one.offset - first - 1) % one.period, last - first, one.period)


def _terms(probe: Sum, loop: Loop) -> Mapping[str, Weights] | None:
    terms: dict[str, Weights] = {}
    for name, term in probe.terms.items():
        found = None
        if term.mask is None and term.layer == loop.code:
            found = _price(term.norm, term.above, term.coefficient)
        elif term.mask is None and (term.layer, term.norm) == (loop.error, "squares"):
            found = (term.coefficient, 0.0, 0.0)
        if found is None:
            return None
        terms[name] = found
    total = (0.0, 0.0, 0.0)
    for found in terms.values():
        total = _plus(total, found)
    return {**terms, "total": total}


def _price(cost: str, above: float, coefficient: float) -> Weights | None:
    if cost == "l1":
        return (0.0, coefficient, 0.0)
    return (0.0, 0.0, coefficient) if cost == "l0" and above == 0 else None


def _plus(a: Weights, b: Weights) -> Weights:
    return (a[0] + b[0], a[1] + b[1], a[2] + b[2])
