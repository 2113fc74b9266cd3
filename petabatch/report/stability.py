"""Stability limits of the step size of sparse-coding layers, from the initial weights.

A code layer's drive falls by C A when its activity grows by A; C is dictionary^T dictionary in the usual
network. With the step size k = 1 - exp(-dt / tau) the fixed point is stable up to k = 2 / L for the LCA, L
the largest eigenvalue of C, and up to 2 (1 + beta) / L with the momentum of heavy-ball. L is that of all
units. Sparse codes tolerate larger steps: with a learned dictionary of L = 508 the LCA converged at
k = 5 / L; below the limit convergence is certain. FISTA adapts its step size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from petabatch.engine.deliveries import Deliveries
from petabatch.engine.features import AllFeatures
from petabatch.engine.state import State
from petabatch.kernels.array import ArrayKernels
from petabatch.network.graph import Graph
from petabatch.network.plan import schedule
from petabatch.random import stream
from petabatch.threads import thread_pools
from petabatch.variable import Array, Border

_MUCH = 5
"""Displays from which the steps to the optimum are worth a note: they are known to a factor of three."""
WITHIN_ONE_PERCENT = 10.0
"""Time constants until the LCA's energy is about 1 % above its minimum: 5 to 24, more for low thresholds."""


@dataclass(frozen=True)
class StepLimit:
    """The step size of one code layer and its stability limit."""

    layer: str
    curvature: float
    """L, the largest eigenvalue of C."""
    step: float
    """k = 1 - exp(-dt / tau)."""
    largest: float
    """The stability limit: beyond it the layer may diverge."""
    steps: int
    """Steps to within about 1 % of the optimum, to a factor of three."""
    display: int
    """Steps of a display."""

    def __str__(self) -> str:
        """Return the line printed by `petabatch check`."""
        if self.exceeded:
            return (
                f"{self.layer}: step size {self.step:.3g} is above {self.largest:.3g}, the stability limit "
                "with all units active; sparse codes often converge all the same: watch the energy, or raise "
                "tau"
            )
        return (
            f"{self.layer}: {self.step:.3g}, stability limit {self.largest:.3g}; roughly "
            f"{self.steps} steps to within 1 % of the optimum{self._beyond}"
        )

    @property
    def _beyond(self) -> str:
        """What is to be said where that is much more than a display."""
        if self.steps <= _MUCH * self.display:
            return ""
        return f", where a display has {self.display}: raise run.display, or lower tau"

    @property
    def exceeded(self) -> bool:
        """Whether the layer may diverge."""
        return self.step > self.largest


def step_limits(state: State) -> tuple[StepLimit, ...]:
    """Return the limit of every code layer whose drive depends on its own activity through linear layers.

    The weights are those of `state`, at step 0; learning changes them, and with them L. Other code layers are
    held fixed, and an adaptive time scale (a factor on dt) is taken as 1. Costs at most 50 steps of one
    slice.
    """
    graph, layers = state.graph, state.graph.network.layers
    dt = graph.network.run.dt
    codes = {name: layer for name, layer in layers.items() if layer.stability(dt, 1.0) is not None}
    if not codes:
        return ()
    found = []
    for name, layer in codes.items():
        largest = curvature(_Loop(graph, state, name), layer.shape)
        limit = layer.stability(dt, largest) if largest > 0 else None
        if limit is not None:
            steps = WITHIN_ONE_PERCENT / limit.step / limit.speed
            display = graph.network.run.display
            found.append(StepLimit(name, largest, limit.step, limit.largest, round(steps), display))
    return tuple(found)


def curvature(operator: Callable[[Array], Array | None], shape: tuple[int, ...]) -> float:
    """Return the largest eigenvalue of a symmetric operator on `[1, *shape]`, by Lanczos iteration.

    Stops after 50 iterations, or at a relative increase below 1e-4; the estimate is a lower bound. Rounding
    makes eigenvalues appear several times, but the largest one is right without reorthogonalisation.
    """
    start = stream(0, "power iteration").normal(size=(1, *shape)).astype(np.float32)
    vector, before = start / np.linalg.norm(start), np.zeros_like(start)
    diagonal, off_diagonal, value = [], [0.0], 0.0
    with thread_pools().limit(limits=1):  # threads would wait for each other longer than they compute
        for _ in range(50):
            image = operator(vector)
            if image is None:
                return 0.0
            diagonal.append(float(np.vdot(vector, image)))
            image = image - diagonal[-1] * vector - off_diagonal[-1] * before
            known, value = value, _largest(diagonal, off_diagonal[1:])
            off_diagonal.append(float(np.linalg.norm(image)))
            if value <= known * (1 + 1e-4) or off_diagonal[-1] <= 1e-6 * value:
                break
            vector, before = image / off_diagonal[-1], vector
    return value


def _largest(diagonal: list[float], off_diagonal: list[float]) -> float:
    """Return the largest eigenvalue of a symmetric tridiagonal matrix."""
    matrix = np.diag(diagonal) + np.diag(off_diagonal, 1) + np.diag(off_diagonal, -1)
    return float(np.linalg.eigvalsh(matrix)[-1])


class _Loop:
    """The operator C: by how much an activity of one code layer lowers its own drive, other layers fixed."""

    def __init__(self, graph: Graph, state: State, code: str) -> None:
        self.graph, self.code = graph, code
        one = AllFeatures(schedule(graph))
        self.deliveries = Deliveries(graph, ArrayKernels(np), state.arrays, {}, one)

    def __call__(self, activity: Array) -> Array | None:
        drive = self._drive(self.code, activity, ())
        return None if drive is None else -drive

    def _drive(self, post: str, activity: Array, path: tuple[str, ...]) -> Array | None:
        """Return the change of a layer's input, None if it does not depend on the code."""
        total = None
        for edge in self.graph.edges[post]:
            pre = edge.connection.pre
            layer = self.graph.network.layers[pre]
            change = None
            if pre == self.code:
                change = activity
            elif layer.linear_gain is not None and pre not in path:
                change = self._drive(pre, activity, (*path, pre))
                change = None if change is None else layer.linear_gain * change
            if change is not None:
                # A border of constant value does not change with the activity.
                border: Border = "mirror" if self.graph.border(pre) == "mirror" else "zero"
                arrived = edge.factor * self.deliveries.carried(edge.name, change, border)
                total = arrived if total is None else total + arrived
        return total
