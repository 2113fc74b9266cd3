"""Kernels are compiled for a level of x86-64; processors of different levels give the same bits."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from petabatch.kernels.cpu.target import LEVELS
from support import processors
from support.processors import output, unavailable

NETWORKS = """
import hashlib
import numpy as np
from petabatch.kernels.cpu.products import multiply
from petabatch.kernels.cpu.target import lanes, target
from petabatch.spec.network import Run
from support.networks import images, lca_network, simulate
print(target(), lanes())
tried = ((64, "extra_shared", "auto"), (70, "shared", "dense"), (24, "non_shared", "auto"))
for features, mode, kernel in tried:
    data = images(2, shape=(20, 24, 3))
    network = lca_network(data, features, (8, 8), mode=mode, kernel=kernel, display=30, displays=3)
    engine, found = simulate(network)
    for key, array in sorted({**found, **engine.state.arrays}.items()):
        print(mode, key, array.dtype, hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest())
rng = np.random.default_rng(0)
for a, b in (((3, 40, 129), (3, 129, 70)), ((70, 300), (300, 70))):  # BLAS has other bits for each processor
    product = multiply(*(rng.normal(size=shape).astype(np.float32) for shape in (a, b)))
    print("product", hashlib.sha256(product.tobytes()).hexdigest())
"""


@pytest.mark.long
def test_processors_with_avx2_and_with_avx512_give_the_same_bits() -> None:
    if reason := unavailable("x86-64-v4"):
        pytest.skip(reason)
    lower, higher = (output(level, "-c", NETWORKS) for level in ("x86-64-v3", "x86-64-v4"))
    assert lower.pop(0) == "x86-64-v3 8"
    assert higher.pop(0) == "x86-64-v4 16"
    assert len(higher) > 30
    assert lower == higher
    random = ("--hashes", "--networks", "20", "--seed", "0")
    lower, higher = (output(level, processors.__file__, *random) for level in ("x86-64-v3", "x86-64-v4"))
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
