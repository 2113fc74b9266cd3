"""Row functions as CUDA kernels: a thread calls the function with one unit."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from petabatch.kernels.cuda.rows.statements import Translation
from petabatch.kernels.cuda.rows.values import TYPES, Array, Group, Value
from petabatch.kernels.rows import Form

BLOCK = 256
"""Threads of a block."""


@cache
def row_source(function: Callable[..., None], form: Form, real: str) -> str:
    """Return the source of a kernel `row` that makes the update of each unit by a row function.

    A thread calls it with one unit, as it is never promised how many it has. `real` is "float" or "double".
    Raises Untranslated, with the line, where the function cannot be translated.
    """
    kind = {"float": "f", "double": "d"}[real]
    names = [f"a{number}" for number in range(form.arrays)]
    units = iter([Array(f"{name}[at]") for name in names])
    drive = Group({n: next(units) for n in range(form.buffers)})
    state = Group({name: next(units) for name in form.variables})
    draws = Group({name: next(units) for name in form.draws})
    taken, numbers = iter(range(form.numbers)), {}
    for name, what, length in form.parameters:
        each = [_number(next(taken), what, kind) for _ in range(max(1, length))]
        numbers[name] = Group(dict(enumerate(each))) if length else each[0]
    if form.timed:
        numbers["t"] = Value("time", "d")
    translation = Translation(kind)
    given = Group(numbers), state, drive, draws, next(units)
    body = translation.function(function, given, False)
    arguments = ", ".join(f"{real}* __restrict__ {name}" for name in names)
    return (
        "".join(translation.helpers)
        + f'extern "C" __global__ void __launch_bounds__({BLOCK})\n'
        + f"row({arguments}, const double* __restrict__ numbers, double steps, int units) {{\n"
        + f"    const int unit = blockIdx.x * {BLOCK} + threadIdx.x;\n    if (unit >= units) return;\n"
        + "    const long long at = static_cast<long long>(blockIdx.y) * units + unit;\n"
        + f"    const double* n = numbers + blockIdx.y * {form.numbers};\n"
        + "    const double time = steps * n[0];\n    (void)time;\n"
        + body
        + "}\n"
    )


def _number(place: int, what: str, real: str) -> Value:
    kind = {"float": real, "int": "i", "bool": "b"}[what]
    text = f"n[{place}]"
    return Value(f"({text} != 0)" if kind == "b" else f"(({TYPES[kind]}){text})", kind)
