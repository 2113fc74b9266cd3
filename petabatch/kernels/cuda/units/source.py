"""The source of a kernel that makes the update of each unit of a layer from what arrives there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from petabatch.geometry import Patches
from petabatch.kernels.cuda.fold import FOLD, places

BLOCK = 256
"""Threads of a block."""


class Body(NamedTuple):
    """What a unit does in a step.

    Statements on its inputs `d0`, `d1` .., its numbers in the arrays, `a0`, `a1` .., and its activity `A`,
    that of the step before at first; with constants `c[0]`, `c[1]` .. of its slice and, if it has parameters,
    these as `n[0]`, `n[1]`, ... (`n[0]` is dt), and the `time` at the start of the step.
    """

    text: str
    arrays: tuple[str, ...]
    """Variables and random numbers, by name."""
    helpers: str = ""
    """Functions that it calls."""
    parameters: int = 0


class Term(NamedTuple):
    """What a connection delivers, in the sum that is an input."""

    buffer: int
    scaled: bool
    """Times a constant of the slice."""
    patches: Patches | None = None
    """The source has weighted patches, `[slices or 1, G, M, K]`, which are added up in their places."""


def source(body: Body, terms: Sequence[Term], buffers: int, constants: int, real: str) -> str:
    """Return the source of a kernel `units`; `constants` are those of a slice, the factors of terms first.

    Its arguments: the source of each term with its stride, the arrays, the activity of the step before and
    that of this one with their strides, constants, parameters, steps made, and the units of a slice. A stride
    is what is between slices, 0 where all share one. `real` is "float" or "double".
    """
    sources = "".join(f"const {real}* s{n}, long long j{n}, " for n in range(len(terms)))
    arrays = "".join(f"{real}* p{n}, " for n in range(len(body.arrays)))
    inputs = [f"d{n}" for n in range(buffers)]
    owned = [f"a{n}" for n in range(len(body.arrays))]
    references = ", ".join(f"{real}& {name}" for name in (*inputs, *owned, "A"))
    given = ", ".join([*inputs, *(f"p{n}[at]" for n in range(len(owned))), "A"])
    time = "steps * n[0]" if body.parameters else "steps"  # `Clock.t`, of steps made
    return (
        f"{FOLD if any(term.patches for term in terms) else ''}{body.helpers}__device__ inline void\n"
        f"update({references}, const {real}* c, const double* n, double time) {{\n"
        f"    (void)c, (void)n, (void)time;\n{body.text}}}\n\n"
        f'extern "C" __global__ void __launch_bounds__({BLOCK})\n'
        f"units({sources}{arrays}const {real}* previous, long long back, {real}* activity, long long on,\n"
        f"      const {real}* constants, const double* parameters, double steps, int count) {{\n"
        f"    const int unit = blockIdx.x * {BLOCK} + threadIdx.x;\n    if (unit >= count) return;\n"
        "    const long long slice = blockIdx.y, at = slice * count + unit;\n    (void)at;\n"
        f"    const {real}* c = constants + slice * {constants};\n"
        f"    const double* n = parameters + slice * {body.parameters};\n"
        f"{''.join(_sum(buffer, terms, real) for buffer in range(buffers))}"
        f"    {real} A = previous[slice * back + unit];\n"
        f"    update({given}, c + {sum(one.scaled for one in terms)}, n, {time});\n"
        "    activity[slice * on + unit] = A;\n}\n"
    )


def _sum(buffer: int, terms: Sequence[Term], real: str) -> str:
    """Return the statement that sums up an input, in the order of its connections."""
    found, factor = [], 0
    for number, term in enumerate(terms):
        text = f"s{number}[slice * j{number} + unit]"
        if term.patches is not None:
            width = term.patches.x.fine * term.patches.channels
            where = ", ".join(map(str, places(term.patches)))
            text = f"folded(s{number} + slice * j{number}, unit / {width}, unit % {width}, Places{{{where}}})"
        if term.scaled:
            text, factor = f"c[{factor}] * {text}", factor + 1
        if term.buffer == buffer:
            found.append(text)
    return f"    {real} d{buffer} = {' + '.join(found) or '0'};\n"
