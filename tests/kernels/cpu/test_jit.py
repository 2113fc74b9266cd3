"""Compiled kernels are loaded from their files without numba's compiler, and are compiled into others."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch.kernels.cpu.jit import FAST, njit

MODULE = """
import sys
import numpy as np
from petabatch.kernels.cpu.jit import njit

@njit(nogil=True, error_model="numpy")
def inner(x):
    return np.sqrt(x) + np.zeros(3).size

@njit(nogil=True, error_model="numpy")
def kernel(values):
    if values.size == 0:
        raise ValueError("nothing to do")
    found = np.zeros(values.size)
    for i in range(values.size):
        found[i] = inner(values[i])
    return found

@njit(error_model="numpy")
def caller(values):
    return kernel(values).sum() + inner(4.0)

def loaded(function):
    return sum(function.stats.cache_hits.values()), sum(function.stats.cache_misses.values())
"""


def run(folder: Path, code: str) -> list[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"from compiled import *\n{code}"],
        cwd=folder, capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")},
    )  # fmt: skip
    return done.stdout.split()


KERNEL = "values = np.arange(4.0); print(round(kernel(values).sum(), 4), *loaded(kernel))"


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `kernel` has been compiled."""
    folder = tmp_path_factory.mktemp("compiled")
    (folder / "compiled.py").write_text(MODULE)
    assert run(folder, KERNEL) == ["16.1463", "0", "1"]
    return folder


def test_a_compiled_kernel_is_loaded_without_the_compiler(compiled: Path) -> None:
    heavy = "['numba.np.linalg', 'numba.np.npyimpl', 'scipy.linalg']"
    code = f"""
{KERNEL}
print(sum(name in sys.modules for name in {heavy}))
try: kernel(np.zeros(0))
except ValueError as error: print(type(error).__name__)
"""
    assert run(compiled, code) == ["16.1463", "1", "0", "0", "ValueError"]


def test_a_kernel_is_compiled_into_its_callers_and_has_no_file_of_its_own(compiled: Path) -> None:
    code = f"{KERNEL}\nprint(round(caller(values), 4), *loaded(caller), *loaded(inner))"
    assert run(compiled, code) == ["16.1463", "1", "0", "21.1463", "0", "1", "0", "0"]
    assert run(compiled, code) == ["16.1463", "1", "0", "21.1463", "1", "0", "0", "0"]
    names = sorted(file.name.rpartition("-")[0] for file in (compiled / "cache").rglob("*.kernel"))
    assert names == ["compiled.caller", "compiled.kernel"]


def test_what_a_kernel_raises_inside_another_one_is_raised(compiled: Path) -> None:
    code = "try: caller(np.zeros(0))\nexcept ValueError as error: print(error)"
    assert run(compiled, code) == ["nothing", "to", "do"]


def test_kernels_of_another_version_of_numba_are_those_of_numba(compiled: Path) -> None:
    unknown = "from petabatch.kernels.cpu import loading; loading._KNOWN = ((0, 1), (0, 2))\n"
    code = "values = np.arange(4.0); print(round(kernel(values).sum(), 4), round(caller(values), 4))"
    done = subprocess.run(
        [sys.executable, "-c", f"{unknown}from compiled import *\n{code}"],
        cwd=compiled, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout.split() == ["16.1463", "21.1463"]


def test_a_kernel_with_addresses_of_its_process_is_not_kept(tmp_path: Path) -> None:
    """Of large arrays numba compiles the address into the code."""
    array = "large = np.arange(300_000.0)\n@njit()\ndef kernel(i):\n    return large[i]\n"
    (tmp_path / "compiled.py").write_text(
        f"import numpy as np\nfrom petabatch.kernels.cpu.jit import njit\n{array}"
    )
    code = "print(kernel(7), sum(kernel.stats.cache_hits.values()))"
    assert run(tmp_path, code) == run(tmp_path, code) == ["7.0", "0"]


def test_a_caller_that_fuses_multiply_adds_does_not_fuse_those_of_what_it_calls() -> None:
    @njit(nogil=True)
    def inner(a: Any, b: Any, c: Any) -> Any:
        return a * b + c

    @njit(nogil=True, fastmath=FAST)
    def outer(a: Any, b: Any, c: Any) -> Any:
        return inner(a, b, c)

    a, c = np.float32(1 + 2**-12), np.float32(-(1 + 2**-11))
    assert outer(a, a, c) == 0  # 2^-24, if it were rounded once
