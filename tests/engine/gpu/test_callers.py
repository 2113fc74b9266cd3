"""What runs on an emulated GPU besides runs to a directory: simulators, codes, sweeps in waves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import petabatch
from petabatch.engine import assembly
from petabatch.spec.sweep import Sweep
from petabatch.waves import plan
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import network

pytestmark = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)


@pytest.fixture(autouse=True)
def _gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def choose(wanted: petabatch.Network, comm: object) -> EmulatedGpu | None:
        return EmulatedGpu() if wanted.run.device == "gpu" else None

    monkeypatch.setattr(assembly, "choose", choose)
    monkeypatch.setattr(plan, "choose", choose)


def test_a_simulator_is_stepped_read_written_and_saved() -> None:
    seen = {}
    for device in ("cpu", "gpu"):
        with petabatch.Simulator(network(), device=device) as sim:  # type: ignore[arg-type]
            sim.step(5)
            sim["V1"]["V"][1] = 0.5
            kept = sim.save()
            sim.step(4)
            sim["V1"]["threshold"] = 0.2
            sim.step(3)
            active = np.array(sim["active"]["active"])
            end = np.array(sim["V1"]["V"])
            sim.load(kept)
            sim.step(2)
            seen[device] = active, end, np.array(sim["V1"]["V"]), np.array(sim["recon"]["A"])
    for mine, theirs in zip(seen["gpu"], seen["cpu"], strict=True):
        assert theirs.any()
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5)


@pytest.mark.long
def test_codes_of_images_are_those_of_the_cpu() -> None:
    # Nearer to the optimum, rounding decides whether a step of FISTA is halved, and codes differ.
    rng = np.random.default_rng(0)
    images, dictionary = rng.normal(size=(5, 8, 8, 1)), rng.normal(size=(6, 4, 4, 1))
    mine, theirs = (
        petabatch.encode(images, dictionary, 0.3, stride=2, gap=0.03, steps=300, device=device)
        for device in ("gpu", "cpu")
    )
    np.testing.assert_array_equal(mine.steps, theirs.steps)
    assert len(np.unique(mine.steps)) > 1
    np.testing.assert_allclose(mine.activity, theirs.activity, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(mine.gap, theirs.gap, rtol=1e-2)


def test_points_of_a_sweep_come_in_waves(small: Path) -> None:
    swept, found = Sweep(values={"layers.V1.threshold": (0.2, 0.3, 0.5)}), []
    for device in ("cpu", "gpu"):
        given = petabatch.load(small, [f"run.device='{device}'", "connections.dictionary.mode='shared'"])
        found.append([point.recorded for point in petabatch.sweep(given, swept, wave=2)])
    for theirs, mine in zip(*found, strict=True):
        for path, values in theirs.items():
            np.testing.assert_allclose(mine[path], values, rtol=1e-4, atol=1e-4, err_msg=path)
