"""A lane in the middle of a run, on the host's emulation of CUDA and in float64."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, settings

from petabatch.geometry import Patches
from petabatch.kernels.cuda.gradient import Gradient
from petabatch.kernels.cuda.loop import LoopKernels
from petabatch.kernels.cuda.source import CudaKernel
from petabatch.kernels.rules import LEAKY, Cell, Units
from petabatch.kernels.transfer import Curve
from petabatch.spec.compiled import CompiledRule
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.loops import NUMPY, Guards, plain

emulated = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


few = settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.generate],
)


small = plain(6, 5, 37, 6, 2, 3)


def cell(rule: int, self_interaction: float, inertia: float, curve: Curve) -> Cell:
    """Return the numbers of a rule."""
    return CompiledRule("", self_interaction=self_interaction, inertia=inertia, curve=curve).cell(rule, 1)


class Plain(EmulatedGpu):
    """An emulated GPU on whose arrays numpy works."""

    xp = np


@dataclass
class Problem:
    """A lane in the middle of a run, each array between guards."""

    p: Patches
    curve: Curve
    self_interaction: bool = True
    lanes: int = 2
    per_slice: bool = False
    decay: float = 0.9
    gpu: Plain = field(default_factory=Plain)
    guards: Guards = field(default_factory=lambda: Guards(255))

    def __post_init__(self) -> None:
        p, rng = self.p, np.random.default_rng(5)
        self.gpu.enter()
        fine = (self.lanes, p.y.fine, p.x.fine, p.channels)
        V = rng.standard_normal((self.lanes, p.y.coarse, p.x.coarse, p.features)).astype("f4")
        A = np.zeros_like(V)
        self.curve.on(V, A, np)
        weights = rng.standard_normal((self.lanes if self.per_slice else 1, p.features, p.length))
        weights /= np.linalg.norm(weights, axis=2, keepdims=True)
        self.image, recon = rng.standard_normal(fine), rng.standard_normal(fine)
        self.image = self.guarded(self.image)
        self.weights = self.guarded(weights)
        self.state = [self.guarded(array) for array in (recon, np.zeros(fine), V, A)]
        self.rates = [self.guarded(np.full(self.lanes, value)) for value in self.decays()]

    def decays(self) -> tuple[np.float32, np.float32]:
        e = np.float32(self.decay)
        return e, 1 - e

    def guarded(self, array: np.ndarray) -> np.ndarray:
        """Return a float32 copy with NaN before and behind it."""
        return self.guards(array.astype("f4"))

    def cell(self) -> Cell:
        return cell(LEAKY, self.self_interaction, 0, self.curve)

    def kernels(self, kernel: CudaKernel) -> LoopKernels:
        made = LoopKernels(self.gpu, self.p, self.cell(), 0.75, self.lanes, kernel)
        made.load(self.weights)
        return made

    def gradient(self) -> Gradient:
        return Gradient(self.gpu, self.p, self.cell())

    def advance(
        self, kernels: LoopKernels, state: list[np.ndarray], steps: int, sums: np.ndarray | None = None
    ) -> None:
        recon, error, V, A = state
        kernels.run(self.image, recon, error, Units(A, V, V), (self.rates[0], self.rates[1]), steps, sums)

    def run(self, kernel: CudaKernel, parts: list[int]) -> list[np.ndarray]:
        """Return recon, error, V and A after the steps; the state here stays."""
        state = [self.guarded(array) for array in self.state]
        kernels = self.kernels(kernel)
        for steps in parts:
            self.advance(kernels, state, steps)
        assert self.guards.untouched()
        return state

    def reference(self, steps: int) -> tuple[list[np.ndarray], bool]:
        """Return the same in float64, and whether rounding may have decided a threshold."""
        e, image, close = float(self.decays()[0]), self.image.astype("f8"), False
        weights = self.weights.astype("f8")[:, None]
        recon, error, V, A = (array.astype("f8") for array in self.state)
        for _ in range(steps):
            error = 0.75 * image - recon
            V = e * V + (1 - e) * (
                NUMPY.project(error, weights, self.p) + (A if self.self_interaction else 0)
            )
            self.curve.on(V, A, np)
            recon = NUMPY.synthesize(A, weights, self.p)
            close |= bool((abs(abs(V) - self.curve.threshold) < 1e-5).any())
        return [recon, error, V, A], close


def relative(found: np.ndarray, expected: np.ndarray) -> float:
    return float(np.linalg.norm(found - expected) / max(np.linalg.norm(expected), 1e-30))
