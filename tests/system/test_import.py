"""Lazy imports: `import petabatch` stays light."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HEAVY = {"numba", "h5py", "mpi4py", "cupy", "matplotlib", "scipy", "skimage", "xarray", "pydantic"}


def test_importing_petabatch_imports_nothing_heavy() -> None:
    code = f"import sys, petabatch; print(sorted({HEAVY!r} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_in_memory_is_also_found_by_its_former_name() -> None:
    code = (
        "import petabatch\n"
        "from petabatch import memory\n"
        "assert petabatch.memory is memory is petabatch.in_memory\n"
        "assert petabatch.memory.run.__module__ == 'petabatch.in_memory'"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_check_imports_neither_the_compiler_nor_what_files_need(small: Path) -> None:
    code = (
        "import sys\n"
        "from petabatch.cli import app\n"
        f"app(['check', {str(small)!r}], standalone_mode=False)\n"
        "print(sorted({'numba', 'llvmlite', 'scipy', 'h5py', 'mpi4py'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "step size" in done.stdout  # which needs the state of step 0
    assert done.stdout.splitlines()[-1] == "[]"


def test_one_process_imports_neither_mpi_nor_plotting() -> None:
    code = (
        "import sys\n"
        "from petabatch.connections import Identity\n"
        "from petabatch.layers import Constant, Linear\n"
        "from petabatch import Network, in_memory\n"
        "from petabatch.spec.network import Run\n"
        "layers = {'a': Constant(shape=(1, 1, 1)), 'b': Linear(shape=(1, 1, 1))}\n"
        "wires = {'c': Identity(pre='a', post='b')}\n"
        "in_memory.run(Network(run=Run(steps=2), layers=layers, connections=wires))\n"
        "print(sorted({'mpi4py', 'cupy', 'matplotlib', 'skimage', 'xarray'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
