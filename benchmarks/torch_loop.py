"""The same dynamics in torch: an optimised hand-written loop, and lca-pytorch's."""

from __future__ import annotations

import math
import tempfile
import time
from importlib.util import find_spec

import numpy as np
import torch
import torch.nn.functional as F
from workloads import Workload

SLOW = 0.2
"""Seconds of a step beyond which one measurement is enough."""


class TorchLoop:
    """error = x - recon, V += k (W^T error + A - V), A = max(V - threshold, 0), recon = W A, in place."""

    def __init__(
        self, workload: Workload, images: np.ndarray, weights: np.ndarray, layout: str, compiled: bool
    ) -> None:
        self.stride, self.lam = workload.stride, workload.threshold
        self.k = -math.expm1(-1 / workload.tau)
        self.sides = margins(workload)
        self.pad = self.sides[0] if self.sides[0] == self.sides[1] else 0
        """Padding by torch itself, which has to be symmetric."""
        self.format = torch.channels_last if layout == "channels_last" else torch.contiguous_format
        self.x = self._tensor(images.transpose(0, 3, 1, 2))
        self.w = self._tensor(weights.transpose(0, 3, 1, 2))
        shape = (workload.slices, workload.features, workload.units, workload.units)
        self.V, self.A = (torch.zeros(shape).to(memory_format=self.format) for _ in range(2))
        self.recon = torch.zeros_like(self.x)
        self.step = torch.compile(self._step) if compiled else self._step

    def _tensor(self, array: np.ndarray) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).contiguous(memory_format=self.format)

    def _step(
        self, x: torch.Tensor, w: torch.Tensor, V: torch.Tensor, A: torch.Tensor, recon: torch.Tensor
    ) -> torch.Tensor:
        before, after = self.sides
        error = x - recon
        if before != after:
            error = F.pad(error, self.sides * 2)
        drive = F.conv2d(error, w, stride=self.stride, padding=self.pad)
        V.lerp_(drive.add_(A), self.k)
        torch.sub(V, self.lam, out=A).relu_()
        recon = F.conv_transpose2d(A, w, stride=self.stride, padding=self.pad)
        return recon if before == after else recon[:, :, before:-after, before:-after]

    @torch.no_grad()
    def run(self, steps: int) -> None:
        """Make this number of steps from zero."""
        self.V.zero_()
        self.A.zero_()
        recon = torch.zeros_like(self.x)
        for _ in range(steps):
            recon = self.step(self.x, self.w, self.V, self.A, recon)

    def code(self, steps: int) -> np.ndarray:
        """Return the activity `[slices, ny, nx, nf]` after this number of steps."""
        self.run(steps)
        return np.asarray(self.A.permute(0, 2, 3, 1).contiguous().numpy())


def margins(workload: Workload) -> tuple[int, int]:
    """Return the number of pixels before and after an image that patches cover."""
    beyond = workload.patch - workload.stride
    return beyond // 2, beyond - beyond // 2


def fastest(workload: Workload, images: np.ndarray, weights: np.ndarray) -> tuple[TorchLoop, str]:
    """Return the variant of the loop that is fastest here, and its name with the times of all."""
    ways = [("default", False), ("channels_last", False), ("default", True), ("channels_last", True)]
    loops, times = {}, {}
    torch._dynamo.reset()  # or it stops compiling after some workloads
    for layout, compiled in ways:
        name = f"{layout}{', compiled' if compiled else ''}"
        loops[name] = TorchLoop(workload, images, weights, layout, compiled)
        loops[name].run(2)  # compiles
        first = _clock(loops[name], 1)
        times[name] = first if first > SLOW else min(_clock(loops[name], 3) for _ in range(3))
    best = min(times, key=times.__getitem__)
    return loops[best], f"{best}; " + ", ".join(f"{name} {t * 1e3:.1f} ms" for name, t in times.items())


def _clock(loop: TorchLoop, steps: int) -> float:
    begin = time.perf_counter()
    loop.run(steps)
    return (time.perf_counter() - begin) / steps


class LcaPytorch:
    """lca-pytorch's `LCAConv2D` on images padded by hand, since it takes even patches in no other way.

    It counts the padding as pixels to be reconstructed, so near the border its code is another one.
    """

    def __init__(self, workload: Workload, images: np.ndarray, weights: np.ndarray) -> None:
        assert find_spec("lcapt") is not None
        from lcapt.lca import LCAConv2D

        bare = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
        self.x = F.pad(bare, margins(workload) * 2)
        self.learn, self.active = workload.learn, math.nan
        self.peer = LCAConv2D(
            workload.features,
            workload.channels,
            tempfile.mkdtemp(),
            kernel_size=workload.patch,
            stride=workload.stride,
            lambda_=workload.threshold,
            tau=workload.tau,
            eta=0.05,
            pad="valid",
            return_vars=["acts", "recon_errors"],
            input_zero_mean=False,
            input_unit_var=False,
        )
        self.peer.assign_weight_values(torch.from_numpy(np.ascontiguousarray(weights.transpose(0, 3, 1, 2))))

    @torch.no_grad()
    def display(self, steps: int) -> None:
        """Encode the images in `steps` steps, and update the dictionary where it learns."""
        self.peer.lca_iters = steps
        acts, errors = self.peer(self.x)
        if self.learn:
            self.peer.update_weights(acts, errors)
        self.active = float((acts != 0).float().mean())
