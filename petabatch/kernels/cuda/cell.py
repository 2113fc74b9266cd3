"""The numbers of the units of a slice in CUDA, and the transfer function, which is translated."""

from __future__ import annotations

from typing import get_type_hints

import numpy as np

from petabatch.kernels import fista
from petabatch.kernels.cuda.units.statements import Translation
from petabatch.kernels.cuda.units.values import Group, Value
from petabatch.kernels.rules import Cell
from petabatch.kernels.transfer import Curve, shrink_of, transfer_of

Constant = bool | int | float
_STRUCTURE = {name: hint for name, hint in get_type_hints(Curve).items() if hint is not float}
"""The fields of a curve that kernels are compiled for."""
_NUMBERS = ("self_interaction", "inertia", *(name for name in Curve._fields if name not in _STRUCTURE))
_MEMBERS = ", ".join((*_NUMBERS, "factor"))
"""Those of `Cell` in CUDA."""
CELL_NUMBERS = len(_NUMBERS) + 1
"""How many numbers of a slice there are."""


def cell_constants(
    cell: Cell, factor: float, varies: bool = False, common: bool = False
) -> dict[str, Constant]:
    """Return the constants of the units and of error = factor * image - recon, as the kernels name them.

    With `common`, all slices see one image. A `numpy.float64` becomes a double, every other float a float.
    With `varies`, kernels read the numbers of each slice from a table of `cell_row`s, and one source serves
    all numbers.
    """
    row = np.nan_to_num(np.zeros(CELL_NUMBERS) if varies else cell_row(cell, factor))  # of no maximum
    return {
        "RULE": cell.rule, "VARIES": varies, "COMMON": common, "SELF": varies or bool(cell.self_interaction),
        "GROWTH": np.float64(fista.GROWTH), "BREAK": np.float64(fista.BREAK),
        **{name.upper(): getattr(cell.curve, name) for name in _STRUCTURE},
        **dict(zip(_MEMBERS.upper().split(", "), row.tolist(), strict=True)),
    }  # fmt: skip


def cell_row(cell: Cell, factor: float) -> np.ndarray:
    """Return the numbers of the units of a slice as `Cell` in CUDA has them."""
    numbers = [getattr(cell if name in Cell._fields else cell.curve, name) for name in _NUMBERS]
    return np.array([*numbers, factor], np.float32)


def _source() -> str:
    """Return `Cell`, `cell_of(cells, slice)`, `transfer(u, cell)` and `shrink(u, price, cell)` in CUDA."""
    structure = {name: Value(name.upper(), "b" if hint is bool else "i") for name, hint in _STRUCTURE.items()}
    curve = Group(structure | {name: Value(f"cell.{name}", "f") for name in _NUMBERS})
    u, price, translation = Value("u", "f"), Value("price", "f"), Translation("f")
    transfer = translation.function(transfer_of(np.where), (u, curve), True)
    shrink = translation.function(shrink_of(np.where), (u, price, curve), True)
    return f"""struct Cell {{
    float {_MEMBERS};
}};

__device__ inline Cell cell_of(const Cell* cells, long long slice) {{
    if (VARIES) return cells[slice];
    return {{{_MEMBERS.upper()}}};
}}

__device__ inline float transfer(float u, const Cell& cell) {{
{transfer}}}

__device__ inline float shrink(float u, float price, const Cell& cell) {{
{shrink}}}
"""


CELL = _source()
