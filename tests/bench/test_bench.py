"""`petabatch bench`: what it measures adds up, and it says where there is no floor."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from petabatch import simulation
from petabatch.bench import EXAMPLE
from petabatch.bench.floor import Floor
from petabatch.bench.trial import Trial, run
from support.commands import Command
from support.gpu_runs import MISSING


def test_bench_reports_speed_floor_and_shares(small: Path, petabatch: Command) -> None:
    done = petabatch("bench", small, "-s", "run.kernel=dense", "--threads", 2, "--json", "found.json")
    assert done.returncode == 0, done.stderr
    assert "the dense sgemm of a step" in done.stdout
    assert "3 slices, 60 steps of displays of 10, " in done.stdout
    found = json.loads((small.parent / "found.json").read_text())
    assert [speed["threads"] for speed in found["speeds"]] == [1, 2]
    for speed in found["speeds"]:
        assert speed["slice_steps_per_second"] == pytest.approx(1e6 / speed["microseconds"])
        assert speed["times_floor"] > 0
    parts = {"project drive", "synthesize dictionary", "update error", "learning", "input"}
    assert parts <= set(found["shares"])
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert 0 < found["active"] < 1
    assert found["machine"]["blas"]
    assert all(blas in done.stdout for blas in found["machine"]["blas"])


@pytest.mark.long
def test_bench_divides_the_time_of_lazy_steps(small: Path, petabatch: Command) -> None:
    done = petabatch("bench", small, "-s", "run.kernel=lazy", "--threads", 1, "--json", "found.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((small.parent / "found.json").read_text())
    assert {"lazy update V1", "synthesize dictionary", "update error"} <= set(found["shares"])
    assert sum(found["shares"].values()) == pytest.approx(1)
    assert 0 < found["computed"]["V1"] < 1


def test_bench_says_what_slept(small: Path, petabatch: Command) -> None:
    flags = ("-s", "run.kernel=lazy", "-s", "layers.V1.border=mirror", "--threads", 1)
    done = petabatch("bench", small, *flags, "--json", "found.json")
    assert done.returncode == 0, done.stderr
    share = json.loads((small.parent / "found.json").read_text())["computed"]["V1"]
    assert 0 < share < 1
    assert f"units computed in a step, the others sleep: {share:.1%} of V1" in done.stdout


def test_bench_says_where_there_is_no_floor(small: Path, petabatch: Command) -> None:
    done = petabatch(
        "bench",
        small,
        "-s",
        "connections.dictionary.mode=non_shared",
        "-s",
        "run.batch=1",
        "--threads",
        1,
        "--steps",
        5,
    )
    assert done.returncode == 0, done.stderr
    assert "no floor" in done.stdout
    assert "1 slice, 5 steps of displays of 10, " in done.stdout
    assert "update V1" in " ".join(done.stdout.split())


def test_bench_measures_the_method_that_check_prints(small: Path, petabatch: Command) -> None:
    flags = ("-s", "layers.V1.border=mirror")
    done = petabatch("bench", small, *flags, "--threads", 1, "--steps", 5, "--json", "found.json")
    assert done.returncode == 0, done.stderr
    shares = json.loads((small.parent / "found.json").read_text())["shares"]
    assert "method: compiled program: error, V1, recon" in done.stdout
    assert "floor: the dense sgemm of a step" in done.stdout
    assert {"project drive", "synthesize dictionary", "update V1"} <= set(shares)
    assert "compiled program: error, V1, recon" in petabatch("check", small, *flags).stdout


def test_bench_of_a_gpu_that_is_not_there_is_an_error(small: Path, petabatch: Command) -> None:
    if MISSING is None:
        pytest.skip("there is a GPU here")
    refused = petabatch("bench", small, "-s", "run.device=gpu", "--steps", 5)
    assert refused.returncode == 1
    assert "run.device" in refused.stderr


def test_the_built_in_network_is_the_workload_it_claims_to_be() -> None:
    network = simulation.read(EXAMPLE, ["run.batch=2"]).network
    trial = Trial.of(network)
    assert (trial.steps, trial.slice_steps) == (400, 800)
    assert trial.patches is not None
    assert trial.patches.multiply_adds == 16 * 16 * 128 * 8 * 8 * 3
    engine = trial.engine(2)
    assert run(engine) > 0
    active = trial.active(engine)
    assert active is not None
    assert 0.02 < active < 0.2  # as sparse as photographs make it


def test_a_long_display_of_a_large_network_is_measured_in_part() -> None:
    network = simulation.read(EXAMPLE, ["run.batch=1000"]).network
    assert 10 <= Trial.of(network).steps < 400
    assert Trial.of(network, 7).steps == 7


def test_the_floor_does_the_arithmetic_of_a_step() -> None:
    patches = Trial.of(simulation.read(EXAMPLE).network).patches
    assert patches is not None
    floor = Floor.of_loop(patches, 16)
    seconds = min(floor.seconds(2) for _ in range(5))  # the machine may stand still during some
    assert floor.rate(seconds) == pytest.approx(4 * patches.multiply_adds / seconds)
    # Faster than one multiply-add of a scalar at a time, slower than any processor there is.
    assert 1e9 < floor.rate(seconds) < 1e13
