"""Memory: `check` warns of a run that does not fit, `run` refuses it before anything is allocated."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from petabatch import simulation
from petabatch.engine.engine import Engine
from petabatch.engine.features import AllFeatures
from petabatch.engine.steppers.program import Tabulated
from petabatch.errors import ResourceError
from petabatch.main import main
from petabatch.network.build import build
from petabatch.network.evaluation import held_out
from petabatch.network.plan import schedule
from petabatch.parallel import host_memory
from petabatch.parallel.comm import Serial
from petabatch.parallel.host_memory import Limit
from petabatch.report import memory
from petabatch.spec.network import Evaluate
from petabatch.spec.schedule import Every
from support.lazy_codes import random_loops
from support.networks import GivenImages, images, lca_network
from support.processes import PATIENCE

HUGE = ("run.batch=16", "layers.image.shape=[2000, 2000, 3]", "layers.error.shape=[2000, 2000, 3]",
        "layers.recon.shape=[2000, 2000, 3]", "layers.V1.shape=[1000, 1000, 128]")  # fmt: skip


class TwoRanks(Serial):
    """Rank 0 of two on one host, which need as much."""

    def __init__(self) -> None:
        super().__init__()
        self.hosts = (*self.hosts, *self.hosts)

    def gather(self, value: object) -> list[object]:
        return [value, value]


def test_check_warns_of_a_run_that_does_not_fit_and_run_refuses_it(
    small: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(memory, "host_limit", lambda: Limit(1 << 30, "a limit"))
    monkeypatch.setattr(sys, "stdout", sys.stdout)  # which the command line replaces
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    settings = [part for setting in HUGE for part in ("-s", setting)]
    for command, code in (("check", 0), ("run", 1)):
        out = ["--out", str(small.parent / "out")] if command == "run" else []
        monkeypatch.setattr(sys, "argv", ["petabatch", command, str(small), *settings, *out])
        with pytest.raises(SystemExit) as ended:
            main()
        said = "".join(capfd.readouterr())
        assert ended.value.code == code, said
        assert "GiB" in said
        assert "16 slices need about" in said or "this run needs more memory than there is" in said
    assert not (small.parent / "out").exists()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


def test_the_ranks_of_a_host_are_summed_up(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = simulation.plan(simulation.read(small))
    limit = Limit(int(1.5 * memory.estimate(plan, 2, 1)), "a limit")
    monkeypatch.setattr(memory, "host_limit", lambda: limit)
    memory.refuse_shortage(plan, Serial(), 2, 1)
    with pytest.raises(ResourceError, match=r"on 2 ranks of .*\n    expected: at most .*iB, a limit"):
        memory.refuse_shortage(plan, TwoRanks(), 2, 1)


def test_the_engine_of_an_evaluation_counts() -> None:
    network = lca_network(images(2), mode="shared", kernel="array")
    held = Evaluate.model_construct(source=GivenImages(data=images(2)), every=Every(1, "displays"))
    alone, both = (
        memory.needed(schedule(build(one)), 2, 1)
        for one in (network, network.model_copy(update={"evaluate": held}))
    )
    of_coder = Engine(schedule(build(held_out(network.model_copy(update={"evaluate": held})))), Serial(), 1)
    state = sum(array.nbytes for array in of_coder.state.arrays.values())
    assert both - alone >= state


@pytest.mark.parametrize("seed", range(3))
def test_what_programs_keep_of_lazily_evaluated_codes_counts(seed: int) -> None:
    plan = schedule(build(random_loops(seed)))
    tables = Tabulated.of(plan, AllFeatures(plan)).tables
    assert plan.method.stepper == "program"
    own = sum(length * np.dtype(kind).itemsize for length, kind in tables.own.values())
    assert 0 < own * 0.9 <= memory._bound(plan) <= own * 1.1


def test_check_counts_what_only_a_run_imports(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = simulation.plan(simulation.read(small))
    of_run = memory.estimate(plan, 1, 1)
    monkeypatch.delitem(sys.modules, "numba")
    assert memory.estimate(plan, 1, 1) - of_run > 50 << 20


def test_the_address_limit_counts_and_no_run_is_started_below_it(small: Path) -> None:
    command = f"ulimit -v 450000; exec {sys.executable} -m petabatch run {small} --out out"
    done = subprocess.run(
        ["bash", "-c", command], cwd=small.parent, capture_output=True, text=True, check=False,
        timeout=PATIENCE, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1, done.stderr
    assert "address space" in done.stderr
    assert not (small.parent / "out").exists()


def test_the_smallest_limit_of_all_control_groups_above_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_memory, "_CGROUPS", tmp_path)
    mine = Path("/proc/self/cgroup").read_text().splitlines()
    unified = next((line.split(":", 2)[2] for line in mine if line.startswith("0::")), None)
    if unified is None:
        pytest.skip("this machine has no control groups of version 2")
    group = tmp_path / unified.lstrip("/")
    group.mkdir(parents=True, exist_ok=True)
    (tmp_path / "memory.max").write_text("max\n")
    (group / "memory.max").write_text("50000000\n")
    assert host_memory.host_limit().nbytes == 50_000_000
    assert "control group" in host_memory.host_limit().what


@pytest.mark.parametrize("rows", [1, 8])
@pytest.mark.long
def test_a_large_image_takes_no_more_than_is_estimated(rows: int, tmp_path: Path) -> None:
    np.save(
        tmp_path / "image.npy", np.random.default_rng(1).normal(size=(2, 1536, 1536, 3)).astype(np.float32)
    )
    done = subprocess.run(
        [sys.executable, "-c", _LARGE, str(rows)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    taken, estimated = map(float, done.stdout.split())
    assert 0.5 * estimated < taken < 1.01 * estimated  # and some pages of the interpreter


_LARGE = r"""
import re, sys
from pathlib import Path
from petabatch.engine.lone_part import LonePart
from petabatch.connections import Conv
from petabatch.layers import LCA, Input
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.sparse_coding import sparse_coding
from petabatch.parallel.comm import Serial
from petabatch.report.memory import needed
from petabatch.sources import ImageArray
from petabatch.spec.network import Parallel, Run
from petabatch.weights import Gaussian

STATUS = Path("/proc/self/status")

def resident(which):
    return int(re.search(which + r":\s+(\d+)", STATUS.read_text())[1]) * 1024

def taken(side, rows):
    network = sparse_coding(
        Input(shape=(side, side, 3), source=ImageArray(file="image.npy", crop="top_left")),
        LCA(shape=(side // 16, side // 16, 16), tau=20.0, threshold=1.5),
        Conv(pre="V1", post="recon", patch=(16, 16), init=Gaussian()),
        run=Run(batch=1, display=4, displays=2, kernel="dense"),
    ).model_copy(update={"parallel": Parallel(rows=rows)})
    part = LonePart(schedule(build(network)), Serial(), 1)
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before, mapped = resident("VmRSS"), resident("RssFile")
    engine = part.engine()
    engine.start()
    for step in drive(engine):
        engine.recorder.take(step)
        engine.flushed()
    mapped = resident("RssFile") - mapped  # of the images, which the system drops when it needs the memory
    return resident("VmHWM") - before - mapped, needed(engine.plan, 1, 1)

taken(64, 1)
print(*taken(1536, int(sys.argv[1])))
"""
