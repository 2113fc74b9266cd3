"""Kernels of operations, called with records: what is read of a record follows from its declaration.

Where the declaration of an operation has a field, the kernel's first argument has one of the same name: a
named tuple, made by source text that is compiled around the kernel. Fields that it does not use cost nothing:
the optimiser removes what reads them. Numbered columns, a numpy record and an accessor for each field were no
faster: 76 to 82 ns for an update of 16 units, each within its own scatter.
"""

from __future__ import annotations

import inspect
from collections import namedtuple
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from petabatch.kernels.cpu.addresses import address_of
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program.calls import calls_of
from petabatch.kernels.cpu.program.views import doubles, floats, ints, longs, unsigned
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.fields import Field, fields_of
from petabatch.kernels.operations.synapses import List, Scatter
from petabatch.kernels.operations.updates import LazyDrive, Measure, UpdateLazily


class Made(NamedTuple):
    """How an operation is made."""

    kernel: Any
    """Compiled for the types that it is called with."""
    others: tuple[str, ...]
    """Its arguments besides the record."""
    constants: Mapping[str, Field]
    """Those of them that are constants of the record."""
    stored: bool
    """Its record has the numbers of arrays."""


OPERATIONS: dict[tuple[type[Operation], bool], Made] = {}
"""The kernel of each operation, in one slice (False) or in all slices of a call (True)."""
_VIEWS = {"floats": floats, "doubles": doubles, "ints": ints, "longs": longs, "unsigned": unsigned}


def operation(
    of: type[Operation], *, together: bool = False, stored: bool = False
) -> Callable[[Callable[..., None]], Any]:
    """Return the decorator of the kernel that makes an operation, in either precision.

    Its first argument is the record; the others are fields of `Call`, or of `CallTogether` where it makes the
    operation in all slices. The record of one slice has arrays at the step of the call in place of their
    numbers, unless it is `stored`: as `stored_in` has it, so that the kernel takes its constants as arguments
    under their names.
    """

    def register(function: Callable[..., None]) -> Any:
        kernel = njit(nogil=True, error_model="numpy")(function)
        _, *others = inspect.signature(function).parameters
        # Not in the record, which such kernels hand on: steps of W1 with a `Cell` in it took 3 % longer.
        constants = {one.name: one for one in fields_of(of) if stored and not one.kind.plain}
        OPERATIONS[of, together] = Made(kernel, tuple(others), constants, together or stored)
        return kernel

    return register


@cache
def caller(of: Any, together: bool, precision: str) -> Any:
    """Return the function that makes an operation of the call that a frame describes, see `calls.py`."""
    made = OPERATIONS[of, together]
    views = {name: field.view for name, field in made.constants.items()}
    given = ", ".join(["read(c)", *(views.get(name, f"c.{name}") for name in made.others)])
    names = {
        "call_of": calls_of(precision)[together], "kernel": made.kernel,
        "read": _reader(of, "c", made.stored, precision), **_types(made.constants.values(), precision),
    }  # fmt: skip
    name = name_of(of, together, precision).replace(" ", "_")
    own = "    own = c.own\n" if views else ""
    text = f"def {name}(frame):\n    c = call_of(frame)\n{own}    kernel({given})\n"
    return njit(nogil=True, error_model="numpy")(_function(name, text, names))


@cache
def stored_in(record: type) -> Any:
    """Return the compiled function that reads a row: numbers of arrays, and no constants."""
    return _reader(record, "row", True)


def _reader(record: type, given: str, stored: bool, precision: str = "float32") -> Any:
    """Return the compiled function that reads a record of a row, or of a call."""
    fields = [one for one in fields_of(record) if one.kind.plain or not stored]
    parts = ", ".join(one.plain if stored else one.view for one in fields)
    names = {"Record": namedtuple(record.__name__, [one.name for one in fields]), **_VIEWS}
    names |= _types(fields, precision)
    lines = [f"return Record({parts})"]
    if given == "c":
        used = {"row"} if stored else {"row", "own", "arrays", "shapes", "step"}
        lines = [*(f"{name} = c.{name}" for name in sorted(used)), *lines]
    name = f"{record.__name__}_of_{given}"
    text = f"def {name}({given}):\n" + "\n".join(f"    {line}" for line in lines)
    return njit(nogil=True, error_model="numpy")(_function(name, text, names))


def _types(fields: Iterable[Field], precision: str) -> dict[str, Any]:
    """Return the types that source texts name, with the one of the precision."""
    return {"real": np.dtype(precision).type, **{of.__name__: of for one in fields for of in one.kind.types}}


def _function(name: str, text: str, names: dict[str, Any]) -> Callable[..., Any]:
    known = {**names, "__name__": __name__}
    exec(compile(text, f"<{name}>", "exec"), known)
    found: Callable[..., Any] = known[name]
    return found


CODES = {List: 1, Scatter: 2, Measure: 3, UpdateLazily: 4}
"""Numbers of the operations that rows are searched for; 0 of all others."""
LIST, SCATTER, MEASURE = (CODES[one] for one in (List, Scatter, Measure))
list_in, scatter_in, measure_in = map(stored_in, (List, Scatter, Measure))
lazy_in, drive_in = map(stored_in, (UpdateLazily, LazyDrive))
"""What is stored in rows of these."""


def name_of(one: type[Operation], together: bool, precision: str) -> str:
    """Return the name of an operation among the kernels."""
    name = f"{one.__name__} together" if together else one.__name__
    return name if precision == "float32" else f"{name} {precision}"


def address_of_operation(one: Any, together: bool, precision: str) -> int:
    """Return the address of an operation, compiled if it has to be."""
    return address_of(caller(one, together, precision))
