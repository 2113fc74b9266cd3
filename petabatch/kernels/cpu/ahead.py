"""Kernels compiled before they are called: side by side in several processes, or for another processor.

python -m petabatch.kernels.cpu.ahead NAME ...    compiles these, unless another process does
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from numba import b1, f4, f8, i4, i8, types, u1, u4, u8

from petabatch.errors import ResourceError
from petabatch.kernels import cache as files
from petabatch.kernels.cpu import exact_sum, gradient, layout, operators, second_signal
from petabatch.kernels.cpu.addresses import SIGNATURE
from petabatch.kernels.cpu.claim import is_claimed
from petabatch.kernels.cpu.inner import Kernel
from petabatch.kernels.cpu.program.draws import draw_each
from petabatch.kernels.cpu.program.lazy.step import materialise
from petabatch.kernels.cpu.program.loop import advance
from petabatch.kernels.cpu.program.operations import OPERATIONS
from petabatch.kernels.cpu.program.table import Op
from petabatch.kernels.cpu.program.whole import norm
from petabatch.kernels.cpu.target import target

_HEAVY = (Op.LAZY, Op.LOOK, Op.SYNTHESIZE, Op.UPDATE)
"""Operations that take longest to compile, the longest first."""


def name_of(op: Op, together: bool = False) -> str:
    """Return the name of an operation among the kernels."""
    return f"{op.name} together" if together else op.name


@cache
def kernels() -> Mapping[str, tuple[Any, tuple[Any, ...]]]:
    """Return the kernels that Python calls, by name, each with the types of its arguments."""
    operations = sorted(OPERATIONS.items(), key=lambda one: _rank(one[0][0]))
    found: dict[str, tuple[Any, tuple[Any, ...]]] = {
        name_of(*key): (kernel, SIGNATURE) for key, kernel in operations
    }
    shape = types.NamedUniTuple(i8, len(layout.Shape._fields), layout.Shape)
    kinds = (f4[::1], f4[:, ::1], f4[::1], f4[::1], i4[::1], f4[::1], i8[::1], i8[::1], i8[::1])
    scratch = types.NamedTuple(kinds, layout.Scratch)
    tables = (i8[:, ::1], f8[:, :, ::1], i8[:, ::1], f4[:, ::1], i8[:, ::1], i8[:, :, ::1], i8[:, ::1])
    ends = (i8, i8, i8, b1, b1[:, ::1], f8[:, :, ::1], i8[::1], f4[::1], i8[:, ::1], i8[::1], i8)
    found["advance"] = advance, (*tables, *ends)
    found["materialise"] = materialise, (i8[::1], i8[:, ::1], i8[:, ::1], i8[:, ::1])
    found["norm"] = norm, (f4[::1], i8)
    found["same"] = layout.same, (f4[::1], f4[::1])
    found["gradient"] = gradient._gather, (f4[::1], f4[:, ::1], shape, scratch, f4[:, ::1], i4[:, :, ::1])
    found["products"] = gradient._write_products, (f4[:, ::1], shape, f4[:, ::1])
    found["counts"] = gradient._write_counts, (i4[:, :, ::1], f4[:, ::1])
    for real, word in ((f4, u4), (f8, u8)):
        found[f"largest {real}"] = exact_sum._largest, (word[:, :, ::1], word, word[:, ::1])
        found[f"add {real}"] = exact_sum._add, (real[:, :, ::1], f8[:, ::1], i8[:, ::1])
        found[f"add_below {real}"] = exact_sum._add_below, (real[:, :, ::1], f8[:, ::1], f8, i8[:, ::1])
    found["windows"] = operators._cut_out, (f4[:, :, ::1], i8, i8, i8, i8, f4[:, :, :, :, ::1])
    found["dots"] = operators._dots, (f4[:, :, :, ::1], f4[:, :, :, ::1], f4[:, :, :, ::1])
    places = (i8, i8, i8, i8)
    found["add_active"] = (
        operators._add_active,
        (f4[:, :, :, ::1], f4[:, :, :, ::1], *places, f4[:, ::1], f4[:, :, ::1]),
    )
    found["draw_each"] = draw_each, (u8[:, ::1], i8, b1, u8[::1], f4[:, ::1])
    text = types.Array(u1, 1, "C", readonly=True)
    found["end_at_second"] = second_signal.end_at_second, (i8, text, text, text)
    return found


def _rank(op: Op) -> int:
    return _HEAVY.index(op) if op in _HEAVY else len(_HEAVY)


def missing(names: Collection[str]) -> list[str]:
    """Return the names of kernels of which there is no file, those that take longest to compile first."""
    known = kernels()
    chosen = [(name, *known[name]) for name in known if name in names]
    # Without files (another version of numba), and with them loaded, there is nothing to do.
    return [
        name
        for name, kernel, kinds in chosen
        if isinstance(kernel, Kernel)
        and kinds not in kernel.overloads
        and files.find(kernel._cache.name(kinds), target()) is None
    ]


def compile_missing(names: Collection[str]) -> None:
    """Compile kernels of which there is no file, on all cores; return when all of these have one.

    Other processes that need them wait meanwhile. Where files cannot be kept, nothing is done: kernels are
    compiled when they are called.
    """
    needed = missing(names)
    if len(needed) < 2 or files.writable_folder() is None:
        return
    # Of processes that start together, as jobs of a cluster, the first one has all cores compile.
    first = not any(is_claimed(file) for file in map(_file, needed) if file is not None)
    helpers = _start(needed, len(os.sched_getaffinity(0)) - 1, {}) if first else []
    _compile(needed)
    for one in helpers:
        one.wait()


def compile_for(level: str, folder: Path) -> int:
    """Compile all kernels for a processor, this or another, to a folder; return how many there are."""
    environment = {"NUMBA_CPU_NAME": level, files.GIVEN: str(folder)}
    for one in _start(list(kernels()), len(os.sched_getaffinity(0)), environment):
        if one.wait():
            raise ResourceError(f"kernels for {level} could not be compiled (exit code {one.returncode})")
    return len(list((folder / files.identity() / level).glob("*.kernel")))


def _start(names: Sequence[str], count: int, environment: Mapping[str, str]) -> list[subprocess.Popen[bytes]]:
    """Start processes that compile kernels, at most one for each."""
    command, nothing = [sys.executable, "-m", __name__, *names], subprocess.DEVNULL
    told = None if environment else nothing
    return [
        subprocess.Popen(
            command, stdin=nothing, stdout=nothing, stderr=told, env={**os.environ, **environment}
        )
        for _ in range(min(count, len(names)))
    ]


def _compile(names: Collection[str]) -> None:
    """Compile kernels that no other process is compiling."""
    for name in names:
        file = _file(name)
        if file is None or not (file.exists() or is_claimed(file)):
            kernel, kinds = kernels()[name]
            kernel.compile(kinds)


def _file(name: str) -> Path | None:
    """Return the file that a kernel is written to."""
    kernel, kinds = kernels()[name]
    return files.new_file(kernel._cache.name(kinds), target())


if __name__ == "__main__":
    from petabatch.kernels.cpu import ahead  # as the package knows it, for names of its functions

    ahead._compile(sys.argv[1:])
