"""The sparse-coding loop of a whole lane on a GPU: the `.cu` kernels bound to one geometry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from petabatch.errors import ResourceError
from petabatch.geometry import Patches
from petabatch.kernels.cuda import source, tiling
from petabatch.kernels.cuda.accelerated import Accelerated
from petabatch.kernels.cuda.device import Device, load
from petabatch.kernels.cuda.numbers import SliceNumbers
from petabatch.kernels.rules import ACCELERATED, Cell, Units
from petabatch.variable import Array

CudaKernel = Literal["display", "step"]
Rates = tuple[Array, Array]
"""What differs from slice to slice, `[lanes]`: V = e V + gain drive; of ACCELERATED the step and the age of
the momentum, float64."""


class LoopKernels:
    """Advances all slices of a lane; arrays are float32 of `device.xp`, C order.

    `weights` `[lanes or 1, nf, K]` are read when `load` is called; the error is `factor` * image - recon,
    with one image for all lanes if it is `common`. `kernel` is the one that `network.method` has chosen; with
    `tf32`, the step kernel computes its drive on tensor cores. With `varies`, each slice has a cell and a
    factor of its own in `numbers`, which may change between runs, and those that stand still cost nothing.
    Raises ResourceError when the network does not fit the kernel on this GPU.
    """

    def __init__(
        self,
        device: Device,
        p: Patches,
        cell: Cell,
        factor: float,
        lanes: int,
        kernel: CudaKernel,
        tf32: bool = False,
        varies: bool = False,
        common: bool = False,
    ) -> None:
        self.device, self.patches, self.lanes = device, p, lanes
        self.numbers = SliceNumbers(device.xp, lanes, varies)
        self.display = source.display(p, device.limits) if kernel == "display" else None
        self.step = tiling.step(p, device.limits, lanes, tf32) if kernel == "step" else None
        if self.display is None and self.step is None:
            raise ResourceError(f"this network does not fit the {kernel} kernel on this GPU")
        constants, self._xp = source.cell_constants(cell, factor, varies, common), device.xp
        self._accelerated: Accelerated | None = None
        if self.display is not None:
            made = device.compile(source.compose("display", {**self.display.constants, **constants}))
            self._display = load(made, "display", self.display.shared)
            self._order = self._xp.asarray(self.display.order)
            self._nothing = self._xp.zeros(1)
        else:
            assert self.step is not None
            step_constants = {**self.step.constants, **constants}
            made = device.compile(source.compose("step", step_constants))
            drive = device.compile(source.compose("tensor", step_constants)) if tf32 else made
            self._residual = load(made, "residual", 0)
            self._update = load(drive, "update", self.step.update_shared)
            self._reconstruct = load(made, "reconstruct", self.step.reconstruct_shared)
            self._padded = self._xp.zeros((lanes, self.step.padded), np.float32)
            if cell.rule == ACCELERATED:
                self._accelerated = Accelerated(device, p, constants, lanes)
        self._stretches: dict[int, Callable[[], None] | None] = {}
        self._panels: Array = None
        self._weights: Array = None

    def load(self, weights: Array) -> None:
        """Load the weights, also in the order in which the drive reads them."""
        panels = weights.swapaxes(1, 2)
        if self._panels is None:
            self._panels, self._weights = self._xp.ascontiguousarray(panels), weights
        self._panels[...] = panels

    def run(
        self,
        image: Array,
        recon: Array,
        error: Array,
        units: Units,
        rates: Rates,
        steps: int,
        sums: Array | None = None,
    ) -> None:
        """Make `steps` steps of the units, each of whose arrays has the same number of elements.

        A rule that keeps nothing of the step before never reads or writes `units.before`, of any size. The
        arrays but `sums` must be the same ones in each call, as a captured graph keeps their addresses.
        `sums`, only for the display kernel, receive sum error^2, sum |A| and active units after each step.
        """
        if steps == 0:
            return
        if self.display is not None:
            state, watched = (image, recon, error, units.V, units.A, units.before), sums is not None
            self._display(
                (self.lanes,),
                (self.display.threads,),
                (
                    *(*state, self._panels, self._jump(self._panels), *rates, self._order),
                    *(np.int32(steps), sums if watched else self._nothing, np.int32(watched)),
                    *(self.numbers.cells, self.numbers.moves),
                ),
                shared_mem=self.display.shared,
            )
            return

        def stretch() -> None:
            for _ in range(steps):
                self._one(image, recon, error, units, rates)

        if (
            steps not in self._stretches
        ):  # run once without capture, so that no module is loaded during capture
            self._stretches[steps] = None
            stretch()
            return
        graph = self._stretches[steps]
        if graph is None:
            graph = self._stretches[steps] = self.device.capture(stretch)
        graph()

    def sums(self, steps: int) -> Array:
        """Return an array for the sums of `steps` steps, `[steps, lanes, 3]`."""
        return self._xp.empty((steps, self.lanes, 3), np.float64)

    def _one(self, image: Array, recon: Array, error: Array, units: Units, rates: Rates) -> None:
        cut, lanes, block = self.step, self.lanes, (256,)
        assert cut is not None
        A, V, before = units
        numbers = self.numbers
        differing = (numbers.cells, numbers.moves)
        self._residual((cut.residual, lanes), block, (image, recon, error, self._padded, *differing))
        self._update(
            (*cut.update, lanes),
            block,
            (
                *(self._padded, V, A, before if self._accelerated is None else self._accelerated.drive),
                *(self._panels, self._jump(self._panels), *rates, *differing),
            ),
            shared_mem=cut.update_shared,
        )
        if self._accelerated is not None:
            self._accelerated.run(units, rates, numbers)
        self._reconstruct(
            (cut.reconstruct, lanes),
            block,
            (A, recon, self._weights, self._jump(self._weights), numbers.moves),
            shared_mem=cut.reconstruct_shared,
        )

    def _jump(self, weights: Array) -> np.int32:
        """Return the stride between the weights of two slices: 0 if all share them."""
        return np.int32(0 if len(weights) == 1 else weights[0].size)
