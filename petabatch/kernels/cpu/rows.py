"""Row functions, compiled: a function of one signature for all of them, and its address.

A row function is called with named tuples of parameters, variables and random numbers, whose types are its
own. A few lines around it take what they hold from a table of addresses, so that programs call all row
functions alike:

    table   int64 [3 + arrays]   units; address of the parameters, float64; step; addresses of the arrays
"""

from __future__ import annotations

import inspect
import marshal
import math
import re
import traceback
from collections import namedtuple
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import FunctionType
from typing import Any
from zlib import crc32

import numba
import numpy as np
from numba import carray
from numba.core.errors import NumbaError

from petabatch.kernels.cpu.addresses import SIGNATURE, address_of
from petabatch.kernels.cpu.elementary import MATH
from petabatch.kernels.cpu.jit import KernelCache, njit
from petabatch.kernels.cpu.loading import can_load
from petabatch.kernels.cpu.program.views import pointer
from petabatch.kernels.rows import Form

UNITS, PARAMETERS, STEP, ARRAYS = range(4)
"""Columns of the table; the last is the first of the arrays."""


@cache
def row_address(function: Callable[..., None], form: Form, precision: str) -> int:
    """Return the address of a row function compiled for a precision, as `call_at` takes it.

    Raises TypeError, with the line, if numba cannot compile it.
    """
    return address_of(_compiled(function, form, precision, False))


def call_row(
    function: Callable[..., None],
    form: Form,
    values: Sequence[float],
    arrays: Sequence[np.ndarray],
) -> None:
    """Call a row function on whole arrays, all of one precision, with every index checked."""
    given = [np.ascontiguousarray(array) for array in arrays]
    numbers = np.array(values, np.float64)
    places = [numbers.ctypes.data, 1, *(array.ctypes.data for array in given)]
    table = np.array([given[-1].size, *places], np.int64)
    _compiled(function, form, given[-1].dtype.name, True)(table.ctypes.data)
    for array, copy in zip(arrays, given, strict=True):
        if copy is not array and not np.shares_memory(copy, array):
            array[...] = copy


@njit(nogil=True, error_model="numpy", inline="always")
def _longs(address: int, size: int) -> Any:
    return carray(pointer(address), (size,), np.int64)


@njit(nogil=True, error_model="numpy", inline="always")
def _doubles(address: int, size: int) -> Any:
    return carray(pointer(address), (size,), np.float64)


@njit(nogil=True, error_model="numpy", inline="always")
def _singles(address: int, size: int) -> Any:
    return carray(pointer(address), (size,), np.float32)


@cache
def _compiled(function: Callable[..., None], form: Form, precision: str, checked: bool) -> Any:
    """Return the function of a table's address, compiled."""
    options = {"nogil": True, "error_model": "numpy", "boundscheck": checked}
    row = numba.njit(**options)(_with_our_math(function))
    row._compiler._customize_flags = _without_aliases
    names = {
        "row": row,
        "longs": _longs,
        "numbers": _doubles,
        "real": np.float32 if precision == "float32" else np.float64,
        "floats": _singles if precision == "float32" else _doubles,
        "Parameters": namedtuple("Parameters", [*(n for n, _, _ in form.parameters), *["t"] * form.timed]),
        "State": namedtuple("State", form.variables),
        "Draws": namedtuple("Draws", form.draws),
        "__name__": function.__module__,
    }
    text, file = _text(form), inspect.getfile(function)
    # As a function of the plug-in's file it is kept in its cache, and forgotten when that changes.
    exec(compile(text, file, "exec"), names)
    call: Any = names["call"]
    values = _constants(function)
    version = crc32(f"{text} {form} {precision} {checked} {values} {_sources(Path(file))}".encode())
    call.__qualname__ = function.__qualname__
    dispatcher = numba.njit(**options)(call)
    written = Path(file).is_file() or hasattr(function, "generated")
    if written and values is not None and can_load():
        dispatcher._cache = KernelCache(call, f"{version:08x}")
    try:
        dispatcher.compile(SIGNATURE)
    except NumbaError as error:
        raise TypeError(_message(function, error)) from error
    return dispatcher


def _with_our_math(function: Callable[..., None]) -> Callable[..., None]:
    """Return the same function with our `math`, whose functions compilers make vectors of."""
    known = {name: MATH if value is math else value for name, value in function.__globals__.items()}
    made = FunctionType(
        function.__code__, known, function.__name__, function.__defaults__, function.__closure__
    )
    made.__qualname__ = function.__qualname__
    return made


def _text(form: Form) -> str:
    """Return the source of the function that calls `row` with what a table holds."""
    taken = iter(range(form.numbers))
    given = []
    for _, kind, length in form.parameters:
        read = {"float": "real(n[{}])", "double": "n[{}]", "int": "int(n[{}])", "bool": "n[{}] != 0"}[kind]
        several = [read.format(next(taken)) for _ in range(max(1, length))]
        given.append(f"({', '.join(several)},)" if length else several[0])
    if form.timed:
        given.append(f"(at[{STEP}] - 1) * n[0]")  # `Clock.t`
    arrays = [f"floats(at[{ARRAYS + number}], at[{UNITS}])" for number in range(form.arrays)]
    begin, end = form.buffers, form.buffers + len(form.variables)
    inputs = " ".join(f"{one}," for one in arrays[:begin])
    return f"""def call(table):
    at = longs(table, {ARRAYS + form.arrays})
    n = numbers(at[{PARAMETERS}], {form.numbers})
    row(
        Parameters({", ".join(given)}), State({", ".join(arrays[begin:end])}),
        ({inputs}), Draws({", ".join(arrays[end:-1])}), {arrays[-1]},
    )
"""


def _without_aliases(flags: Any) -> Any:
    """Let the compiler know that no two arrays overlap: it makes vectors of more loops."""
    flags.noalias = True
    return flags


def _constants(function: Any, seen: frozenset[Any] = frozenset()) -> str | None:
    """Return the code of a function and the values from outside that are compiled into it, as text.

    None if these are not plain. The files of its folder do not tell values of a closure, those that are
    computed on import, nor what the function was when a file has changed since. Functions that it calls are
    looked into as well.
    """
    inside = [cell.cell_contents for cell in function.__closure__ or ()]
    known = function.__globals__
    outside = [known[name] for name in function.__code__.co_names if name in known]
    found = [marshal.dumps(function.__code__, 2).hex()]  # later versions depend on numbers of references
    for value in (*inside, *outside):
        called = getattr(value, "py_func", value)
        if isinstance(value, np.ndarray) and value.dtype != object:
            found.append(f"{value.dtype} {value.shape} {crc32(value.tobytes())}")
        elif isinstance(value, bool | int | float | complex | str | np.generic):
            found.append(repr(value))
        elif inspect.isfunction(called):
            text = "" if called in seen else _constants(called, seen | {called})
            if text is None:
                return None
            found.append(text)
        elif not (inspect.ismodule(value) or inspect.isbuiltin(value) or isinstance(value, type | np.ufunc)):
            return None
    return " ".join(found)


def _sources(file: Path) -> int:
    """Return a checksum of the Python files of a plug-in's folder, from which it may import functions."""
    if not file.is_file():
        return 0
    found = 0
    for path in sorted(file.parent.glob("[!.]*.py")):  # hidden ones are the locks of editors
        with suppress(OSError):
            found = crc32(path.read_bytes(), found)
    return found


def _message(function: Callable[..., None], error: NumbaError) -> str:
    """Return what numba says of a function that it cannot compile, and the line."""
    texts = (line for line in str(error).splitlines() if line.strip() and not line.startswith("Failed"))
    message = next(texts)
    file, (source, first) = inspect.getfile(function), inspect.getsourcelines(function)
    places = re.findall(r'File ".*?([^"/]+)", line (\d+)', str(error))
    lines = [int(line) - first for name, line in places if name == Path(file).name]
    if unknown := re.search(r"name '(\w+)' is not defined", message):
        lines += [n for n, line in enumerate(source) if re.search(rf"\b{unknown[1]}\b", line)]
    line = next((line for line in lines if 0 < line < len(source)), 0)
    return (
        f"numba cannot compile `row`: {message}\n    found:    {file}:{first + line}: {source[line].strip()}"
    )


def raised_in(function: Callable[..., None], error: BaseException) -> bool:
    """Return whether an error was raised in a row function."""
    code = function.__code__
    frames = traceback.extract_tb(error.__traceback__)
    return any((frame.filename, frame.name) == (code.co_filename, code.co_name) for frame in frames)
