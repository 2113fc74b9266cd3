"""Updates of a whole slice at a time, compiled: rescaling, FISTA, adaptive time scales, sums."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from petabatch.kernels import fista as steps
from petabatch.kernels import timescale
from petabatch.kernels.cpu.arrays import bytes_of, copy
from petabatch.kernels.cpu.elementary import exp
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.messages import over_tiles
from petabatch.kernels.cpu.program.records import operation
from petabatch.kernels.cpu.program.units import CHUNK
from petabatch.kernels.cpu.program.views import floats
from petabatch.kernels.cpu.rules import accelerate, compare
from petabatch.kernels.cpu.sums import wide_sizes, wide_squares
from petabatch.kernels.operations.updates import Accelerate, FollowEnergy, Measure, Rescale
from petabatch.rounding import relative

RANGE, STANDARD, LENGTH, SOFTMAX = range(4)
"""Methods of `Rescale`."""
SQUARES, SIZES, COUNT = range(3)
"""Norms: sum of squares, of absolute values, of units that are not 0."""

_ROUNDING, _ROUNDING64 = relative(np.float32), relative(np.float64)
_SINGLE = 4
"""Bytes of a number of float32."""

_compiled = njit(nogil=True, error_model="numpy")
_follow, _step_size = _compiled(timescale.follow), _compiled(steps.step_size)


@operation(Rescale)
def _rescale_all(op: Any) -> None:
    for begin in range(0, op.out.size, op.together):
        part = op.out[begin : begin + op.together]
        rescale(part, op.method, op.low, op.high, op.mean, op.std)


@njit(nogil=True, error_model="numpy")
def rescale(x: Any, method: int, low: float, high: float, mean: float, std: float) -> None:
    """Normalise in place what is normalised together; see `layers/rescale.py`."""
    n, flat, least, most, real = x.size, False, x[0], x[0], x.dtype.type
    rounding = real(_ROUNDING if bytes_of(x) == _SINGLE else _ROUNDING64)
    if method in (RANGE, STANDARD):
        finite = True
        for a in x:
            least, most, finite = min(least, a), max(most, a), finite and np.isfinite(a)
        flat = finite and most - least <= rounding * max(abs(least), abs(most))
    if flat:
        x[:] = real(low if method == RANGE else mean)
    elif method == RANGE:
        for i in range(n):
            x[i] = real(low) + real(high - low) * (x[i] - least) / (most - least)
    elif method == STANDARD:
        total = 0.0
        for a in x:
            total += a
        middle, squares = total / n, 0.0
        for a in x:
            squares += (a - middle) ** 2
        size = math.sqrt(squares / n)
        for i in range(n):
            x[i] = real(mean + std * ((x[i] - middle) / size))
    elif method == LENGTH:
        size = math.sqrt(wide_squares(x))
        size = size if size > 0 else 1.0
        for i in range(n):
            x[i] = real(std * x[i] / size)
    else:
        total = 0.0
        for a in x:
            most = max(most, a)
        for i in range(n):
            x[i] = exp(x[i] - most)
            total += x[i]
        for i in range(n):
            x[i] = real(x[i] / total)


@operation(Accelerate)
def _accelerate(op: Any) -> None:
    """Make one accelerated proximal step, with the sums of all tiles; see `layers/fista.py`."""
    drive, A, A_before, drive_before, link = op.source, op.out, op.before, op.drive_before, op.sums
    previous, step, age, some, more = op.previous, op.step, op.age, op.buffers[:CHUNK], op.buffers[CHUNK:]
    if age[0] == 0:
        A[:] = 0
    elif A.ctypes.data != previous.ctypes.data:
        copy(previous, A)
    moves, turns = compare(drive, A, A_before, drive_before, some, more)
    moves, turns = over_tiles(link, moves, turns)
    step[0], momentum, older = _step_size(step[0], age[0], moves, turns)
    k = A.dtype.type(step[0])
    momentum = A.dtype.type(momentum)
    uphill = accelerate(drive, A, A_before, drive_before, some, momentum, k, op.cell)
    uphill, _ = over_tiles(link, uphill, 0.0)
    age[0] = math.copysign(1.0, older) if uphill > 0 else older


@njit(nogil=True, error_model="numpy")
def norm(x: Any, kind: int) -> Any:
    """Return a norm of an array, summed in float64 in an order that depends on its length alone."""
    if kind == SQUARES:
        return wide_squares(x)
    if kind == SIZES:
        return wide_sizes(x)
    count = 0
    for i in range(x.size):
        count += x[i] != 0
    return float(count)


@operation(Measure)
def _measure(op: Any, sums: Any) -> None:
    sums[op.column] = norm(op.out, op.norm)


@operation(FollowEnergy)
def _follow_energy(op: Any, sources: Any, factors: Any, arrays: Any, step: int, fresh: bool) -> None:
    """Let a time scale follow the energy seen; none is where an image is new."""
    seen = -1.0
    if not fresh:
        seen = 0.0
        for k in range(op.terms[0], op.terms[1]):
            seen += factors[k] * norm(floats(arrays, sources[k, 0], step - 1), sources[k, 2])
    op.out[0], op.ceiling[0] = _follow(op.growth, op.out[0], op.ceiling[0], op.before[0], seen)
    op.before[0] = seen
