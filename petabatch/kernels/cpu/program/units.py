"""Updates of layers unit by unit, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import add, copy
from petabatch.kernels.cpu.elementary import logistic
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.views import depth_of, doubles, floats
from petabatch.kernels.cpu.rules import choose, transfer, update
from petabatch.kernels.operations.updates import Polyline, UpdateUnits
from petabatch.kernels.rules import GRADIENT, Cell
from petabatch.kernels.transfer import polyline_of

CHUNK = 1024
"""Units that are worked through together, in the first cache."""
_NAMES = (
    "linear",
    "transfer",
    "leaky_integrator",
    "logistic",
    "line",
    "mask",
    "product",
    "quotient",
    "squared",
)
RULES = dict(zip(_NAMES, range(100, 109), strict=True))
"""Rules of layers without a membrane, by name as a layer's `compiled_rule` gives it; lower numbers are those
of `rules.py`."""
LINEAR, TRANSFER, LEAKY_INTEGRATOR, LOGISTIC, LINE, MASK, PRODUCT, QUOTIENT, SQUARED = RULES.values()
_ONE, _ZERO = np.float32(1), np.float32(0)


@njit(nogil=True, error_model="numpy")
def rates(c: Cell, scale: float, like: Any) -> tuple[Any, Any]:
    """Return (e, 1 - e) of a step of dt times `scale`, of GRADIENT (1, dt / tau), of the type of an array."""
    leap, real = c.dt * scale / c.tau, like.dtype.type
    if c.rule == GRADIENT:
        return real(1), real(leap)
    e = real(math.exp(-leap))
    return e, real(1) - e


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _put(source: Any, factor: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = factor * source[i]


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _add_to(a: Any, b: Any, factor: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = a[i] + factor * b[i]


@njit(nogil=True, error_model="numpy")
def gather(
    arrays: Any, sources: Any, factors: Any, first: int, last: int, target: int, step: int, begin: int,
    end: int, spare: Any, other: Any,
) -> Any:  # fmt: skip
    """Return the sum of units begin .. end of those sources of buffer 0; write that of buffer 1 to `other`.

    The sum is in `spare`, or it is a source itself, where there is one alone, of factor 1: not to be changed.
    But not array `target`, which is written next: a layer may see what it did as long ago as it keeps.
    """
    drive, count, other_empty = spare, 0, True
    for n in range(first, last):
        source = floats(arrays, sources[n, 0], step - sources[n, 1])[begin:end]
        if sources[n, 2] == 1:
            if other_empty:
                _put(source, factors[n], other)
            else:
                add(source, factors[n], other)
            other_empty = False
            continue
        if count == 0 and factors[n] == _ONE and sources[n, 0] != target:
            drive = source
        elif count == 0:
            _put(source, factors[n], spare)
        elif count == 1:
            _add_to(drive, source, factors[n], spare)
            drive = spare
        else:
            add(source, factors[n], spare)
        count += 1
    if count == 0:
        drive[:] = 0
    if other_empty:
        other[:] = 0
    return drive


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _transfer(drive: Any, c: Cell, out: Any) -> None:
    for i in range(out.size):
        out[i] = transfer(drive[i], c.curve)


_on_polyline = njit(nogil=True, error_model="numpy")(polyline_of(choose))


@operation(Polyline)
def _polyline(op: Any) -> None:
    corners, below = op.corners.reshape((op.corners.size // 3, 3)), op.out.dtype.type(op.below)
    for i in range(op.out.size):
        op.out[i] = _on_polyline(op.source[i], corners, below)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _integrate(drive: Any, factor: Any, V: Any, A: Any) -> None:
    for i in range(A.size):
        u = factor * V[i] + drive[i]
        V[i] = u
        A[i] = u


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _logistic(drive: Any, centre: Any, slope: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = logistic((drive[i] - centre) * slope)


@njit(nogil=True, fastmath=FAST, error_model="numpy")
def _line(drive: Any, centre: Any, slope: Any, out: Any) -> None:
    for i in range(out.size):
        a = out.dtype.type(0.5) + (drive[i] - centre) * slope * out.dtype.type(0.25)
        a = _ZERO if a < 0 else a
        out[i] = _ONE if a > 1 else a


@njit(nogil=True, error_model="numpy")
def _mask(drive: Any, mask: Any, inverted: bool, out: Any) -> None:
    for i in range(out.size):
        # A product, as an infinity that is blocked is no longer a number in the reference either.
        out[i] = drive[i] * (_ONE if (mask[i] != 0) != inverted else _ZERO)


@njit(nogil=True, error_model="numpy")
def _product(a: Any, b: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = a[i] * b[i]


@njit(nogil=True, error_model="numpy")
def _quotient(a: Any, b: Any, out: Any) -> None:
    for i in range(out.size):
        out[i] = a[i] / b[i]


@njit(nogil=True, error_model="numpy")
def apply(
    c: Cell, line: Any, e: Any, gain: Any, drive: Any, other: Any, activity: Any, V: Any, before: Any
) -> None:  # fmt: skip
    """Make the update of some units from their input; `activity` holds that of the step before.

    `line` is (centre, slope) of a rule without transfer function.
    """
    if c.rule < LINEAR:
        update(drive, activity, V, before, e, gain, c)
    elif c.rule == LINEAR:
        _put(drive, e, activity)
    elif c.rule == TRANSFER:
        _transfer(drive, c, activity)
    elif c.rule == LEAKY_INTEGRATOR:
        _integrate(drive, e, V, activity)
    elif c.rule == LOGISTIC:
        _logistic(drive, line[0], line[1], activity)
    elif c.rule == LINE:
        _line(drive, line[0], line[1], activity)
    elif c.rule == MASK:
        _mask(drive, other, line[1] < 0, activity)
    elif c.rule == PRODUCT:
        _product(drive, other, activity)
    elif c.rule == QUOTIENT:
        _quotient(drive, other, activity)
    elif c.rule == SQUARED:
        _product(drive, drive, activity)
    else:  # a rule without a branch ends the run: its layer is no longer finite
        activity[:] = np.nan


@operation(UpdateUnits, stored=True)
def _update_units(
    op: Any, cell: Cell, centre: float, slope: float, sources: Any, factors: Any, arrays: Any, step: int,
    begin: int, end: int,
) -> None:  # fmt: skip
    """Make the chunks that are asked for."""
    activity, previous = floats(arrays, op.out, step), floats(arrays, op.out, step - 1)
    V, before = floats(arrays, op.potential, 0), floats(arrays, op.before, 0)
    buffers, (first, last), parts = floats(arrays, op.buffers, 0), op.sources, (begin, end)
    real = activity.dtype.type
    line, e, gain = (real(centre), real(slope)), cell.e, cell.gain
    if op.scale > 0:
        e, gain = rates(cell, doubles(arrays, op.scale)[0], activity)
    carried = cell.rule < LINEAR and depth_of(arrays, op.out) > 1
    for chunk in range(parts[0], min(parts[1], -(-activity.size // CHUNK))):
        begin = chunk * CHUNK
        end = min(begin + CHUNK, activity.size)
        spare, other = buffers[: end - begin], buffers[CHUNK : CHUNK + end - begin]
        drive = gather(arrays, sources, factors, first, last, op.out, step, begin, end, spare, other)
        if carried:
            copy(previous[begin:end], activity[begin:end])
        apply(cell, line, e, gain, drive, other, activity[begin:end], V[begin:end], before[begin:end])
