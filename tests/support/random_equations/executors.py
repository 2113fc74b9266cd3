"""Steps of layers of equations by each executor, from random states."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from petabatch.kernels.cpu import rows
from petabatch.kernels.cuda.units.kernel import UnitKernel
from petabatch.kernels.cuda.units.rows import row_body
from petabatch.kernels.cuda.units.source import Term
from petabatch.layers import Neurons, neurons
from petabatch.spec.parts import StepContext
from petabatch.weights import Uniform
from support.gpu_emulation import EmulatedGpu
from support.random_equations.drawing import Drawn
from support.random_equations.expressions import Inputs

UNITS = 40
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 1e10, -1e30, 1e-30, 9e6, 1.0])


def made_of(one: Drawn, values: Mapping[str, float]) -> Neurons:
    """Return the layer with these numbers."""
    return Neurons(
        shape=(1, 1, UNITS), equations=one.equations, spike=one.spike, reset=one.reset, currents=one.currents,
        refractory=one.refractory, activity=one.activity, method=one.method,  # type: ignore[arg-type]
        parameters={**values, **{name: Uniform(low=-1.0, high=2.0) for name in one.units}},
        start={name: Uniform(low=-1.0, high=1.0) for name in one.variables},
    )  # fmt: skip


def random_inputs(
    one: Drawn, layer: Neurons, values: Mapping[str, float], rng: np.random.Generator
) -> Inputs:
    """Return a state from which a step is made."""

    def some(special: float = 0.15, scale: float = 1.0) -> np.ndarray:
        numbers = rng.normal(size=(1, UNITS)) * scale * rng.choice([1, 1, 1, 10], (1, UNITS))
        numbers = np.where(rng.random((1, UNITS)) < special, rng.choice(SPECIAL, (1, UNITS)), numbers)
        return numbers.astype(np.float32).astype(float)

    spikes, finite = one.spike is not None, layer.step.choice.method == "exact"  # of which factors may be 0
    before = (rng.random((1, UNITS)) < 0.4).astype(float) if spikes else np.zeros((1, UNITS))
    dt = float(rng.choice([0.1, 0.25, 1.0]))
    return Inputs(
        {name: some(0.15 * (not finite)) for name in one.variables}, before,
        rng.integers(0, 4, (1, UNITS)).astype(float) * spikes,
        {name: some(0, 0.1) * (rng.random((1, UNITS)) < 0.5) for name in one.variables},
        {name: some(0.05 * (not finite)) for name in one.currents}, dict(values),
        {name: some(0.05 * (not finite)) for name in one.units},
        {name: some(0) for name in layer.draws}, int(rng.choice([0, 1, 7, 10**6, 3 * 10**7])) * dt, dt,
    )  # fmt: skip


def stepped(layer: Neurons, given: Inputs, executor: str, real: Any) -> dict[str, np.ndarray]:
    """Return the state after a step by an executor."""
    row = layer.compiled_rule().row
    assert row is not None
    shape = (1, 1, 1, UNITS)
    left = {"refractory": given.left} if layer.step.rests else {}
    state = {n: np.reshape(v.astype(real), shape) for n, v in {**given.state, **left, **given.units}.items()}
    drive = [np.reshape(v.astype(real), shape) for v in (*given.arrived.values(), *given.currents.values())]
    draws = {n: np.reshape(v.astype(real), shape) for n, v in given.noise.items()}
    A, number = np.reshape(given.before.astype(real), shape), round(given.t / given.dt) + 1
    with np.errstate(all="ignore"):
        if executor == "array":
            with _drawing(draws):
                layer.update(StepContext(number, given.dt, (0,), 1), state, drive, A.copy(), A)
        elif executor == "compiled":
            arrays = [*drive, *({**state, "A": A.copy()}[n] for n in row.form.variables), *draws.values(), A]
            numbers = np.array(row.numbers(given.dt))
            table = np.array(
                [UNITS, numbers.ctypes.data, number, *(one.ctypes.data for one in arrays)], np.int64
            )
            rows._compiled(row.function, row.form, "float32", False)(table.ctypes.data)
        else:
            device = EmulatedGpu()
            device.enter()
            xp, body = device.xp, row_body(row.function, row.form, "float")
            there = {n: xp.asarray({**state, **draws}[n]) for n in body.arrays}
            terms = [Term(n, False) for n in range(len(drive))]
            kernel = UnitKernel(
                device, body, terms, len(drive), xp.zeros((1, 0), real), np.array([row.numbers(given.dt)])
            )
            after = xp.asarray(A.copy())
            kernel([xp.asarray(one) for one in drive], list(there.values()), xp.asarray(A), after, number)
            state |= {n: np.asarray(one) for n, one in there.items()}
            A = np.asarray(after)
    return {n: v.reshape(1, UNITS) for n, v in {**state, "A": A}.items()}


@contextmanager
def _drawing(draws: Mapping[str, np.ndarray]) -> Iterator[None]:
    """Have layers draw these random numbers."""
    known = neurons.drawn
    neurons.drawn = lambda layer, ctx, name, number: draws[name][0]  # type: ignore[attr-defined]
    try:
        yield
    finally:
        neurons.drawn = known  # type: ignore[attr-defined]
