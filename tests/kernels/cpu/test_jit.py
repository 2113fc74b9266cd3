"""Compiled kernels are loaded from their files without numba's compiler, and can be called and inlined."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

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
print('_files' in vars(kernel._cache))
{KERNEL}
print('_files' in vars(kernel._cache), sum(name in sys.modules for name in {heavy}))
try: kernel(np.zeros(0))
except ValueError as error: print(type(error).__name__)
"""
    assert run(compiled, code) == ["False", "16.1463", "1", "0", "True", "0", "ValueError"]


def test_loaded_kernels_are_inlined_into_ones_compiled_later_and_both_are_kept(
    compiled: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(compiled, tmp_path / "copy"))
    code = f"{KERNEL}\nprint(round(caller(values), 4), *loaded(caller))"
    assert run(folder, code) == ["16.1463", "1", "0", "21.1463", "0", "1"]
    assert run(folder, code) == ["16.1463", "1", "0", "21.1463", "1", "0"]


def test_another_version_of_numba_loads_its_files_itself(compiled: Path) -> None:
    unknown = "from petabatch.kernels.cpu import loading; loading._KNOWN = ((0, 1), (0, 2))\n"
    used = "\nprint('numba.np.linalg' in sys.modules)"
    assert run(compiled, unknown + KERNEL + used) == ["16.1463", "1", "0", "True"]
