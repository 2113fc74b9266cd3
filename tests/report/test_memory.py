"""Memory: `check` warns of a run that does not fit, `run` refuses it before anything is allocated."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tracemalloc
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import simulation
from petabatch.connections import Conv
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.features import AllFeatures
from petabatch.engine.lone_part import LonePart
from petabatch.engine.steppers.program import Tabulated
from petabatch.errors import ResourceError
from petabatch.layers import LCA, Input
from petabatch.learning.adam import Adam
from petabatch.learning.hebbian import Hebbian
from petabatch.main import main
from petabatch.network.build import build
from petabatch.network.evaluation import held_out
from petabatch.network.plan import schedule
from petabatch.network.sparse_coding import sparse_coding
from petabatch.parallel import host_memory
from petabatch.parallel.comm import Serial
from petabatch.parallel.host_memory import Limit
from petabatch.report import memory
from petabatch.sources import ImageArray
from petabatch.spec.network import Evaluate, Network, Run
from petabatch.spec.schedule import Every
from petabatch.weights import L2, Gaussian
from petabatch.weights.normalisers import ContrastZeroMean
from petabatch.weights.random import Uniform
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


_LEARN: dict[str, Any] = {
    "fixed": {},
    "hebbian": {"learn": Hebbian(rate=0.1, error="error"), "normalize": L2()},
    "momentum": {"learn": Hebbian(rate=0.1, error="error", momentum=0.5, decay=0.1, clip=1.0)},
    "adam": {"learn": Adam(rate=0.1, error="error")},
    "contrast": {"normalize": ContrastZeroMean()},
    "levels": {"init": Uniform(levels=3, sparsity=0.5)},
}


@pytest.mark.parametrize("mode", ["non_shared", "extra_non_shared"])
@pytest.mark.parametrize("keys", _LEARN.values(), ids=_LEARN)
def test_weights_of_each_position_take_what_is_estimated(keys: dict[str, Any], mode: str) -> None:
    network = sparse_coding(
        Input(shape=(40, 40, 3), source=ImageArray(data=np.ones((1, 40, 40, 3), np.float32))),
        LCA(shape=(20, 20, 10), threshold=0.5),
        Conv(pre="V1", post="recon", patch=(12, 12), mode=mode, **{"init": Gaussian(), **keys}),
        run=Run(batch=2, display=2, displays=2),
    )

    def run() -> int:
        part = LonePart(schedule(build(network)), Serial(), 1)
        engine = part.engine()
        engine.start()
        for step in drive(engine):
            engine.recorder.take(step)
            engine.flushed()
        return memory.needed(engine.plan, 2, 1)

    assert_near_the_peak(run)


@pytest.mark.parametrize("batch", [1, 3])
def test_weights_seen_from_the_post_layer_take_what_is_estimated(batch: int) -> None:
    network = Network(
        run=Run(batch=batch, steps=2),
        layers={
            "image": Input(shape=(40, 40, 3), source=ImageArray(data=np.ones((1, 40, 40, 3), np.float32))),
            "V1": LCA(shape=(20, 20, 10)),
        },
        connections={
            "d": Conv(pre="image", post="V1", patch=(6, 6), mode="non_shared", init=Gaussian()),
        },
    )

    def run() -> int:
        engine = LonePart(schedule(build(network)), Serial(), 1).engine()
        engine.start()
        deque(drive(engine), 0)
        return memory.needed(engine.plan, batch, 1)

    seen = memory._seen(schedule(build(network)), batch)
    assert seen > 0
    assert_near_the_peak(run, seen, 0.97)  # and places of weights, which are few in larger networks


def assert_near_the_peak(run: Callable[[], int], untouched: int = 0, least: float = 0.99) -> None:
    """Assert that a run takes what it returns, but for memory that is `untouched` at its peak."""
    estimated = run()  # kernels are loaded
    tracemalloc.start()
    run()
    taken = tracemalloc.get_traced_memory()[1] - untouched
    tracemalloc.stop()
    assert least * taken < estimated < 1.1 * taken


def test_the_hint_says_what_helps_one_slice_and_points_of_a_sweep(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, batch, hint in (
        (0.5, 1, "one slice needs more than there is"),
        (0.5, 3, "lower run.batch, record less, use smaller layers, or distribute"),
    ):
        plan = simulation.plan(simulation.read(small, [f"run.batch={batch}"]))
        most = Limit(int(limit * memory.estimate(plan, batch, 1)), "a limit")
        monkeypatch.setattr(memory, "host_limit", lambda most=most: most)
        with pytest.raises(ResourceError, match=f"hint: +{hint}"):
            memory.refuse_shortage(plan, Serial(), batch, 1)
    small.write_text(f"{small.read_text()}\n[sweep]\nrun.seed = [1, 2]\n")
    plan = simulation.plan(simulation.read(small, ["connections.dictionary.mode=shared"]))
    with pytest.raises(ResourceError, match=r"hint: +give a lower sweep\.wave, or lower run\.batch"):
        memory.refuse_shortage(plan, Serial(), plan.graph.network.batch, 1)


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
from petabatch.engine.driver import drive
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
