"""The GPU engine: on an emulated GPU everywhere, on a real one where there is one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import session, simulation
from petabatch.cli.networks import check
from petabatch.engine import assembly
from petabatch.engine.engine import Engine
from petabatch.engine.gpu import detect
from petabatch.engine.gpu.choose import announce, choose
from petabatch.engine.gpu.start_ranks import ranks_command, start_ranks
from petabatch.engine.steppers.cuda import CudaStepper
from petabatch.errors import ParamsError, PetabatchError, ResourceError, StoppedEarly
from petabatch.layers.timescale import KneeTimeScale
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.parallel.reduce import ExactSum
from petabatch.spec.network import Network, Run
from support import golden
from support.commands import Command, alone, contents, datasets, set_all
from support.dead_features import FRESH
from support.dead_features import network as with_dead_features
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import MISSING, assert_near, network, simulate, window
from support.image_margins import MIRRORED
from support.image_margins import network as with_margins
from support.networks import images, lca_network
from support.online import UPDATES
from support.online import network as online
from support.processes import PATIENCE
from support.strict_arrays import far

emulated = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
real = pytest.mark.skipif(MISSING is not None, reason=f"no GPU here: {MISSING}")


@pytest.mark.sampled(2)
@emulated
@pytest.mark.parametrize("kernel", ["display", "step", "array"])
@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_a_learning_run_on_a_gpu_agrees_with_the_cpu(kernel: str, mode: str) -> None:
    engine, found = simulate(network(device="gpu", kernel=kernel, mode=mode), EmulatedGpu())
    assert isinstance(engine.lanes[0].stepper, CudaStepper) == (kernel != "array")
    assert [lane.lanes for lane in engine.lanes] == [slice(0, 5)]
    assert_near(found, simulate(network(mode=mode))[1], 1e-5)


@emulated
@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_dead_features_start_again_as_on_the_cpu(mode: str) -> None:
    _, found = simulate(with_dead_features(FRESH, mode=mode, device="gpu"), EmulatedGpu())
    assert_near(found, simulate(with_dead_features(FRESH, mode=mode))[1], 1e-5)


@emulated
@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
@pytest.mark.parametrize("kernel", ["array", "display"])
def test_statistics_are_those_of_the_cpu(mode: str, kernel: str) -> None:
    shown, given = images(6, UPDATES, (12, 12, 2)), {"mode": mode, "features": 6}
    _, found = simulate(online(shown, 4, device="gpu", kernel=kernel, **given), EmulatedGpu())
    assert_near(found, simulate(online(shown, 4, **given))[1], 1e-4)


@emulated
def test_margins_of_images_are_seen_as_on_the_cpu() -> None:
    here = with_margins("image", MIRRORED)
    there = here.model_copy(update={"run": here.run.model_copy(update={"device": "gpu"})})
    assert_near(simulate(there, EmulatedGpu())[1], simulate(here)[1], 1e-5)


@emulated
@pytest.mark.parametrize("reduce", ["exact", "overlapped"])
def test_a_batch_larger_than_memory_runs_in_several_lanes_with_the_same_bits(reduce: str) -> None:
    wanted = network(device="gpu", reduce=reduce)
    whole, found = simulate(wanted, EmulatedGpu())
    parts, others = simulate(wanted, window(2, wanted))
    assert len(parts.lanes) == 3
    for path in found:
        assert found[path].tobytes() == others[path].tobytes(), path
    whole.collect()
    parts.collect()
    for key, array in whole.state.saved().items():
        assert array.tobytes() == parts.state.saved()[key].tobytes(), key


def test_arrays_of_the_emulated_gpu_refuse_those_of_the_host() -> None:
    near, there = np.ones(3), far.asarray(np.ones(3))
    for mix in (lambda: near * there, lambda: far.where(near > 0, there, 0), lambda: np.stack([near, there])):
        with pytest.raises(TypeError, match="mixed"):
            mix()
    with pytest.raises(TypeError, match="mixed"):
        there[...] = near


def test_a_network_that_does_not_fit_in_memory_is_refused() -> None:
    with pytest.raises(ResourceError, match="does not fit in the memory"):
        Engine(schedule(build(network(device="gpu"))), Serial(), 1, EmulatedGpu(1000.0))


@emulated
def test_a_network_without_a_loop_runs_layer_by_layer_unless_a_kernel_is_pinned() -> None:
    found = simulate(network(device="gpu", precision="float64"), EmulatedGpu())[1]
    assert_near(found, simulate(network(precision="float64"))[1], 1e-12)
    for kernel in ("display", "step"):
        with pytest.raises(ParamsError, match="precision is float64"):
            build(network(device="gpu", precision="float64", kernel=kernel))


@emulated
@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_adaptive_time_scales_follow_the_energy_as_on_the_cpu(kernel: str) -> None:
    def adaptive(**run: Any) -> Network:
        plain = network(**run)
        scale = KneeTimeScale(energy="energy", minimum=0.5, maximum=0.6)
        code = plain.layers["V1"].model_copy(update={"time_scale": scale})
        return plain.model_copy(update={"layers": {**plain.layers, "V1": code}})

    found = simulate(adaptive(device="gpu", kernel=kernel), EmulatedGpu())[1]
    assert_near(found, simulate(adaptive())[1], 1e-4)


@emulated
def test_a_run_continues_on_another_device_and_back(small: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        assembly, "choose", lambda network, comm: EmulatedGpu() if network.run.device == "gpu" else None
    )
    out, alone = small.parent / "changing", small.parent / "alone"
    loaded = simulation.read(small)
    simulation.run(loaded, alone, quiet=True)
    for number, device in enumerate(("cpu", "gpu", "cpu")):
        last = 20 * (number + 1)

        def stops(self: session.RunSession, last: int = last) -> bool:
            return self.engine.step >= last

        monkeypatch.setattr(session.RunSession, "_out_of_time", stops)
        if number == 0:
            with pytest.raises(StoppedEarly):
                simulation.run(loaded, out, quiet=True)
        elif last < 60:
            with pytest.raises(StoppedEarly):
                simulation.resume(out, quiet=True, device=device)
        else:
            simulation.resume(out, quiet=True, device=device)
    from petabatch.results import open as open_results

    with open_results(out) as run, open_results(alone) as expected:
        assert run.steps_reached == 60
        for name in expected.names():
            a, b = run[name][...], expected[name][...]
            assert np.linalg.norm(a - b) <= 1e-4 * np.linalg.norm(b), name


def test_a_gpu_asked_for_and_missing_is_an_error_that_says_why(
    monkeypatch: pytest.MonkeyPatch, petabatch: Command, small: Path
) -> None:
    if MISSING is None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    done = petabatch("run", small, "--device", "gpu")
    assert done.returncode == 1
    assert "but no GPU was found" in done.stderr
    assert "found:" in done.stderr
    assert not (small.parent / "runs").exists()
    shown = petabatch("info", "--devices")
    assert shown.returncode == 0
    assert "cpu only: " in shown.stdout


@pytest.mark.skipif(MISSING is None, reason="there is a GPU")
@pytest.mark.parametrize("other", ["source", "precision", "batch", "run directory"])
def test_that_there_is_no_gpu_is_said_before_any_other_reason(
    other: str, petabatch: Command, small: Path
) -> None:
    wrong = {
        "source": ["-s", "layers.image.source.files=there_is_no_such_file.png"],
        "precision": ["-s", "run.precision=float64"],
        "batch": ["-s", "run.batch=100000000"],
        "run directory": ["--out", str(small)],
    }
    done = petabatch("run", small, "--device", "gpu", *wrong[other])
    assert done.stderr.startswith('run.device = "gpu", but no GPU was found'), done.stderr


def test_a_gpu_kernel_on_the_cpu_is_refused() -> None:
    with pytest.raises(ValueError, match="runs on a GPU"):
        Run(displays=1, kernel="display")


class Two(Serial):
    """Two ranks with the same answers."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = hosts

    def gather(self, value: Any) -> list[Any]:
        return [value, value]


def test_the_first_rank_says_which_gpu_each_has_and_warns_of_a_shared_one(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "petabatch"):
        announce(Two("here", "here"), "H200", "GPU-1234", 1, 2)
    assert "2 ranks on 1 GPU of 1 host" in caplog.text
    assert "rank 1 on here: H200 (GPU-1234)" in caplog.text
    assert "2 ranks share GPU-1234" in caplog.text
    assert "idle" not in caplog.text


@pytest.mark.parametrize(
    ("hosts", "slices", "said"),
    [
        (("here",), 16, "3 GPUs of 4 idle: `petabatch run x.toml --gpus all` would use them"),
        (("here",), 3, "3 GPUs of 4 idle: `petabatch run x.toml --gpus 3` would use 2 of them"),
        (("here",), 1, ""),
        (("here", "there"), 16, "7 GPUs of 8 idle: `mpirun -n 8 petabatch run x.toml` would use them"),
    ],
)
def test_a_run_says_how_many_gpus_idle_and_the_command_that_uses_them(
    hosts: tuple[str, ...],
    slices: int,
    said: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/petabatch", "run", "x.toml"])
    with caplog.at_level(logging.INFO, "petabatch"):
        announce(Two(*hosts) if len(hosts) > 1 else Serial(), "H200", "GPU-1234", 4, slices)
    found = [line for line in caplog.messages if "idle" in line]
    assert found == ([said] if said else [])


class Elsewhere(Serial):
    """A rank of many, on the second of some hosts."""

    def __init__(self, rank: int, local_rank: int) -> None:
        super().__init__()
        self.rank, self.local_rank = rank, local_rank

    def gather(self, value: Any) -> None:
        return None


@pytest.mark.parametrize(("local_rank", "number"), [(0, 0), (1, 1), (3, 0), (5, 2)])
def test_a_rank_has_the_gpu_of_its_number_on_its_host(
    local_rank: int, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "missing", lambda: None)
    monkeypatch.setattr(detect, "count", lambda: 3)
    made = lambda number, tf32: EmulatedGpu(uuid=f"GPU-{number}")  # noqa: E731
    monkeypatch.setattr("petabatch.engine.gpu.choose.Gpu", made)
    gpu = choose(network(device="gpu"), Elsewhere(8 + local_rank, local_rank))
    assert gpu is not None
    assert gpu.uuid == f"GPU-{number}"


@pytest.mark.parametrize(
    ("device", "reason", "said"), [("gpu", "too old", True), ("gpu", None, False), ("cpu", "too old", False)]
)
def test_check_says_that_there_is_no_gpu(
    device: str,
    reason: str | None,
    said: bool,
    small: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(detect, "missing", lambda: reason)
    check(small, [f"run.device={device}"])
    shown = " ".join(capsys.readouterr().out.split())
    assert ("note no GPU is found, and `run` refuses it here: too old" in shown) == said


def test_ranks_of_a_command_are_started_without_the_option_that_asked_for_them() -> None:
    given = ["run", "x.toml", "--gpus", "4", "-s", "run.batch=8"]
    for words in (given, ["run", "x.toml", "--gpus=4", "-s", "run.batch=8"]):
        command = ranks_command(4, words)
        assert command[1:3] == ["-n", "4"]
        assert command[3:] == [
            sys.executable, "-m", "petabatch", "run", "x.toml", "-s", "run.batch=8", "--device", "gpu",
        ]  # fmt: skip


@pytest.mark.parametrize(
    ("gpus", "environment", "message"),
    [
        ("0", {}, "no number of GPUs"),
        ("some", {}, "no number of GPUs"),
        ("2", {"PMI_SIZE": "2"}, "a launcher has started the ranks"),
        ("5", {}, "this machine has fewer GPUs"),
    ],
)
def test_ranks_that_cannot_be_started_are_refused(
    gpus: str, environment: dict[str, str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(detect, "missing", lambda: None)
    monkeypatch.setattr(detect, "count", lambda: 4)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(PetabatchError, match=message):
        start_ranks(gpus, ["run", "x.toml", "--gpus", gpus])


@pytest.mark.long
@emulated
@pytest.mark.mpi
@pytest.mark.parametrize(
    "settings",
    [
        (),
        pytest.param(("parallel.features=2",), marks=pytest.mark.long),
        pytest.param(("parallel.rows=2",), marks=pytest.mark.long),
    ],
    ids=["slices", "features", "rows"],
)
def test_gpus_of_a_machine_have_a_rank_each(small: Path, tmp_path: Path, settings: Sequence[str]) -> None:
    """`sitecustomize` gives each process four emulated GPUs."""
    (tmp_path / "sitecustomize.py").write_text("import support.four_gpus\n")
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[2]}"}
    out = tmp_path / "run"
    given = [str(small), "--out", str(out), "--gpus", "2", *set_all("run.batch=4", *settings)]
    done = subprocess.run(
        [sys.executable, "-m", "petabatch", "run", *given],
        env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "2 ranks on 2 GPUs of 1 host" in done.stderr
    assert "emulated (GPU-0)" in done.stderr
    assert "emulated (GPU-1)" in done.stderr
    assert done.stderr.index("GPU-1") < done.stderr.index("step")
    alone(small, "alone", "run.batch=4")
    found, expected = (
        {key: array for key, array in datasets(file / "run.h5").items() if array.dtype.kind == "f"}
        for file in (out, small.parent / "alone")
    )
    assert_near(found, expected, 2e-4)


def test_a_command_that_takes_no_ranks_says_nothing_of_idle_gpus(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.argv", ["/bin/petabatch", "bench", "x.toml"])
    with caplog.at_level(logging.INFO, "petabatch"):
        announce(Serial(), "H200", "GPU-1234", 4, 16)
    assert "1 rank on 1 GPU of 1 host" in caplog.text
    assert "idle" not in caplog.text


def test_sums_of_what_is_on_a_gpu_are_those_of_the_host() -> None:
    values = np.random.default_rng(0).standard_normal((5, 1, 1, 4, 3, 3, 2)).astype("f4")
    mine = ExactSum({"w": values}, Serial(), 5, 0).wait()["w"]
    theirs = ExactSum({"w": far.asarray(values)}, Serial(), 5, 0).wait()["w"]
    assert mine.tobytes() == theirs.tobytes()
    assert type(theirs) is np.ndarray


@pytest.mark.gpu
@real
@pytest.mark.parametrize("kernel", ["display", "step", "array"])
def test_a_real_gpu_agrees_with_float64_and_repeats_its_bits(kernel: str) -> None:
    wanted = lca_network(images(6), features=128, display=400, displays=2, device="gpu", kernel=kernel)
    found = [simulate(wanted, choose(wanted, Serial()))[1] for _ in range(2)]
    for path in found[0]:
        assert found[0][path].tobytes() == found[1][path].tobytes(), path
    exact = lca_network(images(6), features=128, display=400, displays=2, precision="float64", kernel="array")
    assert_near(found[0], simulate(exact)[1], 1e-4)


@pytest.mark.gpu
@real
@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_a_real_gpu_in_tf32_stays_near_float64(kernel: str) -> None:
    wanted = lca_network(
        images(6), features=128, display=400, displays=1, device="gpu", kernel=kernel, tf32=True
    )
    exact = lca_network(images(6), features=128, display=400, displays=1, precision="float64", kernel="array")
    found, expected = simulate(wanted, choose(wanted, Serial()))[1], simulate(exact)[1]
    # Units close to the threshold may be on its other side, where their number is all that is compared.
    counts = [path for path in expected if path.startswith("probes/active/")]
    assert_near(
        {path: found.pop(path) for path in counts}, {path: expected.pop(path) for path in counts}, 2e-2
    )
    assert_near(found, expected, 2e-3)


@pytest.mark.gpu
@real
def test_contents_of_a_run_on_a_real_gpu_are_those_of_its_twin(small: Path) -> None:
    loaded = simulation.read(small, ["run.device=gpu"])
    for name in ("one", "two"):
        simulation.run(loaded, small.parent / name, quiet=True)
    files = [sorted((small.parent / name / "parts").glob("*.h5")) for name in ("one", "two")]
    for a, b in zip(*files, strict=True):
        assert contents(a) == contents(b)


@pytest.mark.gpu
@real
@pytest.mark.parametrize("name", golden.names())
def test_a_real_gpu_agrees_with_float64_on_the_golden_cases(name: str) -> None:
    def on(**run: Any) -> dict[str, np.ndarray]:
        case = golden.Case(name).network()
        wanted = case.model_copy(update={"run": case.run.model_copy(update=run)})
        engine = simulate(wanted, choose(wanted, Serial()))[0]
        engine.collect()
        return engine.state.saved()

    # In some, as that of ista, rounding grows: float32 on the CPU is 2e-4 away itself.
    exact, rounded = on(precision="float64"), on()
    own = max(
        float(np.linalg.norm(rounded[key] - array) / max(np.linalg.norm(array), 1e-30))
        for key, array in exact.items()
    )
    assert_near(on(device="gpu", kernel="auto"), exact, max(1e-4, 2 * own))
