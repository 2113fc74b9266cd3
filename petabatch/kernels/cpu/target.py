"""The processor that kernels are compiled for: a level of x86-64, not the model of the host.

Of two levels of AVX there is one set of kernels each, so that machines of a cluster share them, and an
installation can bring them along. `NUMBA_CPU_NAME` asks for another processor, as LLVM names it.
"""

from __future__ import annotations

import re
from functools import cache
from zlib import crc32

from llvmlite import binding
from numba.core import config
from numba.core.registry import cpu_target

LEVELS = {
    "x86-64-v4": "avx512f avx512bw avx512cd avx512dq avx512vl",
    "x86-64-v3": "avx2 bmi bmi2 f16c fma lzcnt movbe",
}
"""Levels from the highest on, and the features of a processor that has one."""
TUNING = {"x86-64-v4": "-prefer-256-bit"}
"""Of a level, what LLVM is told: to use the whole registers, which it does for no level by itself."""


@cache
def target() -> str:
    """Return the name of the target, and let numba compile for it.

    Where numba has compiled something before, it goes on as it began: for the features of the host. The name
    of such a target has a checksum of these.
    """
    if config.CPU_NAME is None:
        has = binding.get_host_cpu_features()
        levels = (name for name, needed in LEVELS.items() if all(map(has.get, needed.split())))
        config.CPU_NAME = next(levels, None)
    if config.CPU_NAME is not None and config.CPU_FEATURES is None:
        config.CPU_FEATURES = TUNING.get(config.CPU_NAME, "")  # of the processor named, not of the host
    _, name, features = cpu_target.target_context.codegen().magic_tuple()
    return str(name) if features == TUNING.get(name, "") else f"{name}-{crc32(features.encode()):08x}"


@cache
def lanes() -> int:
    """Return how many float32 one vector register of the target holds."""
    target()
    code = "define <16 x float> @f(<16 x float> %a) { %b = fadd <16 x float> %a, %a\n ret <16 x float> %b }"
    machine = cpu_target.target_context.codegen()._tm
    used = machine.emit_assembly(binding.parse_assembly(code))
    return 16 if re.search(r"\bzmm", used) else 8 if re.search(r"\bymm", used) else 4
