"""Updates of layers unit by unit, compiled."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from petabatch.kernels.cpu.arrays import add, copy
from petabatch.kernels.cpu.elementary.exponentials import logistic
from petabatch.kernels.cpu.jit import FAST, njit
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.views import DEPTH, doubles, floats
from petabatch.kernels.cpu.rules import transfer, update
from petabatch.kernels.operations.updates import Polyline, UpdateUnits
from petabatch.kernels.rules import GRADIENT, Cell

CHUNK = 1024
"""Units that are worked through together, in the first cache."""
(
    LINEAR, TRANSFER, LEAKY_INTEGRATOR, LOGISTIC, LINE, MASK, PRODUCT, QUOTIENT, SQUARED,
) = range(100, 109)  # fmt: skip
"""Rules of layers without a membrane; lower numbers are those of `rules.py`."""
RULES = {
    "linear": LINEAR,
    "transfer": TRANSFER,
    "leaky_integrator": LEAKY_INTEGRATOR,
    "logistic": LOGISTIC,
    "line": LINE,
    "mask": MASK,
    "product": PRODUCT,
    "quotient": QUOTIENT,
    "squared": SQUARED,
}
"""These rules by name, as a layer's `compiled_rule` gives it."""
(
    RULE,
    SELF_INTERACTION,
    INERTIA,
    THRESHOLD,
    TOP,
    SHIFT,
    SLOPE,
    MINIMUM,
    MAXIMUM,
    SIGNED,
    IS_LINE,
    FACTOR,
    GAIN,
    DT,
    TAU,
) = range(15)
"""Numbers of an `UpdateUnits`: those of a `Cell`; e and 1 - e; what these follow from under a time scale.
Rules without a transfer function use FACTOR (factor on what was before, or on the input), SHIFT (centre), TOP
(width) and SIGNED (inverted)."""
_ONE = np.float32(1)


@njit(nogil=True, error_model="numpy")
def cell_of(numbers: Any) -> Cell:
    """Return the numbers of a rule and its transfer function."""
    f = np.float32
    return Cell(
        int(numbers[RULE]), f(numbers[SELF_INTERACTION]), f(numbers[INERTIA]), f(numbers[THRESHOLD]),
        f(numbers[TOP]),
        f(numbers[SHIFT]), f(numbers[SLOPE]), f(numbers[MINIMUM]), f(numbers[MAXIMUM]),
        numbers[SIGNED] != 0, numbers[IS_LINE] != 0,
    )  # fmt: skip


@njit(nogil=True, error_model="numpy")
def rates(numbers: Any, scale: float) -> tuple[Any, Any]:
    """Return (e, 1 - e) of a step of dt times `scale`, of GRADIENT (1, dt / tau)."""
    leap = numbers[DT] * scale / numbers[TAU]
    if int(numbers[RULE]) == GRADIENT:
        return np.float32(1), np.float32(leap)
    e = np.float32(math.exp(-leap))
    return e, np.float32(1) - e


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
        out[i] = transfer(drive[i], c)


@operation(Polyline)
def _polyline(op: Any) -> None:
    potential, vertices, below, out = op.source, op.vertices, np.float32(op.below), op.out
    last = vertices.size - 3
    for i in range(out.size):
        u = potential[i]
        v, a, slope = vertices[0], vertices[1], below
        n = 0
        while n <= last and u >= vertices[n]:
            v, a, slope = vertices[n], vertices[n + 1], vertices[n + 2]
            n += 3
        out[i] = a + slope * (u - v)


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
        a = np.float32(0.5) + (drive[i] - centre) * slope * np.float32(0.25)
        a = np.float32(0) if a < 0 else a
        out[i] = _ONE if a > 1 else a


@njit(nogil=True, error_model="numpy")
def _mask(drive: Any, mask: Any, inverted: bool, out: Any) -> None:
    for i in range(out.size):
        # A product, as an infinity that is blocked is no longer a number in the reference either.
        out[i] = drive[i] * (_ONE if (mask[i] != 0) != inverted else np.float32(0))


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
    numbers: Any, factor: Any, gain: Any, drive: Any, other: Any, activity: Any, V: Any, before: Any
) -> None:  # fmt: skip
    """Make the update of some units from their input; `activity` holds that of the step before."""
    rule = int(numbers[RULE])
    if rule < LINEAR:
        update(drive, activity, V, before, factor, gain, cell_of(numbers))
    elif rule == LINEAR:
        _put(drive, factor, activity)
    elif rule == TRANSFER:
        _transfer(drive, cell_of(numbers), activity)
    elif rule == LEAKY_INTEGRATOR:
        _integrate(drive, factor, V, activity)
    elif rule in (LOGISTIC, LINE):
        centre, slope = np.float32(numbers[SHIFT]), _ONE / np.float32(numbers[TOP])
        slope = -slope if numbers[SIGNED] != 0 else slope  # 1 - A at x is A at -x
        if rule == LOGISTIC:
            _logistic(drive, centre, slope, activity)
        else:
            _line(drive, centre, slope, activity)
    elif rule == MASK:
        _mask(drive, other, numbers[SIGNED] != 0, activity)
    elif rule == PRODUCT:
        _product(drive, other, activity)
    elif rule == QUOTIENT:
        _quotient(drive, other, activity)
    elif rule == SQUARED:
        _product(drive, drive, activity)
    else:  # a rule without a branch ends the run: its layer is no longer finite
        activity[:] = np.nan


@operation(UpdateUnits, stored=True)
def _update_units(
    op: Any, own: Any, sources: Any, factors: Any, arrays: Any, step: int, begin: int, end: int
) -> None:
    """Make the chunks that are asked for."""
    activity, previous = floats(arrays, op.out, step), floats(arrays, op.out, step - 1)
    V, before = floats(arrays, op.potential, 0), floats(arrays, op.before, 0)
    buffers, (first, last), parts = floats(arrays, op.buffers, 0), op.sources, (begin, end)
    factor, gain = np.float32(own[FACTOR]), np.float32(own[GAIN])
    if op.scale > 0:
        factor, gain = rates(own, doubles(arrays, op.scale)[0])
    carried = own[RULE] < LINEAR and arrays[op.out, DEPTH] > 1
    for chunk in range(parts[0], min(parts[1], -(-activity.size // CHUNK))):
        begin = chunk * CHUNK
        end = min(begin + CHUNK, activity.size)
        spare, other = buffers[: end - begin], buffers[CHUNK : CHUNK + end - begin]
        drive = gather(arrays, sources, factors, first, last, op.out, step, begin, end, spare, other)
        if carried:
            copy(previous[begin:end], activity[begin:end])
        apply(own, factor, gain, drive, other, activity[begin:end], V[begin:end], before[begin:end])
