"""Ranks that differ in libraries, CPU kernels or params are detected before the run."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from support.commands import BIN, alone, contents
from support.processes import PATIENCE
from support.processors import PROCESSORS, unavailable

pytestmark = pytest.mark.mpi


def two(small: Path, options: list[str], other: Path) -> subprocess.CompletedProcess[str]:
    """Run `small` on rank 0, and on rank 1 `other`, there with options for mpirun."""
    run = [str(BIN / "petabatch"), "run"]
    rest = ["--out", "out", "-q", "--threads", "1"]
    return subprocess.run(
        [
            *(str(BIN / "mpirun"), "-n", "1", *run, str(small), *rest),
            *(":", "-n", "1", *options, *run, str(other), *rest),
        ],
        cwd=small.parent,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_another_version_of_a_library_on_one_rank_is_refused(small: Path) -> None:
    old = small.parent / "old" / "h5py-0.1.dist-info"
    old.mkdir(parents=True)
    (old / "METADATA").write_text("Metadata-Version: 2.1\nName: h5py\nVersion: 0.1\n")
    path = f"{old.parent}:{Path(__file__).parents[1]}"
    refused = two(small, ["-env", "PYTHONPATH", path], small)
    assert refused.returncode != 0
    assert "h5py is not the same on all ranks" in refused.stderr
    assert "0.1 on rank 1" in refused.stderr
    assert not (small.parent / "out").exists()


@pytest.mark.parametrize("key", ['kernel = "array"\nprecision = "float64"', 'kernel = "array"'])
def test_other_blas_kernels_on_one_rank_are_refused(small: Path, key: str) -> None:
    small.write_text(small.read_text().replace("[run]", f"[run]\n{key}"))
    refused = two(small, ["-env", "OPENBLAS_CORETYPE", "Nehalem"], small)
    assert refused.returncode != 0
    assert "BLAS is not the same on all ranks" in refused.stderr
    assert "Nehalem on rank 1" in refused.stderr


@pytest.mark.long  # compiles the kernels of another processor
def test_ranks_of_different_processors_have_the_bits_of_one(small: Path) -> None:
    if reason := unavailable("x86-64-v4"):
        pytest.skip(reason)
    other = PROCESSORS["x86-64-v3"].environment
    done = two(small, [word for name, value in other.items() for word in ("-env", name, value)], small)
    assert done.returncode == 0, done.stderr
    assert contents(small.parent / "out" / "run.h5") == contents(alone(small, "one") / "run.h5")


def test_other_params_on_one_rank_are_refused(small: Path) -> None:
    other = small.parent / "other.toml"
    other.write_text(small.read_text().replace("threshold = 0.3", "threshold = 0.30001"))
    refused = two(small, [], other)
    assert refused.returncode != 0
    assert "params is not the same on all ranks" in refused.stderr
    assert "on rank 0" in refused.stderr
    assert "on rank 1" in refused.stderr
