"""Kernels compiled before they are called: side by side in several processes, or for another processor.

python -m petabatch.kernels.cpu.ahead NAME ...    compiles these, unless another process does
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from numba import b1, f4, f8, i4, i8, types, u1, u4, u8

from petabatch.errors import ResourceError
from petabatch.kernels import cache as files
from petabatch.kernels.cpu import exact_sum, gradient, layout, operators, products, second_signal
from petabatch.kernels.cpu.addresses import SIGNATURE
from petabatch.kernels.cpu.claim import is_claimed, leading
from petabatch.kernels.cpu.homotopy import path
from petabatch.kernels.cpu.homotopy.drive import drive
from petabatch.kernels.cpu.homotopy.solve import Atoms, Block, Goal, solve
from petabatch.kernels.cpu.inner import Kernel
from petabatch.kernels.cpu.online import accumulate, fit_atoms
from petabatch.kernels.cpu.placed import add_placed, correlate_placed, gram_placed, solve_factored
from petabatch.kernels.cpu.program.abreast import begin_call, hand_over
from petabatch.kernels.cpu.program.draws import draw_each
from petabatch.kernels.cpu.program.lazy.step import materialise
from petabatch.kernels.cpu.program.loop import advance, advance_each
from petabatch.kernels.cpu.program.operations import OPERATIONS
from petabatch.kernels.cpu.program.records import caller, name_of
from petabatch.kernels.cpu.program.synapses import list_before
from petabatch.kernels.cpu.program.views import Arrays
from petabatch.kernels.cpu.program.whole import norm
from petabatch.kernels.cpu.target import LEVELS, target
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.look import Look
from petabatch.kernels.operations.patches import Synthesize
from petabatch.kernels.operations.updates import UpdateLazily, UpdateUnits

OWN = "--own"
_HEAVY = (UpdateLazily, Look, Synthesize, UpdateUnits)
"""Operations that take longest to compile, the longest first."""


def kernels() -> Mapping[str, tuple[Any, tuple[Any, ...]]]:
    """Return the kernels that Python calls, by name, each with the types of its arguments."""
    return {name: _kernel(name) for name in _names()}


def _kernel(name: str) -> tuple[Any, tuple[Any, ...]]:
    """Return a kernel by its name: callers of operations are made when they are asked for."""
    key = _operations().get(name)
    return _others()[name] if key is None else (caller(*key), SIGNATURE)


def _names() -> list[str]:
    return [*_operations(), *_others()]


@cache
def _operations() -> Mapping[str, tuple[Any, bool, str]]:
    """Return the operations in both precisions by name; lazily evaluated codes are float32."""
    keys = sorted(OPERATIONS, key=lambda one: _rank(one[0]))
    every = [(*key, precision) for precision in ("float32", "float64") for key in keys]
    return {name_of(*one): one for one in every if one[::2] != (UpdateLazily, "float64")}


@cache
def _others() -> Mapping[str, tuple[Any, tuple[Any, ...]]]:
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {}
    shape = types.NamedUniTuple(i8, len(layout.Shape._fields), layout.Shape)
    tables = (i8[:, ::1], f8[:, :, ::1], i8[:, ::1], u1[:, ::1], i8[:, ::1], i8[:, :, ::1], i8[:, ::1])
    ends = (i8, i8, i8, b1, b1[:, ::1], f8[:, :, ::1], i8[::1], u1[::1], i8[:, ::1], i8[::1], i8)
    found["advance"] = advance, (*tables, *ends)
    for real in (f4, f8):
        several = types.NamedTuple((i8[:, :, ::1], types.NumberClass(real)), Arrays)
        found[f"list_before {real}"] = list_before, (i8[:, ::1], several, i8)
        found[f"begin_call {real}"] = begin_call, (i8[:, ::1], several, i8)
        found[f"hand_over {real}"] = hand_over, (i8[:, ::1], several)
        found[f"norm {real}"] = norm, (real[::1], i8)
        found[f"same {real}"] = layout.same, (real[::1], real[::1])
    found["advance each"] = advance_each, (*tables, *ends)
    single = types.NamedTuple((i8[:, ::1], types.NumberClass(f4)), Arrays)
    found["materialise"] = materialise, (i8[::1], i8[:, ::1], single, i8[:, ::1])
    for real in (f4, f8):
        found |= {f"{name} {real}": kernel for name, kernel in _learning(real, shape).items()}
    for real, word in ((f4, u4), (f8, u8)):
        found[f"largest {real}"] = exact_sum._largest, (word[:, :, ::1], word, word[:, ::1])
        found[f"add {real}"] = exact_sum._add, (real[:, :, ::1], f8[:, ::1], i8[:, ::1])
        found[f"add_below {real}"] = exact_sum._add_below, (real[:, :, ::1], f8[:, ::1], f8, i8[:, ::1])
    found["draw_each"] = draw_each, (u8[:, ::1], i8, b1, u8[::1], f4[:, ::1])
    found |= {f"{name} {real}": kernel for real in (f4, f8) for name, kernel in _lasso(real).items()}
    found["fit_atoms"] = fit_atoms, (*[f8[:, ::1]] * 3, b1, f8[::1])
    placed = (i8[::1], i8[::1], f8[:, ::1], i8, i8)
    found["add_placed"] = add_placed, (f8[::1], *placed, f8[::1])
    found["correlate_placed"] = correlate_placed, (f8[::1], *placed, f8[::1], f8[::1])
    size, bounds = types.UniTuple(i8, 3), types.UniTuple(i8, 4)
    found["gram_placed"] = gram_placed, (*[i8[::1]] * 3, f8[:, ::1], size, bounds, f8[:, ::1])
    found["solve_factored"] = solve_factored, (f8[:, ::1], f8[::1])
    text = types.Array(u1, 1, "C", readonly=True)
    found["end_at_second"] = second_signal.end_at_second, (i8, text, text, text)
    return found


def _learning(real: Any, shape: Any) -> Mapping[str, tuple[Any, tuple[Any, ...]]]:
    """Return the kernels of weight updates, and of operators on arrays, for numbers of a type."""
    flat, matrix, three = real[::1], real[:, ::1], real[:, :, ::1]
    lists = (i4[::1], flat, i8[::1], i8[::1], i8[::1])
    scratch = types.NamedTuple((flat, matrix, flat, flat, *lists), layout.Scratch)
    four, places = real[:, :, :, ::1], (i8, i8, i8, i8)
    return {
        "multiply": (products._multiply, (three, three, i8[::1], i8[::1], three)),
        "gradient": (gradient._gather, (flat, matrix, shape, scratch, matrix, i4[:, :, ::1])),
        "products": (gradient._write_products, (matrix, shape, matrix)),
        "counts": (gradient._write_counts, (i4[:, :, ::1], matrix)),
        "windows": (operators._cut_out, (three, *places, real[:, :, :, :, ::1])),
        "dots": (operators._dots, (four, four, four)),
        "add_active": (operators._add_active, (four, four, *places, matrix, three)),
    }


def _lasso(real: Any) -> Mapping[str, tuple[Any, tuple[Any, ...]]]:
    """Return the kernels of codes of single positions, for data of a type."""
    matrix, vector, sums, places = real[:, ::1], real[::1], f8[::1], i8[::1]
    atoms = types.NamedUniTuple(matrix, 3, Atoms)
    goal = types.NamedTuple((f8, b1, f8, i8, f8, i8), Goal)
    small = (f8[:, ::1], f8[:, ::1], places)
    state = types.NamedTuple((*[vector] * 3, places, *[sums] * 4, vector, *small), path.Path)
    images = (matrix, matrix, matrix, f8[:, ::1], i8[:, ::1], matrix, places, sums, vector)
    block = types.NamedTuple(images, Block)
    return {
        "correlations": (drive, (matrix,) * 3),
        "lasso": (solve, (matrix, atoms, goal, state, block, block, matrix, sums, places, places)),
        "accumulate": (accumulate, (matrix, matrix, f8[:, ::1], f8[:, ::1], places)),
    }


def _rank(one: type[Operation]) -> int:
    return _HEAVY.index(one) if one in _HEAVY else len(_HEAVY)


def missing(names: Collection[str]) -> list[str]:
    """Return the names of kernels that are not in the cache, the slowest to compile first."""
    chosen = [(name, *_kernel(name)) for name in _names() if name in names]
    # Kernels that are loaded need no file; those of an unknown version of numba have none.
    return [
        name
        for name, kernel, kinds in chosen
        if isinstance(kernel, Kernel)
        and kinds not in kernel.overloads
        and files.find(kernel._cache.name(kinds), target()) is None
    ]


def compile_missing(names: Collection[str]) -> None:
    """Compile kernels that are not in the cache, on all cores; skip those that other processes compile.

    Where files cannot be kept, nothing is done: kernels are compiled when they are called.
    """
    needed = missing(names)
    folder = _file(needed[0]) if len(needed) > 1 else None
    if folder is None:
        return
    # Of processes that start together, as jobs of a cluster, the first one has all cores compile.
    with leading(folder.parent) as first:
        cores = min(len(os.sched_getaffinity(0)), len(needed)) if first else 1
        helpers = _start(needed, cores - 1, {})
        _compile(needed)
        for one in helpers:
            one.wait()


def compile_for(level: str, folder: Path) -> int:
    """Compile all kernels for a processor, this or another, to a folder; return how many there are.

    Raises ResourceError when not all could be compiled or kept.
    """
    environment = {files.GIVEN: str(folder), **({"NUMBA_CPU_NAME": level} if level in LEVELS else {})}
    every = kernels()
    cores = min(len(os.sched_getaffinity(0)), len(every))
    codes = [one.wait() for one in _start([OWN, *every], cores, environment)]
    names = [kernel._cache.name(kinds) for kernel, kinds in every.values()]
    made = files.contents(folder, names).get(level, 0)
    if any(codes) or made < len(names):
        raise ResourceError(f"{folder}: {made} of {len(names)} kernels for {level} were compiled and kept")
    return made


def _start(names: Sequence[str], count: int, environment: Mapping[str, str]) -> list[subprocess.Popen[bytes]]:
    """Start processes that compile kernels; fewer, or none, where the system has no room for them."""
    command, nothing = [sys.executable, "-P", "-m", __name__, *names], subprocess.DEVNULL
    errors, started = None if environment else nothing, []
    with suppress(OSError):
        for _ in range(count):
            given = {**os.environ, **environment}
            started.append(subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=errors, env=given))
    return started


def _compile(names: Collection[str]) -> None:
    """Compile kernels that no other process is compiling."""
    for name in names:
        file = _file(name)
        if file is None or not (file.exists() or is_claimed(file)):
            kernel, kinds = _kernel(name)
            kernel.compile(kinds)


def _file(name: str) -> Path | None:
    """Return the file that a kernel is written to."""
    kernel, kinds = _kernel(name)
    return files.new_file(kernel._cache.name(kinds), target())


def main(names: Sequence[str]) -> None:
    """Compile kernels; with OWN first, also those that were installed with the package."""
    for one in (signal.SIGTERM, signal.SIGUSR1):
        signal.signal(one, lambda *_: sys.exit(1))  # leaving no claim behind
    if names[0] == OWN:
        files.SHIPPED, names = Path(os.devnull), names[1:]
    _compile(names)


if __name__ == "__main__":
    from petabatch.kernels.cpu import ahead  # as the package knows it, for names of its functions

    ahead.main(sys.argv[1:])
