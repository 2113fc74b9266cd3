"""Kernels are called with records whose fields are those of the declaration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from petabatch.kernels.cpu.addresses import SIGNATURE
from petabatch.kernels.cpu.jit import njit
from petabatch.kernels.cpu.program import calls, records
from petabatch.kernels.cpu.program.operations import OPERATIONS
from petabatch.kernels.cpu.program.records import caller
from petabatch.kernels.cpu.program.views import floats
from petabatch.kernels.operations import look, patches, plasticity, synapses, transport, updates
from petabatch.kernels.operations.base import OfSource, Operation
from petabatch.kernels.operations.fields import Doubles, Source, encoded, fields_of
from petabatch.kernels.operations.updates import LazyDrive, Measure
from petabatch.kernels.rows import NUMBERS
from petabatch.kernels.rules import Cell
from petabatch.kernels.transfer import Curve


@dataclass(frozen=True)
class Weigh(Operation):
    """`out` = a number times the source, of some steps ago, plus the first of `more`."""

    source: Source
    shape: tuple[int, int]
    factor: float
    more: Doubles


@dataclass(frozen=True)
class Ruled(Operation):
    """What writes the numbers of a rule."""

    before: float
    cell: Cell


@dataclass(frozen=True)
class Kept(Ruled):
    """The same, whose kernel has what is stored."""


PRECISIONS = pytest.mark.parametrize("real", ["float32", "float64"])
CELL = Cell(
    3, np.float32(0.1), np.float32(0.2), np.float32(0.3), np.float32(0.4), 0.5, 0.6,
    Curve.of("firm", 0.7, shift=0.05, width=0.8, minimum=0.9, maximum=2.0, signed=True),
)  # fmt: skip


@njit()
def put(c: Any, out: Any) -> None:
    """Write all numbers of a rule."""
    t = c.curve
    numbers = [
        c.rule, c.self_interaction, c.inertia, c.e, c.gain, c.dt, c.tau, t.form, int(t.signed),
        int(t.bounded), t.threshold, t.top, t.shift, t.slope, t.minimum, t.maximum,
    ]  # fmt: skip
    for n in range(len(numbers)):
        out[n] = numbers[n]


class Named:
    """Arrays that are called as they are numbered."""

    def array(self, key: str) -> int:
        return int(key)

    def none(self, _: Any) -> Any:
        raise NotImplementedError

    geometry = summed = driven = none


def call(one: Operation, arrays: np.ndarray, real: str) -> None:
    """Make an operation in step 5, in a precision."""
    columns, numbers = encoded(one, Named())
    rows, own = np.array([columns]), np.zeros(NUMBERS)
    own[: len(numbers)] = numbers
    frame = np.zeros(calls.FRAME, np.int64)
    frame[calls.ROWS], frame[calls.WIDTH] = rows.ctypes.data, rows.shape[1]
    frame[calls.CONSTANTS], frame[calls.OPERATIONS] = own.ctypes.data, 1
    frame[calls.ARRAYS], frame[calls.HELD] = arrays.ctypes.data, len(arrays)
    frame[calls.STEP] = 5
    caller.__wrapped__(type(one), False, real)(frame.ctypes.data)


@PRECISIONS
def test_a_kernel_reads_by_name_what_the_declaration_names(
    real: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "OPERATIONS", {})

    @records.operation(Weigh)
    def weigh(op: Any, step: int) -> None:
        for i in range(op.out.size):
            op.out[i] = op.out.dtype.type(op.factor) * op.source[i] + op.more[0] + op.shape[1] * step

    steps, out = np.arange(6, dtype=real).reshape(3, 2), np.zeros(2, real)
    more = np.array([0.5])
    arrays = np.array(
        [[0, 0, 1], [out.ctypes.data, 2, 1], [steps.ctypes.data, 2, 3], [more.ctypes.data, 1, 1]], np.int64
    )
    # The source is that of step 4: place 1 of 3.
    call(Weigh("1", Source("2", 1), (10, 100), 2.0, "3"), arrays, real)
    np.testing.assert_array_equal(out, [2 * 2 + 0.5 + 500, 2 * 3 + 0.5 + 500])


@pytest.mark.parametrize("kind", [Ruled, Kept])
@PRECISIONS
def test_a_named_tuple_of_numbers_is_one_in_kernels(
    kind: Any, real: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "OPERATIONS", {})

    @records.operation(Ruled)
    def write(op: Any) -> None:
        put(op.cell, op.out)

    @records.operation(Kept, stored=True)
    def write_kept(op: Any, cell: Any, arrays: Any) -> None:
        put(cell, floats(arrays, op.out, 0))

    f, out = np.dtype(real).type, np.zeros(len(CELL._fields) + len(CELL.curve), real)
    call(kind("1", 7.0, CELL), np.array([[0, 0, 1], [out.ctypes.data, out.size, 1]], np.int64), real)
    expected = [f(value) for value in (*CELL[:-1], *CELL.curve)]
    np.testing.assert_array_equal(out[:-1], expected)


def test_every_operation_that_is_declared_has_a_kernel() -> None:
    modules = (look, patches, plasticity, synapses, transport, updates)
    kinds = {one for module in modules for one in vars(module).values() if isinstance(one, type)}
    declared = {one for one in kinds if issubclass(one, Operation)} - {Operation, OfSource}
    without = {patches.Carry, patches.Weighted, updates.Random}
    assert {one for one, together in OPERATIONS if not together} == declared - without
    assert all((one, False) in OPERATIONS for one, together in OPERATIONS if together)


@pytest.mark.parametrize("record", [LazyDrive, Measure])
def test_what_is_stored_is_read_without_the_arrays(record: type) -> None:
    fields = [one for one in fields_of(record) if one.kind.plain]
    row = np.arange(100, 150)
    found = records.stored_in(record)(row)
    for one in fields:
        expected = row[one.column : one.column + one.kind.columns]
        assert np.array_equal(np.atleast_1d(getattr(found, one.name)), expected), one.name


def test_kernels_have_the_signature_by_which_the_loop_calls_them() -> None:
    assert len(SIGNATURE) == 1
    for one in OPERATIONS:
        assert caller(*one, "float64").py_func.__code__.co_varnames[0] == "frame"
