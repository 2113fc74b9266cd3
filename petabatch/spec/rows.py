"""Row functions: the update of some units of one slice, which numba compiles."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from petabatch.errors import PartError
from petabatch.kernels.rows import BUFFERS, NUMBERS, Draw, Form
from petabatch.random import stream, stream_pool
from petabatch.spec.part_errors import declared
from petabatch.variable import Array

if TYPE_CHECKING:
    from petabatch.spec.parts import Layer, StepContext


@dataclass(frozen=True)
class RowFunction:
    """The row function of a layer, with what it is called with."""

    function: Callable[..., None]
    form: Form
    values: tuple[float, ...]
    """Of its parameters from the second on; the first is dt, which the run knows."""
    draws: tuple[Draw, ...]
    derived: Callable[[float], Sequence[float]] | None = field(default=None, compare=False)
    """The values of parameters after those, which depend on dt."""

    def numbers(self, dt: float) -> tuple[float, ...]:
        """Return the values of all parameters, for steps of `dt`."""
        return (dt, *self.values, *(() if self.derived is None else self.derived(dt)))


def row_function(layer: Layer) -> RowFunction | None:
    """Return the row function of a layer, None if it has none.

    Raises PartError for a layer whose variables are not arrays of its units.
    """
    function = next((c.__dict__["row"] for c in type(layer).__mro__ if c.__dict__.get("row")), None)
    if function is None:
        return None
    for variable in layer.variables():
        if variable.shape != layer.shape or variable.dtype not in ("float", "float32"):
            where = declared(type(layer).variables)
            raise PartError(
                f"{where}layers of type {layer.type}: a row function changes arrays of units, and "
                f"{variable.name} is none\n    found:    {variable.dtype} {list(variable.shape)}\n"
                f"    expected: float {list(layer.shape)}"
            )
    parameters: list[tuple[str, str, int]] = [("dt", "float", 0)]
    values: list[float] = []
    for name in type(layer).model_fields:
        value = getattr(layer, name)
        several = value if isinstance(value, tuple) else (value,)
        kinds = {type(one).__name__ for one in several}
        if name not in _COMMON and len(kinds) == 1 and kinds <= {"float", "int", "bool"}:
            parameters.append((name, kinds.pop(), len(several) if isinstance(value, tuple) else 0))
            values += map(float, several)
    buffers = layer.buffers
    variables = tuple(variable.name for variable in layer.variables())
    form = Form(tuple(parameters), variables, buffers, tuple(layer.draws))
    if form.numbers > NUMBERS or buffers > BUFFERS:
        raise PartError(f"{declared(function)}layers of type {layer.type}: {too_much(form)}")
    function = getattr(function, "__func__", function)
    return RowFunction(function, form, tuple(values), tuple(layer.draws.values()))


def too_much(form: Form) -> str:
    """Return what is wrong with a form that has more than a row function can have."""
    return (
        "too much for a row function\n"
        f"    found:    {form.numbers} parameters with dt, {form.buffers} buffers\n"
        f"    expected: at most {NUMBERS} and {BUFFERS}"
    )


_COMMON = ("type", "shape", "phase", "border", "every", "offset", "reset", "reset_to", "start")
"""Keys of every layer, which its update does not depend on."""


def update_by_row(
    layer: Layer,
    ctx: StepContext,
    state: Mapping[str, Array],
    drive: Sequence[Array],
    previous: Array,
    activity: Array,
) -> None:
    """Make the update of a layer by its row function, slice by slice, in the precision of the run."""
    row = row_function(layer)
    if row is None:
        raise NotImplementedError(f"layers of type {layer.type} have neither `update` nor `row`")
    if ctx.xp is not np:
        raise PartError(
            f"layers of type {layer.type} cannot run on a GPU: they have a row function alone\n"
            '    expected: run.device = "cpu", or an `update` for arrays in the layer'
        )
    from petabatch.kernels.cpu.rows import call_row  # numba, which is not needed before a run

    activity[...] = previous
    for lane, number in enumerate(ctx.slices):
        arrays = [array[lane] for array in (*drive, *(state[name] for name in row.form.variables))]
        arrays += [drawn(layer, ctx, name, number).astype(activity.dtype) for name in row.form.draws]
        call_row(row.function, row.form, row.numbers(ctx.dt), [*arrays, activity[lane]])


def drawn(layer: Layer, ctx: StepContext, name: str, number: int) -> np.ndarray:
    """Return the random numbers `name` of a layer for one step of slice `number`, one for each unit.

    They depend on seed, layer, slice, step and unit alone, and are those of compiled programs but for
    rounding.
    """
    bits: Any = stream(ctx.seed, f"layers/{ctx.layer}/{name}", number, ctx.step).bit_generator
    units, unit = math.prod(layer.shape), 2.0**-24
    if layer.draws[name] == "uniform":
        uniform: np.ndarray = (bits.random_raw(units) >> np.uint64(40)) * unit
        return uniform.reshape(layer.shape)
    words = bits.random_raw(-(-units // (2 * _PAIRS)) * _PAIRS).reshape(-1, _PAIRS)
    chance = ((words >> np.uint64(40)) + 0.5).astype(np.float32).astype(float) * unit
    radius = np.sqrt(-2 * np.log(chance))
    angle = 2 * math.pi * unit * (words & np.uint64(0xFFFFFF))
    pairs = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    return pairs.reshape(-1)[:units].reshape(layer.shape)


def drawn_together(layer: Layer, ctx: StepContext, name: str) -> Array:
    """Return the random numbers `name` of a layer for one step of all slices, `[slices, ny, nx, nf]`.

    They are those that row functions receive in compiled programs, in float32.
    """
    from petabatch.kernels.cpu.program.draws import draw_each  # numba, which is not needed before a run
    from petabatch.kernels.cpu.program.random import WORDS

    numbers = np.empty((len(ctx.slices), math.prod(layer.shape)), np.float32)
    pools = _pools(ctx.seed, f"layers/{ctx.layer}/{name}", ctx.slices)
    draw_each(pools, ctx.step, layer.draws[name] == "normal", np.empty(WORDS + 4, np.uint64), numbers)
    return ctx.xp.asarray(numbers.reshape(-1, *layer.shape))


@lru_cache(maxsize=1024)
def _pools(seed: int, purpose: str, slices: tuple[int, ...]) -> np.ndarray:
    return np.stack([stream_pool(seed, purpose, number) for number in slices])


_PAIRS = 128
"""Pairs of normal numbers in a block, as in `kernels/cpu/program/draws.py`."""
