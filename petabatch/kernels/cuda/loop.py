"""The sparse-coding loop of a whole lane on a GPU: the `.cu` kernels bound to one geometry."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from petabatch.errors import ResourceError
from petabatch.geometry import Patches
from petabatch.kernels.cuda import source
from petabatch.kernels.cuda.accelerated import Accelerated
from petabatch.kernels.cuda.cell import cell_constants
from petabatch.kernels.cuda.device import Device, load
from petabatch.kernels.cuda.numbers import SliceNumbers
from petabatch.kernels.rules import ACCELERATED, Cell, Units
from petabatch.variable import Array

Rates = tuple[Array, Array]
"""What differs from slice to slice, `[lanes]`: V = e V + gain drive; of ACCELERATED the step and the age of
the momentum, float64."""


class LoopKernels:
    """Advances all slices of a lane; arrays are float32 of `device.xp`, C order.

    `weights` `[lanes or 1, nf, K]` are read when `load` is called; the error is `factor` * image - recon,
    with one image for all lanes if it is `common`. `kernel` is the one that `network.method` has chosen. With
    `varies`, each slice has a cell and a factor of its own in `numbers`, which may change between runs; those
    that stand still stay as they are.
    Raises ResourceError when the network does not fit the kernel on this GPU.
    """

    def __init__(
        self,
        device: Device,
        p: Patches,
        cell: Cell,
        factor: float,
        lanes: int,
        kernel: source.CudaKernel,
        varies: bool = False,
        common: bool = False,
    ) -> None:
        self.device, self.patches, self.lanes = device, p, lanes
        self.numbers = SliceNumbers(device.xp, lanes, varies)
        self.display = source.display(p, device.limits) if kernel == "display" else None
        self.step = source.step(p) if kernel == "step" else None
        if self.display is None and self.step is None:
            raise ResourceError(f"this network does not fit the {kernel} kernel on this GPU")
        constants, self._xp = cell_constants(cell, factor, varies, common), device.xp
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
            self._residual, self._unfold, self._update, self._fold = (
                load(made, name, 0) for name in ("residual", "unfold", "update", "fold")
            )
            self._patches = self._xp.empty((lanes, p.positions, p.length), np.float32)
            if cell.rule == ACCELERATED:
                self._accelerated = Accelerated(device, p, constants, lanes)
        self._stretches: dict[int, Callable[[], None] | None] = {}
        self._panels: Array = None
        self._weights: Array = None

    def load(self, weights: Array) -> None:
        """Load the weights; the display kernel reads them in another order."""
        self._weights = weights if self._weights is None else self._weights
        if self.display is None:
            return
        panels = weights.swapaxes(1, 2)
        if self._panels is None:
            self._panels = self._xp.empty(panels.shape, panels.dtype)
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
        blocks, lanes, block, product = self.step, self.lanes, (source.THREADS,), self.device.multiply
        assert blocks is not None
        A, V, before = units
        numbers, weights = self.numbers, self._weights
        differing = (numbers.cells, numbers.moves)
        self._residual((blocks.pixels, lanes), block, (image, recon, error, *differing))
        self._unfold((blocks.positions, lanes), block, (error, self._patches, numbers.moves))
        drive = product(self._patches, weights.swapaxes(1, 2))
        if self._accelerated is None:
            self._update((blocks.units, lanes), block, (drive, V, A, before, *rates, *differing))
        else:
            self._accelerated.run(drive, units, rates, numbers)
        patches = product(A.reshape(lanes, -1, self.patches.features), weights)
        self._fold((blocks.pixels, lanes), block, (patches, recon, numbers.moves))

    def _jump(self, weights: Array) -> np.int32:
        """Return the stride between the weights of two slices: 0 if all share them."""
        return np.int32(0 if len(weights) == 1 else weights[0].size)
