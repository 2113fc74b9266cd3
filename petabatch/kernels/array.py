"""The patch operators in plain array code, for numpy or cupy: the readable reference of every other kernel.

Shapes: L lanes, G kernel groups, M positions that share a kernel (G * M positions in all), K weights in a
patch. One code path serves all weight modes, since they differ in leading lengths only:

    extra_shared  patches [1, 1, nf, K]     one kernel for all slices
    shared        patches [L, 1, nf, K]     one kernel per slice
    non_shared    patches [L, G, nf, K]     one kernel per position of each slice
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from petabatch.geometry import Axis, Link, Patches, pre_perspective
from petabatch.kernels.synapses import SortedSynapses
from petabatch.variable import Array, Border


class Padded(NamedTuple):
    """A layer `[L, ny, nx, nf]` in the middle of its padding, which kernels make where they read it."""

    layer: Array
    rows: tuple[int, int]
    """Before and after; of `columns`, too."""
    columns: tuple[int, int]
    border: Border


@dataclass(frozen=True)
class ArrayKernels:
    """Patch operators on arrays of module `xp`."""

    xp: Any
    product: Callable[[Array, Array], Array] | None = None
    """The product of matrices where it is not `xp.matmul`."""

    def extend(self, layer: Array, y: tuple[int, int], x: tuple[int, int], border: Border) -> Array:
        """Return `[L, ny, nx, nf]` grown by `y` rows and `x` columns (before, after) by the border rule.

        Mirror repeats the edge unit (`BoundaryConditions.cpp:62-355`). An array holds the layer in its middle
        and what is around it.
        """
        if not any((*y, *x)):
            return layer
        if not isinstance(border, (str, float, int)):
            (_, rows, columns, _), (_, ny, nx, _) = border.shape, layer.shape
            top, left = (rows - ny) // 2, (columns - nx) // 2
            return border[:, top - y[0] : top + ny + y[1], left - x[0] : left + nx + x[1]]
        if border == "mirror":
            return self.xp.pad(layer, ((0, 0), y, x, (0, 0)), mode="symmetric")
        lanes, ny, nx, nf = layer.shape
        beyond = 0.0 if border == "zero" else float(border)
        out = self.xp.full((lanes, y[0] + ny + y[1], x[0] + nx + x[1], nf), beyond, layer.dtype)
        out[:, y[0] : y[0] + ny, x[0] : x[0] + nx] = layer
        return out

    def windows(self, fine: Array, p: Patches, border: Border) -> Array:
        """Return the patches of a fine layer `[L, NY, NX, C]` as `[L, G, M, K]`."""
        padded = self.extend(fine, (p.y.before, p.y.after), (p.x.before, p.x.after), border)
        # Not sliding_window_view: CuPy's copies numbers from the host, which cannot be captured.
        lane, row, column, channel = padded.strides
        view = self.xp.lib.stride_tricks.as_strided(
            padded[:, p.y.offset :, p.x.offset :],
            (len(fine), p.y.units, p.x.units, p.y.size, p.x.size, p.channels),
            (lane, p.y.stride * row, p.x.stride * column, row, column, channel),
        )
        return view.reshape(len(fine), p.groups, p.members, p.length)

    def coarse(self, layer: Array, p: Patches, border: Border) -> Array:
        """Return a coarse layer `[L, ny, nx, nf]` with its margins as `[L, G, M, nf]`."""
        extended = self.extend(layer, (p.y.margin, p.y.margin), (p.x.margin, p.x.margin), border)
        return extended.reshape(len(layer), p.groups, p.members, p.features)

    def synapses(self, arrays: Mapping[str, Array], units: int, delayed: bool) -> Mapping[str, Any]:
        """Return what `scatter` needs of synapses onto `units` post units; on a GPU, sorted by target.

        Where they are `delayed`, sorted by the step in which they deliver before.
        """
        if self.xp is np:
            return arrays
        delays = arrays["delays"] if delayed else None
        places = units * (arrays["pending"].shape[1] if delayed else 1)
        return {**arrays, "sorted": SortedSynapses.of(self.xp, arrays, delays, units, places)}

    def scatter(
        self, layer: Array, synapses: Mapping[str, Any], positions: int, pre: int, shape: tuple[int, ...]
    ) -> Array:
        """Return what single synapses, as `synapses` gives them, carry from a layer, `[L, *shape]`.

        At each of the positions are `pre` units of the layer and the same synapses. With a `step`, what is
        delayed is added to what is pending.
        """
        units = layer.reshape(len(layer), positions, pre)
        if self.xp is np:
            return self._scatter_active(units, synapses, shape)
        sums = synapses["sorted"].carry(self.xp, units, synapses["weights"])
        if "step" not in synapses:
            return sums.reshape(len(sums), *shape)
        step, pending = synapses["step"], synapses["pending"]
        length, now = pending.shape[1], step % pending.shape[1]
        pending[:, (step - 1) % length] = 0
        arriving = sums.reshape(len(sums), positions, length, -1).swapaxes(1, 2)
        arriving = arriving.reshape(len(sums), length, *shape)
        pending[:, now:] += arriving[:, : length - now]
        pending[:, :now] += arriving[:, length - now :]
        return pending[:, now]

    def _scatter_active(self, units: Array, synapses: Mapping[str, Any], shape: tuple[int, ...]) -> Array:
        """Return the same of units `[L, positions, pre]`, from the synapses of active units alone."""
        starts, targets, weights = (synapses[name] for name in ("starts", "targets", "weights"))
        step, pending = synapses.get("step", 0), np.zeros((len(units), 1, *shape), units.dtype)
        if "step" in synapses:
            pending = synapses["pending"]
        length = pending.shape[1]
        pending[:, (step - 1) % length] = 0
        there = pending.reshape(*pending.shape[:2], units.shape[1], -1)
        for lane, place in zip(*np.nonzero(units.any(axis=2)), strict=True):
            active = np.flatnonzero(units[lane, place])
            own = lane % len(starts)
            counts = starts[own][active + 1] - starts[own][active]
            ends = np.cumsum(counts)
            found = np.arange(ends[-1]) + np.repeat(starts[own][active] - ends + counts, counts)
            carried = np.repeat(units[lane, place, active], counts) * weights[lane % len(weights), found]
            when = (step + synapses["delays"][own][found]) % length if length > 1 else 0
            np.add.at(there[lane, :, place], (when, targets[own][found]), carried)
        arrived: Array = pending[:, step % length]
        return arrived

    def project(self, fine: Array, patches: Array, p: Patches, border: Border = "zero") -> Array:
        """Return each coarse unit's scalar product with its patch of the fine layer, `[L, ny, nx, nf]`."""
        out = self.dots(self.windows(fine, p, border), patches)
        out = out.reshape(-1, p.y.units, p.x.units, p.features)
        return out[:, p.y.margin : p.y.units - p.y.margin, p.x.margin : p.x.units - p.x.margin]

    def synthesize(self, coarse: Array, patches: Array, p: Patches, border: Border = "zero") -> Array:
        """Return the sum of all patches weighted by the coarse layer, `[L, NY, NX, C]`; cut at the edge."""
        columns = self.mixtures(self.coarse(coarse, p, border), patches)
        columns = columns.reshape(-1, p.y.units, p.x.units, p.y.size, p.x.size, p.channels)
        return self.overlap(columns, p)

    def overlap(self, columns: Array, p: Patches) -> Array:
        """Return the sum of patches `[L, units y, units x, rows, columns, C]` in place, cut at the edge."""
        # A patch is cut into blocks of a stride. The same block of all patches is added at once: no two meet.
        (ny, sy), (nx, sx) = ((axis.size, axis.stride) for axis in (p.y, p.x))
        tall, wide = (
            math.ceil(max(axis.units * axis.stride + axis.size, axis.padded - axis.offset) / axis.stride)
            for axis in (p.y, p.x)
        )
        blocks = self.xp.zeros((len(columns), tall, sy, wide, sx, p.channels), columns.dtype)
        patches = columns.transpose(0, 1, 3, 2, 4, 5)
        for y, dy in enumerate(range(0, ny, sy)):
            for x, dx in enumerate(range(0, nx, sx)):
                block = patches[:, :, dy : dy + sy, :, dx : dx + sx]
                place = blocks[:, y : y + p.y.units, :, x : x + p.x.units]
                place[:, :, : block.shape[2], :, : block.shape[4]] += block
        padded = blocks.reshape(len(columns), tall * sy, wide * sx, p.channels)
        padded = self.extend(padded, (p.y.offset, 0), (p.x.offset, 0), "zero")
        return padded[:, p.y.before : p.y.before + p.y.fine, p.x.before : p.x.before + p.x.fine]

    def pool(self, fine: Array, p: Patches, border: Border, largest: bool) -> Array:
        """Return the sum over each unit's window, or the largest in it, `[L, ny, nx, nf]`."""
        windows = self.windows(fine, p, border)
        windows = windows.reshape(len(fine), p.y.units, p.x.units, -1, p.channels)
        found: Array = windows.max(axis=3) if largest else windows.sum(axis=3)
        return found

    def spread(self, coarse: Array, p: Patches, border: Border, largest: bool) -> Array:
        """Return the sum of the units whose windows cover a place, or the largest of them; 0 without any."""
        xp = self.xp
        units = self.coarse(coarse, p, border).reshape(len(coarse), p.y.units, p.x.units, p.features)
        rows = max(p.y.padded, p.y.offset + p.y.size + p.y.stride * p.y.units)
        cols = max(p.x.padded, p.x.offset + p.x.size + p.x.stride * p.x.units)
        out = xp.full((len(coarse), rows, cols, p.features), -xp.inf if largest else 0.0, coarse.dtype)
        for y in range(p.y.offset, p.y.offset + p.y.size):
            for x in range(p.x.offset, p.x.offset + p.x.size):
                target = out[
                    :,
                    y : y + p.y.stride * p.y.units : p.y.stride,
                    x : x + p.x.stride * p.x.units : p.x.stride,
                ]
                target[...] = xp.maximum(target, units) if largest else target + units
        out = out[:, p.y.before : p.y.before + p.y.fine, p.x.before : p.x.before + p.x.fine]
        found: Array = xp.where(out == -xp.inf, 0, out) if largest else out
        return found

    def dots(self, windows: Array, patches: Array) -> Array:
        """Return the scalar product of each window `[L, G, M, K]` and patch, `[L, G, M, nf]`."""
        return self.multiply(windows, patches.swapaxes(-1, -2))

    def mixtures(self, units: Array, patches: Array) -> Array:
        """Return the patches weighted by each position's units `[L, G, M, nf]`, `[L, G, M, K]`."""
        return self.multiply(units, patches)

    def multiply(self, a: Array, b: Array) -> Array:
        """Return the product of matrices; leading axes are broadcast."""
        made: Array = (self.product or self.xp.matmul)(a, b)
        return made

    def outer(
        self,
        coarse: Array,
        fine: Array,
        p: Patches,
        coarse_border: Border = "zero",
        fine_border: Border = "zero",
    ) -> Array:
        """Return the Hebbian product: coarse unit times fine patch summed over positions, `[L, G, nf, K]`."""
        units = self.coarse(coarse, p, coarse_border)
        return self.multiply(units.swapaxes(-1, -2), self.windows(fine, p, fine_border))

    def to_patches(self, weights: Array, link: Link) -> Array:
        """Return weights `[Lw, ky, kx, nf_pre, nyp, nxp, nf_post]` as coarse patches `[Lw, G, nf, K]`.

        A view where the pre layer is the coarse one; otherwise a copy, to be made again when weights change.
        """
        p = link.patches
        if link.scatter:
            return weights.reshape(len(weights), p.groups, p.features, p.length)
        (ky, iy), (kx, ix) = self._fine_index(p.y, p.shared), self._fine_index(p.x, p.shared)
        # Axes of the gather: unit y, unit x, row in patch, column in patch.
        picked = self._with_edge(weights, p)[
            :,
            ky[:, None, :, None],
            kx[None, :, None, :],
            :,
            iy[None, None, :, None],
            ix[None, None, None, :],
            :,
        ]
        # numpy puts the gathered axes first: [y, x, py, px, Lw, nf_pre, nf_post]
        picked = picked.transpose(4, 0, 1, 6, 2, 3, 5)
        return self.xp.ascontiguousarray(picked).reshape(len(weights), p.groups, p.features, p.length)

    def from_patches(self, patches: Array, link: Link, shape: tuple[int, ...]) -> Array:
        """Return the inverse of `to_patches`: `[Lw, *shape]`, where weights that reach no unit are zero."""
        p = link.patches
        if link.scatter:
            return patches.reshape(len(patches), *shape)
        (ky, iy), (kx, ix) = self._fine_index(p.y, p.shared), self._fine_index(p.x, p.shared)
        units = (1, 1) if p.shared else (p.y.coarse, p.x.coarse)
        spread = patches.reshape(len(patches), *units, p.features, p.y.size, p.x.size, p.channels)
        weights = self.xp.zeros(
            (len(patches), *(n + (not p.shared) for n in shape[:2]), *shape[2:]), patches.dtype
        )
        weights[
            :,
            ky[:, None, :, None],
            kx[None, :, None, :],
            :,
            iy[None, None, :, None],
            ix[None, None, None, :],
            :,
        ] = spread.transpose(1, 2, 4, 5, 0, 6, 3)
        return weights if p.shared else weights[:, :-1, :-1]

    def _fine_index(self, axis: Axis, shared: bool) -> tuple[Array, Array]:
        """Return the kernel (`[units, size]`) and the item (`[size]`) of each index of each unit's patch."""
        kernel, item = pre_perspective(axis)
        if shared:
            return self.xp.asarray(kernel[None]), self.xp.asarray(item)
        fine = self.xp.asarray([[axis.start(j) + q for q in range(axis.size)] for j in range(axis.coarse)])
        # Fine units that do not exist point at an extra kernel, always zero.
        return self.xp.where((fine >= 0) & (fine < axis.fine), fine, axis.fine), self.xp.asarray(item)

    def _with_edge(self, weights: Array, p: Patches) -> Array:
        if p.shared:
            return weights
        return self.xp.pad(weights, ((0, 0), (0, 1), (0, 1), *(((0, 0),) * 4)))
