"""The two-layer network of `params/two_layer.toml` in torch, by convolutions or by unfolding."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping

import numpy as np
import torch
import torch.nn.functional as F

SLOW = 0.2
"""Seconds of a step beyond which one measurement is enough."""


class Dictionary(ABC):
    """Patches `[features, channels, size, size]` on a layer twice as large as the code, in steps of 2."""

    def __init__(self, weights: np.ndarray) -> None:
        """Take weights `[features, size, size, channels]`."""
        self.weights = torch.from_numpy(np.ascontiguousarray(weights.transpose(0, 3, 1, 2)))
        self.size = weights.shape[1]
        self.margin = (self.size - 2) // 2

    @abstractmethod
    def project(self, error: torch.Tensor) -> torch.Tensor:
        """Return the drive of each unit."""

    @abstractmethod
    def synthesize(self, code: torch.Tensor) -> torch.Tensor:
        """Return the reconstruction."""


class Convolution(Dictionary):
    """By `conv2d` and `conv_transpose2d`."""

    memory: torch.memory_format = torch.contiguous_format

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.weights = self.weights.contiguous(memory_format=self.memory)

    def project(self, error: torch.Tensor) -> torch.Tensor:
        """Convolve the error."""
        error = error.contiguous(memory_format=self.memory)
        return F.conv2d(error, self.weights, stride=2, padding=self.margin)

    def synthesize(self, code: torch.Tensor) -> torch.Tensor:
        """Convolve the code, transposed."""
        code = code.contiguous(memory_format=self.memory)
        return F.conv_transpose2d(code, self.weights, stride=2, padding=self.margin)


class ChannelsLast(Convolution):
    """The same, with channels last in memory."""

    memory = torch.channels_last


class Unfolding(Dictionary):
    """By `unfold` and `fold`, with one matrix product each."""

    def __init__(self, weights: np.ndarray) -> None:
        super().__init__(weights)
        self.matrix = self.weights.reshape(len(weights), -1)
        self.back = self.matrix.t().contiguous()

    def project(self, error: torch.Tensor) -> torch.Tensor:
        """Multiply the patches of the error."""
        columns = F.unfold(error, self.size, padding=self.margin, stride=2)
        side = error.shape[-1] // 2
        return torch.matmul(self.matrix, columns).reshape(len(error), -1, side, side)

    def synthesize(self, code: torch.Tensor) -> torch.Tensor:
        """Add up the patches of all units."""
        columns = torch.matmul(self.back, code.reshape(*code.shape[:2], -1))
        side = 2 * code.shape[-1]
        return F.fold(columns, (side, side), self.size, padding=self.margin, stride=2)


KINDS = {"conv2d": Convolution, "conv2d, channels last": ChannelsLast, "unfold": Unfolding}


class TwoLayers:
    """LCA on images and on its code: V += k (drive + A - V), A = max(V - threshold, 0), in place."""

    def __init__(
        self,
        kind: str,
        images: np.ndarray,
        weights: tuple[np.ndarray, np.ndarray],
        thresholds: tuple[float, float],
        tau: float,
        compiled: bool = False,
    ) -> None:
        """Take images `[slices, ny, nx, channels]` and the weights of the two dictionaries."""
        self.image = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
        self.first, self.second = (KINDS[kind](one) for one in weights)
        self.thresholds, self.k = thresholds, -math.expm1(-1 / tau)
        self.step = torch.compile(self._step) if compiled else self._step
        self._zero()

    def to(self, device: str) -> TwoLayers:
        """Move it to a device, such as "cuda"."""
        self.image = self.image.to(device)
        for one in (self.first, self.second):
            one.weights = one.weights.to(device)
        self._zero()
        return self

    def _zero(self) -> None:
        slices, _, side, _ = self.image.shape
        shapes = [(slices, len(one.weights), side // n, side // n) for one, n in self._sides()]
        self.V1, self.A1 = (self.image.new_zeros(shapes[0]) for _ in range(2))
        self.V2, self.A2 = (self.image.new_zeros(shapes[1]) for _ in range(2))
        self.recon, self.recon1, self.error1 = (
            torch.zeros_like(like) for like in (self.image, self.V1, self.V1)
        )

    def _sides(self) -> list[tuple[Dictionary, int]]:
        return [(self.first, 2), (self.second, 4)]

    def _step(self) -> None:
        drive = self.first.project(self.image - self.recon).sub_(self.error1)
        self.V1.lerp_(drive.add_(self.A1), self.k)
        torch.sub(self.V1, self.thresholds[0], out=self.A1).relu_()
        self.recon = self.first.synthesize(self.A1)
        self.error1 = self.A1 - self.recon1
        self.V2.lerp_(self.second.project(self.error1).add_(self.A2), self.k)
        torch.sub(self.V2, self.thresholds[1], out=self.A2).relu_()
        self.recon1 = self.second.synthesize(self.A2)

    @torch.no_grad()
    def run(self, steps: int) -> float:
        """Make this number of steps from zero; return the seconds of a step of a slice."""
        self._zero()
        begin = time.perf_counter()
        for _ in range(steps):
            self.step()
        return (time.perf_counter() - begin) / (steps * len(self.image))

    def codes(self) -> tuple[np.ndarray, np.ndarray]:
        """Return both activities, `[slices, ny, nx, nf]`."""
        first, second = (np.asarray(a.permute(0, 2, 3, 1).contiguous()) for a in (self.A1, self.A2))
        return first, second


def fastest(loops: Mapping[str, TwoLayers]) -> tuple[str, dict[str, float]]:
    """Return the name of the fastest variant here, and the seconds of a step of a slice of all."""
    times = {}
    for name, loop in loops.items():
        loop.run(2)
        once = loop.run(1)
        times[name] = once if once * len(loop.image) > SLOW else min(loop.run(5) for _ in range(3))
    return min(times, key=times.__getitem__), times
