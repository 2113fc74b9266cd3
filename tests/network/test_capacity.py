"""Far too many slices, points or synapses are an error at once, which says how many there may be."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, simulation
from petabatch.connections import Sparse
from petabatch.connections.coordinates import read_coordinates
from petabatch.errors import InputError, ParamsError, Problem
from petabatch.layers import Neurons
from petabatch.network import capacity
from petabatch.network.build import build
from petabatch.network.capacity import check_capacity, least_bytes
from petabatch.parallel.host_memory import Limit, used
from petabatch.sources import npz
from petabatch.spec.network import Network, Run
from petabatch.spec.sweep import Sweep
from support.networks import images, lca_network

GIB = 1 << 30
HERE = Limit(16 * GIB, "the physical memory")


@pytest.fixture(autouse=True)
def machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "host_limit", lambda: HERE)


def problem_of(file: Path, *settings: str) -> Problem:
    """Return the only problem of a params file, which takes less than two seconds to be found."""
    begin = time.process_time()
    with pytest.raises(ParamsError) as raised:
        simulation.plan(simulation.read(file, settings))
    assert time.process_time() - begin < 2
    (problem,) = raised.value.problems
    return problem


@pytest.mark.parametrize(
    "table",
    [
        "layers.V1.threshold = { start = 0.1, stop = 1, count = 1_000_000 }",
        "layers.V1.threshold = { start = 0.1, stop = 1, count = 1000 }\n"
        "layers.V1.tau = { start = 10, stop = 100, count = 1000 }",
        "run.seed = { start = 1, stop = 1_000_000, count = 1_000_000 }",
    ],
)
def test_a_million_points_are_an_error_at_once_that_says_how_many_may_be(small: Path, table: str) -> None:
    text = f"{small.read_text()}\n[sweep]\n{table}\n"
    small.write_text(text)
    problem = problem_of(small)
    assert text.splitlines()[(problem.line or 0) - 1] == "[sweep]"
    assert (problem.key, problem.message) == ("sweep", "there are more points than fit")
    assert problem.found.startswith("1,000,000 points of 3 slices, which need at least ")
    assert problem.expected == "at most 100,000 points, each of which is planned on its own"
    larger = problem_of(small, "layers.V1.shape=[60, 60, 8]")
    fit = 16 * GIB // least_bytes(simulation.read(small, ["layers.V1.shape=[60, 60, 8]"]).network)
    assert larger.expected == f"at most {fit:,} points, which fit 16.0 GiB, the physical memory"
    assert 0 < fit < 100_000


def test_too_many_slices_and_a_million_values_are_an_error_at_once(small: Path) -> None:
    problem = problem_of(small, "run.batch=10_000_000")
    fit = 16 * GIB // least_bytes(simulation.read(small).network)
    assert (problem.key, problem.found.partition(" slices")[0]) == ("run.batch", "10,000,000")
    assert problem.expected == f"at most {fit:,} slices, which fit 16.0 GiB, the physical memory"
    network = simulation.read(small).network.model_copy(update={"slices": {"layers.V1.tau": (1.0,) * 10**6}})
    begin = time.process_time()
    with pytest.raises(ParamsError, match=r"layers.V1.tau: there is not one value for each slice\n.*1000000"):
        in_memory.run(network)
    assert time.process_time() - begin < 2


def test_slices_and_points_of_which_not_even_one_fits_are_told_so(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    each = least_bytes(simulation.read(small).network)
    monkeypatch.setattr(capacity, "host_limit", lambda: Limit(each - 1, "the physical memory"))
    problem = problem_of(small, "run.batch=10_000_000")
    assert (problem.key, problem.message) == ("layers", "one slice needs more memory than there is")
    assert problem.hint == "use smaller layers"
    small.write_text(
        f"{small.read_text()}\n[sweep]\nrun.seed = {{ start = 1, stop = 9_000, count = 9_000 }}\n"
    )
    problem = problem_of(small)
    assert problem.message == "one point of 3 slices needs more memory than there is"
    assert problem.hint == "use smaller layers, or lower run.batch"


@pytest.mark.parametrize("key", ["probability", "in_degree", "out_degree", "number"])
def test_the_key_that_asks_for_too_many_synapses_is_named(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setattr(capacity, "memory_limit", lambda: Limit(1000, "this machine"))
    with pytest.raises(ParamsError) as raised:
        build(synapses((1, 1, 100), **{key: 1.0 if key == "probability" else 50}))
    assert raised.value.problems[0].hint == f"a lower {key}, or smaller layers"


def test_more_hosts_have_more_memory_and_few_slices_are_judged_by_their_plan() -> None:
    net = lca_network(images(1), mode="shared")
    many = net.model_copy(update={"run": net.run.model_copy(update={"batch": 10**7})})
    hosts = -(-(10**7) * least_bytes(many) // (16 * GIB))
    check_capacity(many, hosts)
    with pytest.raises(ParamsError, match=f"the physical memory of {hosts - 1} hosts"):
        check_capacity(many, hosts - 1)
    large = net.layers["V1"].model_copy(update={"shape": (10_000, 10_000, 100)})
    check_capacity(net.model_copy(update={"layers": {**net.layers, "V1": large}}))


def test_ranks_without_a_slice_are_refused(small: Path) -> None:
    problem = problem_of(small, "run.batch=3", "parallel.batch=4")
    assert (problem.key, problem.found) == ("parallel.batch", "4 ranks, 3 slices")
    sweep = "sweep.layers.V1.threshold=[0.2, 0.3, 0.4, 0.5]"
    points = ("run.batch=1", sweep, "connections.dictionary.mode='shared'", "parallel.batch=4")
    simulation.plan(simulation.read(small, points))


LINE = (1, 10_000_000, 1)
GRID = (1000, 1000, 1)
MANY: dict[str, dict[str, Any]] = {
    "all pairs": {"shape": (1, 1, 100_000), "probability": 1.0},
    "all pairs but oneself": {"shape": (1, 1, 100_000), "probability": 1.0, "self_connections": False},
    "few of very many pairs": {"shape": LINE, "probability": 0.001},
    "onto each unit": {"shape": LINE, "in_degree": 1_000_000},
    "of each unit": {"shape": LINE, "out_degree": 1_000_000},
    "a number": {"shape": (1, 1, 10), "number": 10**15},
    "features of positions": {"shape": (5, 5, 200_000), "probability": 1.0, "mode": "extra_shared"},
    "a wide profile": {"shape": GRID, "probability": 1.0, "profile": {"width": 500.0}},
    "a profile and a degree": {"shape": GRID, "in_degree": 100_000, "profile": {"width": 500.0}},
}
MOST_MEMORY = 2 * GIB


def synapses(shape: tuple[int, int, int], **keys: Any) -> Network:
    keys = {"init": {"type": "constant", "value": 1.0}, **keys}
    units = Neurons(shape=shape, equations="dv/dt = -v", spike="v > 1")
    return Network(
        run=Run(steps=10),
        layers={"n": units},
        connections={"s": Sparse(pre="n", post="n", target="v", **keys)},
    )


@pytest.fixture
def little_memory() -> Iterator[None]:
    """Have allocations fail that would take this process far beyond what it has."""
    before, (_, now) = resource.getrlimit(resource.RLIMIT_AS), used()
    resource.setrlimit(resource.RLIMIT_AS, (now + MOST_MEMORY, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_AS, before)


@pytest.mark.usefixtures("little_memory")
@pytest.mark.parametrize("keys", MANY.values(), ids=MANY)
def test_synapses_that_do_not_fit_are_refused_before_any_is_drawn(keys: dict[str, Any]) -> None:
    begin = time.process_time()
    with pytest.raises(ParamsError, match="there are more synapses than fit into memory") as raised:
        build(synapses(**keys))
    assert time.process_time() - begin < 3
    (problem,) = raised.value.problems
    assert problem.key == "connections.s"
    assert "its limit (ulimit -v)" in problem.expected


def test_the_profile_of_a_sweep_is_looked_at_in_all_points(monkeypatch: pytest.MonkeyPatch) -> None:
    net = synapses((1, 1, 100), probability=0.01, mode="non_shared")
    sweep = Sweep(connections={"s": {"probability": [0.01, 0.9]}})
    monkeypatch.setattr(capacity, "memory_limit", lambda: Limit(5000 * capacity.SYNAPSE, "this machine"))
    build(net)
    with pytest.raises(ParamsError, match=r"found: +about 9,000, which") as raised:
        build(net.model_copy(update={"sweep": sweep}))
    assert "at most 5,000, which fit 117.2 KiB, this machine" in str(raised.value)


def test_synapses_of_all_connections_count(monkeypatch: pytest.MonkeyPatch) -> None:
    net = synapses((1, 1, 100), probability=0.5)
    more = {**net.connections, "t": net.connections["s"].model_copy(update={"probability": 0.4})}
    monkeypatch.setattr(capacity, "memory_limit", lambda: Limit(5000 * capacity.SYNAPSE, "this machine"))
    build(net)
    with pytest.raises(ParamsError, match=r"about 5,000, 9,000 with those of other connections"):
        build(net.model_copy(update={"connections": more}))


def test_distances_of_very_many_pairs_are_refused() -> None:
    with pytest.raises(ParamsError, match="too many pairs of units whose distance is to be looked at"):
        build(synapses(LINE, probability=1.0, profile={"width": 3.0}))


def test_the_command_refuses_synapses_within_its_memory(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(
        '[run]\nsteps = 10\n[layers.n]\ntype = "neurons"\nshape = [1, 1, 100000]\nequations = "dv/dt = -v"\n'
        'spike = "v > 1"\n[connections.s]\ntype = "sparse"\npre = "n"\npost = "n"\ntarget = "v"\n'
        'probability = 1.0\ninit = { type = "constant", value = 1.0 }\n'
    )
    limited = f"ulimit -v {4 * GIB >> 10}; exec '{sys.executable}' -m petabatch "
    for command in (f"check '{file}'", f"run '{file}' --out '{tmp_path / 'out'}'"):
        done = subprocess.run(
            ["sh", "-c", limited + command], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, "net.toml:8: connections.s: there are more synapses" in done.stderr) == (
            2,
            True,
        )
        assert not (tmp_path / "out").exists()


def test_an_archive_that_does_not_fit_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    zeros = np.zeros(100_000)
    np.savez_compressed(tmp_path / "a.npz", row=zeros.astype(int), col=zeros.astype(int), data=zeros)
    monkeypatch.setattr(npz, "memory_limit", lambda: Limit(7_000_000, "this machine"))
    with pytest.raises(InputError, match=r"do not fit into memory(.|\n)*found: +2\.3 MiB"):
        read_coordinates(str(tmp_path / "a.npz"), 1, 1)
