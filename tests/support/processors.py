"""Runs of the golden cases and of random networks as on other processors.

Kernels, BLAS, numpy and the C library follow each.

    python tests/support/processors.py [--networks 30] [--seed 0] [--names haswell,zen3,skylake-x]

It prints what differs, and the exit code is then 1. A processor that this machine cannot emulate is skipped,
with the reason.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from llvmlite import binding

TESTS = Path(__file__).parents[1]
_NEWER = ("X86_V4", "AVX512_ICL", "AVX512_SPR")
"""What numpy has code for beyond AVX2 (from version 2.4 on; others warn of names they do not know)."""
_GLIBC = "glibc.cpu.hwcaps=" + ",".join(
    f"-{name}" for name in ("AVX512F", "AVX512VL", "AVX512BW", "AVX512DQ")
)


class Processor(NamedTuple):
    """What emulates a processor: names that LLVM and OpenBLAS have for it, and whether it has AVX-512."""

    llvm: str
    blas: str
    wide: bool

    @property
    def environment(self) -> Mapping[str, str]:
        """The variables that make all libraries take it for the host."""
        narrow = {"NPY_DISABLE_CPU_FEATURES": " ".join(_NEWER), "GLIBC_TUNABLES": _GLIBC}
        common = {
            "NUMBA_CPU_NAME": self.llvm,
            "OPENBLAS_CORETYPE": self.blas,
            "NUMBA_DISABLE_INTEL_SVML": "1",
        }
        return common if self.wide else common | narrow


PROCESSORS = {
    "x86-64-v3": Processor("x86-64-v3", "Haswell", False),
    "x86-64-v4": Processor("x86-64-v4", "SkylakeX", True),
    "haswell": Processor("haswell", "Haswell", False),
    "zen3": Processor("znver3", "Zen", False),
    "skylake-x": Processor("skylake-avx512", "SkylakeX", True),
}


def unavailable(name: str) -> str:
    """Return why this machine cannot emulate a processor, "" if it can."""
    features = binding.get_host_cpu_features()
    needed = (
        "avx2",
        "fma",
        *(("avx512f", "avx512bw", "avx512dq", "avx512vl") if PROCESSORS[name].wide else ()),
    )
    missing = [one for one in needed if not features.get(one)]
    return f"this processor has no {', '.join(missing)}" if missing else ""


def output(name: str, *command: str) -> list[str]:
    """Return the lines that a Python command prints on a processor."""
    environment = {**os.environ, **PROCESSORS[name].environment, "PYTHONPATH": str(TESTS)}
    done = subprocess.run(
        [sys.executable, *command], env=environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stderr}")
    return done.stdout.splitlines()


def hashes(networks: int, seed: int) -> Iterator[str]:
    """Yield the hashes of what all networks are and record in the end, a line for each array."""
    from petabatch.errors import PetabatchError
    from petabatch.network.build import build
    from support import golden
    from support.random_networks.drawing import Drawing
    from support.random_networks.runs import Steps, run, with_run

    def lines(name: str, found: Steps) -> Iterator[str]:
        for key, array in sorted({**found.states[-1], **found.recorded}.items()):
            digest = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()[:16]
            yield f"{name}: {key} {digest}"

    warnings.simplefilter("ignore")
    for name in golden.names():
        yield from lines(name, run(golden.Case(name).network("auto")))
    with tempfile.TemporaryDirectory() as folder:
        done = 0
        while done < networks:
            seed += 1
            try:
                drawn, precision = Drawing(seed, Path(folder)).network(), ("float32", "float64")[seed % 2]
                network = with_run(drawn, precision=precision, kernel="auto")
                build(network)
                found = run(network)
            except PetabatchError:
                continue
            done += 1
            yield from lines(f"network {seed}", found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--networks", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--names", default="haswell,zen3,skylake-x")
    parser.add_argument("--hashes", action="store_true", help="print those of this processor")
    asked = parser.parse_args()
    if asked.hashes:
        print("\n".join(hashes(asked.networks, asked.seed)))
        return 0
    found: dict[str, list[str]] = {}
    for name in asked.names.split(","):
        if reason := unavailable(name):
            print(f"{name}: skipped, {reason}")
            continue
        arguments = ("--hashes", "--networks", str(asked.networks), "--seed", str(asked.seed))
        found[name] = output(name, __file__, *arguments)
        print(f"{name}: {len(found[name])} arrays", flush=True)
    first, *others = found
    wrong = 0
    for name in others:
        differing = sorted(set(found[name]) ^ set(found[first]))
        wrong += len(differing)
        print(f"{name} and {first}: {len(differing) // 2} arrays differ")
        print("\n".join(f"    {line}" for line in differing))
    return bool(wrong)


if __name__ == "__main__":
    sys.path.insert(0, str(TESTS))
    sys.exit(main())
