"""The sparse-coding loop of a whole lane on a GPU: the `.cu` kernels bound to one geometry."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np

from petabatch.errors import ResourceError
from petabatch.geometry import Patches
from petabatch.kernels.cuda import source
from petabatch.variable import Array

Choice = Literal["auto", "display", "step"]


class Kernel(Protocol):
    """A compiled kernel, as `cupy.RawKernel`."""

    max_dynamic_shared_size_bytes: int

    def __call__(self, grid: Any, block: Any, args: Any, *, shared_mem: int = 0) -> None:
        """Start it on the current stream."""


class Device(Protocol):
    """What the kernels need of a GPU."""

    xp: Any
    """The array module of its arrays: cupy."""
    shared_limit: int
    """Bytes of shared memory one block can have."""

    def compile(self, code: str) -> Callable[[str], Kernel]:
        """Compile a source text; return the function that gives a kernel by its name."""

    def capture(self, work: Callable[[], None]) -> Callable[[], None]:
        """Return what repeats the launches `work` makes, as one CUDA graph where that is possible."""


class LoopKernels:
    """Makes steps of all slices of a lane; arrays are float32 of `device.xp`, C order.

    `weights` `[lanes or 1, nf, K]` are read when `load` is called. Which kernel makes the steps is decided by
    the geometry and the device alone, or pinned by `choice`. Raises ResourceError when it does not fit.
    """

    def __init__(self, device: Device, p: Patches, cell: source.Cell, lanes: int, choice: Choice) -> None:
        self.device, self.patches, self.lanes = device, p, lanes
        self.display = source.display(p, device.shared_limit) if choice != "step" else None
        self.step = source.step(p, device.shared_limit) if self.display is None else None
        if (choice == "display" and self.display is None) or (self.display is None and self.step is None):
            raise ResourceError(
                f"the {'step' if choice == 'auto' else choice} kernel does not fit this network on this GPU\n"
                f"    found:    {p.positions} positions, {p.features} features, {p.length} weights a patch\n"
                f"    expected: what fits {device.shared_limit} bytes of shared memory, and 65536 registers\n"
                '    hint:     run.kernel = "auto" or "array"'
            )
        numbers, self._xp = cell.constants(), device.xp
        self._product: Kernel | None = None
        self._product_source = source.compose("gradient", {**source.geometry(p), **numbers})
        if self.display is not None:
            made = device.compile(source.compose("display", {**self.display.constants, **numbers}))
            self._display = _kernel(made, "display", self.display.shared)
            self._order = self._xp.asarray(self.display.order)
            self._nothing = self._xp.zeros(1)
        else:
            assert self.step is not None
            made = device.compile(source.compose("step", {**self.step.constants, **numbers}))
            self._residual = _kernel(made, "residual", 0)
            self._update = _kernel(made, "update", self.step.update_shared)
            self._reconstruct = _kernel(made, "reconstruct", self.step.reconstruct_shared)
            self._padded = self._xp.zeros((lanes, self.step.padded), np.float32)
        self._stretches: dict[int, Callable[[], None] | None] = {}
        self._panels: Array = None
        self._weights: Array = None

    def load(self, weights: Array) -> None:
        """Take over the weights, also in the order in which the drive reads them."""
        panels = weights.swapaxes(1, 2)
        if self._panels is None:
            self._panels, self._weights = self._xp.ascontiguousarray(panels), weights
        self._panels[...] = panels

    def run(
        self,
        image: Array,
        recon: Array,
        error: Array,
        V: Array,
        A: Array,
        decay: Array,
        rest: Array,
        steps: int,
        sums: Array | None = None,
    ) -> None:
        """Make `steps` steps with V = decay V + rest (drive + own A); `decay`, `rest` `[lanes]`.

        The arrays but `sums` must be the same ones in each call, as a captured graph keeps their addresses.
        `sums`, only for the display kernel, receive sum error^2, sum |A| and active units after each step.
        """
        if steps == 0:
            return
        if self.display is not None:
            state, pace, watched = (image, recon, error, V, A), (decay, rest), sums is not None
            self._display(
                (self.lanes,),
                (self.display.threads,),
                (
                    *(*state, self._panels, self._jump(self._panels), *pace, self._order),
                    *(np.int32(steps), sums if watched else self._nothing, np.int32(watched)),
                ),
                shared_mem=self.display.shared,
            )
            return

        def stretch() -> None:
            for _ in range(steps):
                self._one(image, recon, error, V, A, decay, rest)

        if steps not in self._stretches:  # once plainly, so that nothing is loaded while it is captured
            self._stretches[steps] = None
            stretch()
            return
        graph = self._stretches[steps]
        if graph is None:
            graph = self._stretches[steps] = self.device.capture(stretch)
        graph()

    def sums(self, steps: int) -> Array:
        """Return room for the sums of so many steps."""
        return self._xp.empty((steps, self.lanes, 3), np.float64)

    def gradient(self, A: Array, error: Array, product: Array, counts: Array | None) -> None:
        """Write each slice's Hebbian product and the active units behind each weight, `[lanes, nf, K]`."""
        p, counted = self.patches, counts is not None
        grid = (-(-p.features // 16), -(-p.length // 256), self.lanes)
        args = (A, error, product, counts if counted else product, np.int32(counted))
        if self._product is None:
            self._product = _kernel(self.device.compile(self._product_source), "gradient", 0)
        self._product(grid, (512,), args, shared_mem=4 * 32 * 17)

    def _one(
        self, image: Array, recon: Array, error: Array, V: Array, A: Array, decay: Array, rest: Array
    ) -> None:
        cut, lanes, block = self.step, self.lanes, (256,)
        assert cut is not None
        self._residual((cut.residual, lanes), block, (image, recon, error, self._padded))
        self._update(
            (*cut.update, lanes),
            block,
            (self._padded, V, A, self._panels, self._jump(self._panels), decay, rest),
            shared_mem=cut.update_shared,
        )
        self._reconstruct(
            (cut.reconstruct, lanes),
            block,
            (A, recon, self._weights, self._jump(self._weights)),
            shared_mem=cut.reconstruct_shared,
        )

    def _jump(self, weights: Array) -> np.int32:
        """Return how far apart the weights of two slices are: 0 where all share them."""
        return np.int32(0 if len(weights) == 1 else weights[0].size)


def _kernel(made: Callable[[str], Kernel], name: str, shared: int) -> Kernel:
    kernel = made(name)
    # Setting it also loads the kernel, which must not happen while a graph is captured.
    kernel.max_dynamic_shared_size_bytes = max(shared, 8 * 1024)
    return kernel
