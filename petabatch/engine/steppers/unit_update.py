"""The input and the update of a layer as a kernel on a GPU: of all units in all lanes of a window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from petabatch.engine.deliveries import Deliveries
from petabatch.engine.steppers.joined import Part
from petabatch.kernels.cuda.device import Device
from petabatch.kernels.cuda.units.kernel import UnitKernel
from petabatch.kernels.cuda.units.rows import row_body
from petabatch.kernels.cuda.units.source import Body, Term
from petabatch.kernels.cuda.units.traced import Untraced
from petabatch.network.gpu_rows import row_of, traced_update, translated
from petabatch.spec.parts import StepContext
from petabatch.spec.rows import drawn_together
from petabatch.variable import Array


class UnitUpdate:
    """A kernel that sums up the input of a layer and makes its update, with the numbers of each part."""

    def __init__(
        self,
        device: Device,
        parts: Sequence[Part],
        deliveries: Deliveries,
        name: str,
        body: Body,
        numbers: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """`numbers` are the constants of the `body` and its parameters, `[slices, numbers]`."""
        self._parts, self._xp, self._arrays = parts, device.xp, body.arrays
        layer, edges = parts[0].layer, deliveries.graph.edges[name]
        found = [deliveries.columns(edge) or (None, deliveries.arrival(edge)) for edge in edges]
        self._incoming = [arrived for _, arrived in found]
        factors = [None if _is_one(edge.factor) else edge.factor for edge in edges]
        terms = [
            Term(edge.buffer, factor is not None, p)
            for edge, factor, (p, _) in zip(edges, factors, found, strict=True)
        ]
        scaled = [factor for factor in factors if factor is not None]
        own, parameters = numbers
        self._dtype = deliveries.histories[name].at(0).dtype
        constants = self._xp.empty((len(own), len(scaled) + own.shape[1]), self._dtype)
        for place, factor in enumerate(scaled):
            constants[:, place] = factor if isinstance(factor, float | int) else factor.reshape(-1)
        if own.size:
            constants[:, len(scaled) :] = self._xp.asarray(own.astype(self._dtype))
        self._kernel = UnitKernel(device, body, terms, layer.buffers, constants, parameters)

    def arrived(self, step: int) -> list[Array]:
        """Return what each connection delivers, before any factor."""
        return [arrival(step) for arrival in self._incoming]

    def __call__(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        arrived: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        """Make the update of the layer in all slices, from what has `arrived`."""
        draws = self._parts[0].layer.draws
        arrays = [self._drawn(ctx, name) if name in draws else state[name] for name in self._arrays]
        self._kernel(arrived, arrays, previous, activity, ctx.step)

    def _drawn(self, ctx: StepContext, name: str) -> Array:
        found = [
            drawn_together(one.layer, replace(one.ctx, step=ctx.step), name)
            for one in self._parts
            if one.ctx is not None
        ]
        return self._xp.concatenate(found).astype(self._dtype)


class InputSum(UnitUpdate):
    """A kernel that sums up the input of a layer, where `update` is called on arrays."""

    def __init__(self, device: Device, parts: Sequence[Part], deliveries: Deliveries, name: str) -> None:
        layer, like = parts[0].layer, deliveries.histories[name].at(0)
        others = range(1, layer.buffers)
        # The first input takes the place of the activity.
        lines = ["A = d0;", *(f"a{number - 1} = d{number};" for number in others)]
        body = Body("".join(f"    {line}\n" for line in lines), tuple(map(str, others)))
        nothing = np.empty((len(like), 0))
        super().__init__(device, parts, deliveries, name, body, (nothing, nothing))
        self._sums = [self._xp.zeros(like.shape, like.dtype) for _ in range(layer.buffers)]

    def drive(self, step: int) -> Sequence[Array]:
        """Return the input of each channel."""
        first, *others = self._sums
        self._kernel(self.arrived(step), others, first, first, step)
        return self._sums


def _is_one(factor: object) -> bool:
    return isinstance(factor, float | int) and factor == 1


def unit_update(
    device: Device, parts: Sequence[Part], deliveries: Deliveries, name: str
) -> UnitUpdate | None:
    """Return the kernel of a layer on a GPU; None where its `update` is called on arrays."""
    dtype = deliveries.histories[name].at(0).dtype.name
    found = _by_row(parts, dtype) or _by_trace(parts, deliveries.histories[name].length, dtype)
    return None if found is None else UnitUpdate(device, parts, deliveries, name, *found)


Found = tuple[Body, tuple[np.ndarray, np.ndarray]]


def _by_row(parts: Sequence[Part], dtype: str) -> Found | None:
    """Return the translation of the row function with its parameters; None where there is none."""
    if translated(parts[0].layer, dtype) is None:
        return None
    rows = [row_of(one.layer) for one in parts]
    assert rows[0] is not None
    parameters = [
        np.tile(row.numbers(one.ctx.dt), (len(one.ctx.slices), 1))
        for one, row in zip(parts, rows, strict=True)
        if row is not None and one.ctx is not None
    ]
    numbers = np.concatenate(parameters)
    return row_body(rows[0].function, rows[0].form, _real(dtype)), (np.empty((len(numbers), 0)), numbers)


def _by_trace(parts: Sequence[Part], length: int, dtype: str) -> Found | None:
    """Return what the `update` for arrays does with a unit; None where that is more than arithmetic."""
    bodies, constants = set(), []
    for one in parts:
        if one.ctx is None:
            return None
        try:
            body, numbers = traced_update(one.layer, one.ctx, length == 1, dtype)
        except Untraced:  # `check --explain` prints the reason
            return None
        bodies.add(body)
        constants.append(np.tile(np.array(numbers, float), (len(one.ctx.slices), 1)))
    if len(bodies) > 1:
        return None
    own = np.concatenate(constants)
    return bodies.pop(), (own, np.empty((len(own), 0)))


def _real(dtype: str) -> str:
    return "float" if dtype == "float32" else "double"
