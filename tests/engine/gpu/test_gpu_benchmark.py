"""The benchmark of GPUs does all its parts on an emulated one, so that no minute of a real one is lost."""

from __future__ import annotations

import json
import sys
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.strict_arrays import far

sys.path.append(str(Path(__file__).parents[3] / "benchmarks"))
import gpu as benchmark
import gpu_networks
import gpu_runs
import gpu_speed
import small_networks

from petabatch import simulation
from petabatch.engine import assembly

emulated = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


class Module:
    """The array module, and what the clock needs of CuPy."""

    cuda = SimpleNamespace(Device=lambda: SimpleNamespace(synchronize=lambda: None))

    def __getattr__(self, name: str) -> Any:
        return getattr(far, name)


class Gpu(EmulatedGpu):
    xp = Module()


@pytest.fixture
def small_workloads(monkeypatch: pytest.MonkeyPatch) -> None:
    workloads = {"W1": (8, 3, 6, 6, 2, 0.3, {2: 8})}
    monkeypatch.setattr(gpu_speed, "WORKLOADS", workloads)
    monkeypatch.setattr(benchmark, "WORKLOADS", workloads)
    monkeypatch.setattr(gpu_speed, "ROUNDS", 1)
    monkeypatch.setattr(gpu_speed, "ceilings", lambda device: {"float32": 1e9, "TF32": 2e9, "bytes": 1e8})


@emulated
@pytest.mark.usefixtures("small_workloads")
def test_speeds_and_agreement_are_measured_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_runs, "golden_cases", lambda: 1 / 0)
    path = tmp_path / "gpu.json"
    report = benchmark.Report(path, ["kernels", "W1", "golden"], 1e6)
    benchmark.measure(report, Gpu(), Gpu(tf32=True), False, None, 2)
    found = json.loads(path.read_text())["parts"]
    assert list(found) == ["ceilings", "kernels", "W1 2", "golden"]
    for kernel in ("display", "step"):
        assert found["kernels"]["found"][kernel]["from float64"] < 1e-4
        assert found["kernels"]["found"][kernel]["same bits twice"]
    assert set(found["W1 2"]["found"]) == {"display", "step", "step TF32", "array", "array TF32"}
    assert found["W1 2"]["found"]["display"]["/ step"] > 0
    low, high = found["W1 2"]["found"]["display"]["quartiles"]
    assert low <= found["W1 2"]["found"]["display"]["slice steps/s"] <= high
    assert "ZeroDivisionError" in found["golden"]["error"]  # and what was found before is kept


def test_no_part_begins_when_the_time_is_over(tmp_path: Path) -> None:
    report = benchmark.Report(tmp_path / "gpu.json", None, -1.0)
    assert report.part("kernels", lambda: 1 / 0) is None
    assert json.loads((tmp_path / "gpu.json").read_text())["parts"]["kernels"] == {"left out": True}


@emulated
def test_whole_runs_on_both_devices_are_compared(monkeypatch: pytest.MonkeyPatch, small: Path) -> None:
    def choose(network: Any, comm: Any) -> EmulatedGpu | None:
        return EmulatedGpu() if network.run.device == "gpu" else None

    monkeypatch.setattr(assembly, "choose", choose)
    monkeypatch.setattr(gpu_runs, "DEMO", small)
    assert gpu_runs.demo(3)["apart"] < 0.01
    monkeypatch.setattr(gpu_runs, "BACK", ())
    found = gpu_runs.there_and_back()
    assert found["steps"] == found["of"]
    assert found["energies and weights apart"] < 1e-3
    network = simulation.read(small).network
    one, two = (gpu_runs.state(network, device="gpu") for _ in range(2))
    assert all(one[key].tobytes() == two[key].tobytes() for key in one)
    assert gpu_runs.furthest(one, gpu_runs.state(network, precision="float64")) < 1e-4
    assert np.isfinite(one["layers/V1/A"]).all()


@emulated
def test_networks_without_graphs_are_launched_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    device = EmulatedGpu()
    monkeypatch.setattr(assembly, "choose", lambda network, comm: device)
    monkeypatch.setattr(gpu_networks, "Gpu", EmulatedGpu)
    monkeypatch.setitem(small_networks.STEPS, 8, 40)
    with ExitStack() as held:
        works = gpu_networks.ours(small_networks.recurrent(8, slices=2), 40, held)
        for _ in range(2):
            works["array, no graph"]()
        assert device.captured == 0
        works["array"]()
        assert device.captured > 0
