"""Delivery by single synapses, compiled: the work is that of the active units, listed once in a step."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.records import LIST, list_in, operation
from petabatch.kernels.cpu.program.table import CODE
from petabatch.kernels.cpu.program.transport import list_units
from petabatch.kernels.cpu.program.views import (
    depth_of,
    floats,
    floats_of_all_steps,
    ints,
    longs,
    of_slice,
    size_of,
    slices_in,
)
from petabatch.kernels.cpu.rules import ZERO
from petabatch.kernels.operations.synapses import List, Scatter


@operation(List, stored=True)
def _list(op: Any, arrays: Any, step: int) -> None:
    """List the active units of a layer after the last list, or from the start of the room."""
    layer, units, ends = floats(arrays, op.source[0], step), ints(arrays, op.out), ints(arrays, op.ends)
    begin = ends[0]
    if begin + layer.size > units.size:
        begin = 0
    end = list_units(layer, 0, layer.size, begin, units, floats(arrays, op.values, 0))
    place = 1 + 2 * (step % (ends.size // 2))
    ends[0], ends[place], ends[place + 1] = end, begin, end


@operation(List, together=True)
def _list_together(op: Any) -> None:
    """Do nothing: synapses that are summed up in several slices at once read no list."""


@njit(nogil=True, error_model="numpy")
def list_before(rows: Any, arrays: Any, step: int) -> None:
    """Make the lists of the steps up to `step` whose activities are kept, in all slices."""
    for w in range(slices_in(arrays)):
        one = of_slice(arrays, w)
        for row in rows:
            if row[CODE] == LIST:
                op = list_in(row)
                ints(one, op.ends)[:] = 0
                for before in range(max(0, step + 1 - depth_of(one, op.source[0])), step + 1):
                    _list(op, one, before)


@operation(Scatter, stored=True)
def _scatter(op: Any, arrays: Any, step: int) -> None:
    """Add up the synapses of the active units, in the order of the units."""
    starts, targets = longs(arrays, op.starts), ints(arrays, op.targets)
    weights, ends = floats(arrays, op.weights, 0), ints(arrays, op.ends)
    units, values = ints(arrays, op.active), floats(arrays, op.values, 0)
    place = 1 + 2 * ((step - op.source[1]) % (ends.size // 2))
    size, length, delays = size_of(arrays, op.out), depth_of(arrays, op.out), ints(arrays, op.delays)
    out = floats_of_all_steps(arrays, op.out)
    pre, post, now = starts.size - 1, size // op.positions, step % length
    out[(step - 1) % length * size : ((step - 1) % length + 1) * size] = ZERO  # it has arrived
    for n in range(ends[place], ends[place + 1]):
        position, unit = divmod(units[n], pre)
        a, begin = values[n], position * post
        # Unsigned: an index that may be negative costs more than the sum.
        first, last = np.uint64(starts[unit]), np.uint64(starts[unit + 1])
        if length == 1:
            there = out[begin : begin + post]
            for k in range(first, last):
                there[np.uint32(targets[k])] += a * weights[k]
            continue
        stride, end, here = np.uint64(size), np.uint64(size * length), np.uint64(now * size + begin)
        for k in range(first, last):
            at = here + np.uint32(delays[k]) * stride + np.uint32(targets[k])
            if at >= end:
                at -= end
            out[at] += a * weights[k]
