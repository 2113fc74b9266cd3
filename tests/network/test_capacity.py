"""Far too many slices or points are an error at once, which says how many there may be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from petabatch import in_memory, simulation
from petabatch.errors import ParamsError, Problem
from petabatch.network import capacity
from petabatch.network.capacity import check_capacity, least_bytes
from petabatch.parallel.host_memory import Limit
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
