"""The workloads of the benchmarks: networks for sparse coding of photographs."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.connections import Conv
from petabatch.layers import LCA, Input
from petabatch.learning import Hebbian
from petabatch.network.sparse_coding import sparse_coding
from petabatch.sources import ImageArray, Photographs
from petabatch.spec.network import Network, Run
from petabatch.weights import L2, Gaussian, WeightFile

LEARNED = Path(__file__).parents[1] / "params" / "dictionary_8x8x3.npy"


@dataclass(frozen=True)
class Workload:
    """Sparse coding of `slices` square crops at a time for `steps` steps each, tau 100."""

    slices: int
    image: int
    channels: int
    features: int
    patch: int
    stride: int
    steps: int
    photograph: str = "coffee"
    """A photograph that the learned dictionary has not seen."""
    learned: bool = False
    learn: bool = False
    """Learn from a random dictionary, an update after each display."""
    displays: int = 1
    threshold: float = 0.55
    tau: float = 100.0
    mode: str = "extra_shared"

    @property
    def units(self) -> int:
        """Units of the code along a side."""
        return self.image // self.stride

    @property
    def slice_steps(self) -> int:
        """Steps of the whole run, of all slices."""
        return self.slices * self.steps * self.displays

    def network(self, kernel: str = "auto", images: np.ndarray | None = None) -> Network:
        """Return the network, with nothing recorded and nothing written; `images` are shown one by one.

        With `n` images `[n, ny, nx, channels]`, slice b of B begins with image b * floor(n / B).
        """
        shape, code = (self.image, self.image, self.channels), (self.units, self.units, self.features)
        source: Any = Photographs(names=(self.photograph,), crop="random", normalize="standard")
        if images is not None:
            source = ImageArray(data=images, order="movie", crop="top_left")
        rule = Hebbian(error="error", rate=1.0, momentum=0.8)
        run: dict[str, Any] = {"kernel": kernel, "display": self.steps, "displays": self.displays}
        return sparse_coding(
            Input(shape=shape, source=source),
            LCA(shape=code, tau=self.tau, threshold=self.threshold),
            Conv(
                pre="V1",
                post="recon",
                patch=(self.patch, self.patch),
                mode=self.mode,
                init=WeightFile(path=str(LEARNED)) if self.learned else Gaussian(),
                normalize=L2(),
                learn=rule if self.learn else None,
            ),
            run=Run(batch=self.slices, **run),
        )

    def __str__(self) -> str:
        """Return a description."""
        return (
            f"{self.slices} x {self.image}x{self.image}x{self.channels}, {self.features} features "
            f"{self.patch}x{self.patch}, stride {self.stride}, {self.steps} steps"
        )


WORKLOADS = {
    "W1": Workload(16, 32, 3, 128, 8, 2, 400),
    "W1-learned": Workload(16, 32, 3, 128, 8, 2, 400, learned=True),
    "W2": Workload(16, 32, 3, 128, 8, 2, 400, photograph="astronaut", learn=True, displays=10),
    "W3": Workload(8, 256, 3, 512, 16, 4, 50),
    "W4": Workload(1, 1024, 1, 64, 12, 2, 100, photograph="retina"),
    "W5": Workload(64, 16, 1, 32, 8, 1, 400),
}
