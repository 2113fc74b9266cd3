"""Small sparse-coding problems as networks, as explicit matrices, and solved by somebody else."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from petabatch.connections import Conv
from petabatch.layers import FISTA, LCA, HeavyBall, Input
from petabatch.network.sparse_coding import sparse_coding
from petabatch.probes import Energy, Optimality
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import DISPLAY
from petabatch.spec.schedule import Every
from support.networks import GivenImages, GivenWeights, images, simulate

METHODS = {"lca": LCA, "heavy_ball": HeavyBall, "fista": FISTA}


@dataclass(frozen=True)
class Problem:
    """Minimise 0.5 |image - dictionary code|^2 + threshold |code|_1 for each slice."""

    data: np.ndarray
    """`[slices, items, ny, nx, channels]`."""
    weights: np.ndarray
    """`[1, 1, features, py, px, channels]` of unit length."""
    stride: int
    threshold: float
    signed: bool

    @property
    def code(self) -> tuple[int, int, int]:
        ny, nx = self.data.shape[2:4]
        return ny // self.stride, nx // self.stride, self.weights.shape[2]

    @property
    def matrix(self) -> np.ndarray:
        """The dictionary as `[pixels, units]`, every patch put in its place by hand."""
        ny, nx, channels = self.data.shape[2:]
        _, _, features, py, px, _ = self.weights.shape
        rows, columns, _ = self.code
        room = np.zeros((rows, columns, features, ny + 2 * py, nx + 2 * px, channels))
        for j in range(rows):
            for i in range(columns):
                y = self.stride * j - (py - self.stride) // 2 + py
                x = self.stride * i - (px - self.stride) // 2 + px
                room[j, i, :, y : y + py, x : x + px] = self.weights[0, 0]
        return room[..., py : py + ny, px : px + nx, :].reshape(rows * columns * features, -1).T

    @property
    def curvature(self) -> float:
        return float(np.linalg.norm(self.matrix, 2) ** 2)

    def energy(self, code: np.ndarray, number: int = 0) -> float:
        residual = self.data[number, 0].ravel() - self.matrix @ code.ravel()
        return float(0.5 * residual @ residual + self.threshold * np.abs(code).sum())

    def violation(self, code: np.ndarray, number: int = 0) -> float:
        """The largest violation of the LASSO's optimality conditions."""
        slope = self.matrix.T @ (self.data[number, 0].ravel() - self.matrix @ code.ravel())
        a = code.ravel()
        silent = np.maximum((np.abs(slope) if self.signed else slope) - self.threshold, 0)
        return float(np.where(a != 0, np.abs(slope - self.threshold * np.sign(a)), silent).max())

    def solved(self, number: int = 0) -> np.ndarray:
        """The code scikit-learn finds; its objective is ours over the number of pixels."""
        from sklearn.linear_model import Lasso

        image = self.data[number, 0].ravel()
        solver = Lasso(
            alpha=self.threshold / image.size,
            fit_intercept=False,
            positive=not self.signed,
            tol=1e-10,
            max_iter=1_000_000,
        )
        return solver.fit(self.matrix, image).coef_.reshape(self.code)

    def network(self, method: str, step: float, steps: int, every: int = 1, **keys: Any) -> Network:
        """Return the network whose layer makes steps k = `step` (FISTA at first); `keys` are more of it."""
        run = {key: keys.pop(key) for key in ("precision", "kernel", "displays") if key in keys}
        layer = METHODS[method](
            shape=self.code,
            **({"step": step} if method == "fista" else {"tau": -1 / math.log1p(-step)}),
            threshold=self.threshold,
            signed=self.signed,
            **keys,
        )
        shape = self.data.shape[2:]
        names = {"image": "image", "reconstruction": "recon", "code": "V1", "drive": "drive"}
        return sparse_coding(
            Input(shape=shape, source=GivenImages(data=self.data)),
            layer,
            Conv(
                pre="V1",
                post="recon",
                patch=self.weights.shape[3:5],
                init=GivenWeights(data=self.weights),
            ),
            run=Run(
                batch=len(self.data),
                display=steps,
                **{"precision": "float64", "displays": 1, **run},
            ),
            probes={
                "optimum": Optimality(
                    **names, coefficient=self.threshold, signed=self.signed, every=Every(every)
                ),
                "energy": Energy(error="error", code="V1", coefficient=self.threshold, every=Every(every)),
            },
            output=Output(layers={"V1": LayerOutput(every=DISPLAY)}),
        )

    def run(self, method: str, step: float, steps: int, every: int = 1, **keys: Any) -> dict[str, np.ndarray]:
        """Simulate; return what was recorded, the quantities of the optimality probe by their own names."""
        found = simulate(self.network(method, step, steps, every, **keys))[1]
        return {path.removeprefix("probes/optimum/"): values for path, values in found.items()}

    def at(self, **changes: Any) -> Problem:
        return replace(self, **changes)


def problem(
    shape: tuple[int, int, int] = (8, 12, 2),
    features: int = 6,
    patch: tuple[int, int] = (4, 4),
    stride: int = 2,
    threshold: float = 0.4,
    signed: bool = False,
    slices: int = 1,
    items: int = 1,
    seed: int = 0,
) -> Problem:
    """Return a problem with smooth random images and random unit-length patches."""
    weights = np.random.default_rng(seed).normal(size=(1, 1, features, *patch, shape[2]))
    weights /= np.sqrt(np.square(weights).sum(axis=(3, 4, 5), keepdims=True))
    return Problem(images(slices, items, shape, seed), weights, stride, threshold, signed)
