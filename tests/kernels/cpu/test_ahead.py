"""Kernels are compiled once, by one of the processes that need them, before they are called."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from petabatch.kernels import cache
from petabatch.kernels.cpu import claim
from petabatch.kernels.cpu.claim import is_claimed, leading, turn

MODULE = """
from petabatch.kernels.cpu.jit import njit
@njit()
def kernel(x):
    return x + 1
"""
COUNT = "from compiled import kernel; kernel(1); print(sum(kernel.stats.cache_misses.values()))"

NETWORKS = """
from petabatch.kernels.cpu import ahead, inner
known = {(id(kernel), kinds) for kernel, kinds in ahead.kernels().values()}
def note(self, cres, add=inner.Kernel.add_overload):
    if (id(self), tuple(cres.signature.args)) not in known:
        print("not ahead:", self.py_func.__qualname__, cres.signature.args)
    add(self, cres)
inner.Kernel.add_overload = note
from support.networks import images, lca_network, simulate
for mode in ("extra_shared", "shared", "non_shared"):
    for kernel in ("auto", "array"):
        for precision in ("float32", "float64"):
            if kernel == "auto" or precision == "float32":
                given = {"kernel": kernel, "precision": precision, "displays": 2, "display": 4}
                simulate(lca_network(images(2), mode=mode, **given))
import numpy as np
from petabatch.lasso import Lasso
from petabatch.learning.statistics import Statistics
for real in ("float32", "float64"):
    items = np.ones((3, 4), real)
    items.flags.writeable = False
    code = Lasso(np.eye(4, dtype=real), 0.5).solve(items).code
    Statistics.none(4, 4).with_items(code, items).fitted(np.eye(4))
print("done")
"""


def start(folder: Path, code: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache")}
    return subprocess.Popen(
        [sys.executable, "-c", code], cwd=folder, stdout=subprocess.PIPE, text=True, env=environment
    )


def test_processes_that_start_together_compile_a_kernel_once(tmp_path: Path) -> None:
    (tmp_path / "compiled.py").write_text(MODULE)
    runs = [start(tmp_path, COUNT) for _ in range(4)]
    assert sorted(run.communicate()[0].strip() for run in runs) == ["0", "0", "0", "1"]
    assert not list(tmp_path.rglob("*.claim"))


def test_a_kernel_that_a_lost_process_was_compiling_is_compiled_by_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "_LOST", 0.3)
    file = tmp_path / "a.kernel"
    Path(tmp_path, ".a.kernel.claim").touch()
    assert is_claimed(file)
    begun = time.monotonic()
    with turn(file):
        assert time.monotonic() - begun >= 0.3
        assert is_claimed(file)
    assert not is_claimed(file)


def test_claims_older_than_a_lost_one_are_lost_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claim, "_LOST", 0.3)
    for name, age in (("a", 10), ("older", 20), ("living", -5)):
        one = tmp_path / f".{name}.kernel.claim"
        one.touch()
        os.utime(one, (time.time() - age,) * 2)
    with turn(tmp_path / "a.kernel"):
        assert not is_claimed(tmp_path / "older.kernel")
        assert is_claimed(tmp_path / "living.kernel")


def test_one_of_several_processes_leads(tmp_path: Path) -> None:
    with leading(tmp_path) as first, leading(tmp_path) as second:
        assert first
        assert not second
    with leading(tmp_path) as first:
        assert first
    with leading(tmp_path / "missing") as first:
        assert not first


def test_a_process_that_compiles_for_long_keeps_its_claim(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claim, "_BEAT", 0.05)
    file = tmp_path / "a.kernel"
    with turn(file):
        first = Path(tmp_path, ".a.kernel.claim").stat().st_mtime_ns
        deadline = time.monotonic() + 60
        while Path(tmp_path, ".a.kernel.claim").stat().st_mtime_ns == first:
            assert time.monotonic() < deadline
            time.sleep(0.01)


def test_a_kernel_whose_file_is_there_has_no_claim(tmp_path: Path) -> None:
    file = tmp_path / "a.kernel"
    file.touch()
    with turn(file):
        assert not is_claimed(file)


def test_where_no_file_can_be_made_every_process_compiles(tmp_path: Path) -> None:
    with turn(tmp_path / "missing" / "a.kernel"):
        assert not list(tmp_path.iterdir())


def test_no_file_no_cache_and_the_kernel_works(tmp_path: Path) -> None:
    (tmp_path / "compiled.py").write_text(MODULE)
    (tmp_path / "cache").write_text("no folder")
    run = start(tmp_path, COUNT)
    assert run.communicate()[0].strip() == "1"
    assert run.returncode == 0


def test_the_identity_is_that_of_another_process(tmp_path: Path) -> None:
    run = start(tmp_path, "from petabatch.kernels import cache; print(cache.identity())")
    assert run.communicate()[0].strip() == cache.identity()


def test_what_a_run_compiles_can_be_compiled_ahead() -> None:
    tests = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", NETWORKS], cwd=tests, capture_output=True, text=True)
    assert done.stdout.split("\n") == ["done", ""], done.stdout + done.stderr
