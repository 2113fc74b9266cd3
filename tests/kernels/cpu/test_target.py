"""Kernels are compiled for a level of x86-64; those of different levels give the same bits."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from llvmlite import binding

from petabatch.kernels.cpu.target import LEVELS

NETWORKS = """
import hashlib, sys
import numpy as np
from petabatch.kernels.cpu.target import lanes, target
from petabatch.spec.network import Run
from support.networks import images, lca_network, simulate
print(target(), lanes(), file=sys.stderr)
tried = ((64, "extra_shared", "auto"), (70, "shared", "dense"), (24, "non_shared", "auto"))
for features, mode, kernel in tried:
    data = images(2, shape=(20, 24, 3))
    network = lca_network(data, features, (8, 8), mode=mode, kernel=kernel, display=30, displays=3)
    engine, found = simulate(network)
    for key, array in sorted({**found, **engine.state.arrays}.items()):
        print(mode, key, array.dtype, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
"""


def hashes(level: str, lanes: int) -> list[str]:
    """Return the hashes of all arrays after runs with kernels for a level, in another process."""
    done = subprocess.run(
        [sys.executable, "-c", NETWORKS],
        cwd=Path(__file__).parents[2], capture_output=True, text=True, check=True,
        env={**os.environ, "NUMBA_CPU_NAME": level},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == f"{level} {lanes}"
    return done.stdout.splitlines()


def test_kernels_for_avx2_and_for_avx512_give_the_same_bits() -> None:
    features = binding.get_host_cpu_features()
    if not all(features.get(name) for name in LEVELS["x86-64-v4"].split()):
        pytest.skip("this processor has no AVX-512")
    lower, higher = hashes("x86-64-v3", 8), hashes("x86-64-v4", 16)
    assert len(higher) > 20
    assert lower == higher


def test_where_numba_has_compiled_before_kernels_are_not_those_of_a_level() -> None:
    code = "import numba; numba.njit(lambda x: x)(1)\n"
    code += "from petabatch.kernels.cpu.target import target; print(target())"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NUMBA_CPU")}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() not in ("", *LEVELS)


def test_lanes_are_known_whatever_is_imported_first() -> None:
    code = "from petabatch.kernels.cpu.layout import PANEL; print(PANEL)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) in (8, 16, 32)
