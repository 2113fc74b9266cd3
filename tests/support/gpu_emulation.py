"""An emulated GPU: CUDA kernels compiled for the host and called as CuPy's RawKernel is."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.kernels.cuda.device import Limits
from support.streams import Event, Stream, current
from support.strict_arrays import capturing, far

COMPILER = shutil.which("g++")
NO_COMPILER = "no g++ here to compile CUDA kernels for the host"
_FOLDER = Path(tempfile.gettempdir()) / f"petabatch_emulated_kernels_{os.getuid()}"
_TYPES = {
    np.dtype("i4"): ctypes.c_int32, np.dtype("i8"): ctypes.c_int64,
    np.dtype("f4"): ctypes.c_float, np.dtype("f8"): ctypes.c_double,
}  # fmt: skip

_ONE_AT_A_TIME = threading.Lock()
"""The shared memory of a block is a variable of the module."""


class Race(AssertionError):
    """What a kernel does with memory that it may not do: the message names threads and place."""


class Kernel:
    """A kernel of an emulated module."""

    def __init__(self, function: Any, library: Any = None) -> None:
        """`library` is that of a checked module."""
        self._function, self._library = function, library
        self.max_dynamic_shared_size_bytes = 48 * 1024

    def __call__(
        self, grid: Sequence[int], block: Sequence[int], args: Sequence[Any], *, shared_mem: int = 0
    ) -> None:
        """Run all blocks; arguments are numpy scalars, or arrays whose slices are contiguous."""
        assert shared_mem <= self.max_dynamic_shared_size_bytes, "a GPU would refuse this launch"
        assert tuple(block[1:]) in ((), (1, 1))
        kept = [_argument(value) for value in args]
        values = (ctypes.c_void_p * len(kept))(*(ctypes.addressof(value) for value in kept))
        size = (ctypes.c_uint * 3)(*grid, *[1] * (3 - len(grid)))
        with _ONE_AT_A_TIME:
            if self._library is not None:
                self._watch([value for value in args if isinstance(value, np.ndarray)])
            failed = self._function(size, block[0], shared_mem, values)
            assert failed != 1, "shared memory is overrun"
            if failed:
                raise Race(self._library.last_complaint().decode())

    def _watch(self, arrays: Sequence[np.ndarray]) -> None:
        """Tell the module which memory is that of the arguments."""
        parts = [part for array in arrays for part in ([array] if array.flags.c_contiguous else array)]
        ends = [end for part in parts for end in (part.ctypes.data, part.ctypes.data + part.nbytes)]
        self._library.watch_arrays((ctypes.c_size_t * len(ends))(*ends), len(parts))


class Module:
    """What `cupy.RawModule` is to a GPU."""

    def __init__(self, code: str, checked: bool = False) -> None:
        self._library = ctypes.CDLL(str(_build(code, checked)))
        self._checked = checked
        if checked:
            self._library.last_complaint.restype = ctypes.c_char_p

    def get_function(self, name: str) -> Kernel:
        return Kernel(self._library[f"launch_{name}"], self._library if self._checked else None)


@cache
def _build(code: str, checked: bool) -> Path:
    names = re.findall(r"__launch_bounds__\([^)]*\)\s+(\w+)\(", code)
    header = _header(checked)
    calls = "".join(
        f'extern "C" int launch_{name}(const unsigned* grid, unsigned threads, unsigned shared, '
        "void** values)"
        f" {{ return host::launch({name}, grid, threads, shared, values); }}\n"
        for name in names
    )
    text = f'#include "{header}"\n{code}\n{calls}'
    library = _FOLDER / f"{_key(text)}.so"
    if not library.exists():
        with tempfile.TemporaryDirectory() as folder:
            source, built = Path(folder) / "kernel.cpp", Path(folder) / "kernel.so"
            source.write_text(text)
            middle = source.with_suffix(".o")
            subprocess.run([str(COMPILER), *_flags(checked), str(source), "-o", str(middle)], check=True)
            # Without the sanitizer's library: cuda_checks.h takes its place.
            subprocess.run([str(COMPILER), "-shared", str(middle), "-o", str(built)], check=True)
            _keep(built, library)
    return library


@cache
def _header(checked: bool) -> Path:
    """Return a copy of cuda_host.h with its precompiled form beside it, which saves a third of the time."""
    here = Path(__file__).parent
    sources = [here / "cuda_host.h", here / "cuda_checks.h"]
    folder = _FOLDER / _key(*(source.read_text() for source in sources), *_flags(checked))
    folder.mkdir(parents=True, exist_ok=True)
    header = folder / "cuda_host.h"
    precompiled = header.with_suffix(".h.gch")
    if not precompiled.exists():
        for source in reversed(sources):
            _keep(source, folder / source.name)
        with tempfile.TemporaryDirectory() as work:
            built = Path(work) / precompiled.name
            command = [str(COMPILER), *_flags(checked), "-x", "c++-header", str(header), "-o", str(built)]
            subprocess.run(command, check=True)
            _keep(built, precompiled)
    return header


def _flags(checked: bool) -> list[str]:
    # -O1: most of the time goes into compiling.
    flags = ["-std=c++17", "-O1", "-fPIC", "-w", "-U_FORTIFY_SOURCE", "-c"]
    return [*flags, "-DCHECKED", "-fsanitize=thread"] if checked else flags


def _key(*texts: str) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:20]


def _keep(file: Path, place: Path) -> None:
    """Copy a file to its place, whole, though other workers do the same."""
    part = place.with_name(f".{place.name}.{os.getpid()}.{threading.get_ident()}")
    shutil.copy(file, part)
    part.replace(place)


def _argument(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        assert value.flags.c_contiguous or value[0].flags.c_contiguous
        assert value.dtype in _TYPES
        return ctypes.c_void_p(value.ctypes.data)
    return _TYPES[value.dtype](value)


def to_tf32(values: np.ndarray) -> np.ndarray:
    """Return values with 10 bits of mantissa, the nearest, of two the larger."""
    mantissa, exponent = np.frexp(abs(values))
    return np.copysign(np.ldexp(np.floor(np.ldexp(mantissa, 11) + 0.5), exponent - 11), values)


class EmulatedGpu:
    """Stands in for `engine.gpu.Gpu`: kernels run on the host, arrays refuse to be mixed with numpy's."""

    xp = far
    limits = Limits(2, 228 * 1024, 227 * 1024)
    name = "emulated"
    checked = False
    """Whether each access of kernels is checked, see `cuda_checks.h`; several times slower."""

    def __init__(
        self,
        memory: float = 2.0**34,
        uuid: str = "none",
        library: Callable[[], Any] | None = None,
        tf32: bool = False,
    ) -> None:
        self.memory, self.uuid, self.tf32 = memory, uuid, tf32
        self.captured = 0
        self._library = library
        self._stream, self._side = Stream("main"), Stream("side")

    def enter(self) -> None:
        self._stream.use()

    def nccl(self) -> Any:
        if self._library is None:
            raise ImportError("it is not installed")
        return self._library()

    def stream(self) -> Stream:
        return Stream("further")

    def mark(self) -> Event:
        return current().record()

    def follow(self, event: Event) -> None:
        current().wait_event(event)

    @contextmanager
    def side_stream(self) -> Iterator[None]:
        self._side.wait_event(self.mark())
        with self.on_side_stream():
            yield

    @contextmanager
    def on_side_stream(self) -> Iterator[None]:
        with self.on(self._side):
            yield

    @contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        before = current()
        stream.use()
        try:
            yield
        finally:
            before.use()

    def free(self) -> int:
        return int(self.memory)

    def compile(self, code: str) -> Any:
        if COMPILER is None:
            pytest.skip(NO_COMPILER)
        return Module(code, self.checked).get_function

    def capture(self, work: Any) -> Any:
        self.captured += 1

        def replay() -> None:
            # A GPU records what comes to its stream, and replays it there: other work must be there, too.
            assert current() is self._stream, f"captured beside the current stream, {current().name}"
            with capturing():
                work()

        return replay

    def multiply(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        factors = [one.view(np.ndarray) for one in (a, b)]
        if self.tf32 and a.dtype == np.float32:
            factors = [to_tf32(one) for one in factors]
        return np.matmul(*factors).view(type(a))

    def staging(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        kind = np.dtype(dtype)
        return np.full(shape, np.nan if kind.kind == "f" else np.iinfo(kind).min, kind)

    def upload(self, into: np.ndarray, pinned: np.ndarray) -> Any:
        into[...] = far.asarray(pinned)
        return lambda: None
