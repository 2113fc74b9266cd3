"""The demos in short: what their figures show holds."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

DEMOS = Path(__file__).parents[2] / "demos"


def script(demo: str) -> ModuleType:
    """Return a demo's `draw.py` as a module."""
    spec = importlib.util.spec_from_file_location(f"demo_{demo}", DEMOS / demo / "draw.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_izhikevichs_neurons_spike_as_in_numpy(tmp_path: Path) -> None:
    demo = script("izhikevich")
    found = demo.spikes("run.batch=6", "run.display=200")
    demo.draw(found, tmp_path / "spikes.png")
    mine = found.sum(axis=(0, 2))
    theirs = numpy_spikes(6, 200)
    error = np.hypot(mine.std(ddof=1), theirs.std(ddof=1)) / 6**0.5
    assert abs(mine.mean() - theirs.mean()) < 4 * error
    assert 800 < mine.mean() < 3000


def numpy_spikes(slices: int, steps: int) -> np.ndarray:
    """Return the spikes of each slice of the demo's network, by the benchmark's NumPy."""
    file = DEMOS.parent / "benchmarks" / "spiking.py"
    spec = importlib.util.spec_from_file_location("spiking", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    spikes: np.ndarray = module.NumPy(slices, "matrix").run(steps, np.random.default_rng(3))
    return spikes


def test_wilson_cowan_follows_the_equations_to_the_order_of_the_step(tmp_path: Path) -> None:
    integrate = pytest.importorskip("scipy.integrate")
    demo = script("wilson_cowan")
    inputs = demo.petabatch.load(DEMOS / "wilson_cowan" / "network.toml").network.slices
    P, Q = (np.array(inputs[f"layers.{name}.input"]) for name in "EI")

    def flow(t: float, both: np.ndarray) -> np.ndarray:
        E, I = both.reshape(2, 64)  # noqa: E741

        def s(x: np.ndarray, a: float, c: float) -> np.ndarray:
            return 1 / (1 + np.exp(-a * (x - c))) - 1 / (1 + np.exp(a * c))

        e = -E + (1 - E) * s(16 * E - 12 * I + P, 1.3, 4.0)
        i = -I + (1 - I) * s(15 * E - 3 * I + Q, 2.0, 3.7)
        return np.concatenate([e, i]) / 10

    errors = []
    for dt in (0.05, 0.025):
        time, E, I = demo.trajectories(f"run.dt={dt}", f"run.display={round(100 / dt)}")  # noqa: E741
        solved = integrate.solve_ivp(flow, (0, 100), np.zeros(128), t_eval=time, rtol=1e-9, atol=1e-10)
        errors.append(np.abs(np.concatenate([E, I], axis=1).T - solved.y).max())
    assert errors[1] < 0.02
    assert 1.6 < errors[0] / errors[1] < 2.4
    demo.draw(time, E, I, tmp_path / "oscillators.png")


def test_hopfields_memory_recalls_few_patterns_and_not_many() -> None:
    demo = script("hopfield")
    shares = {}
    for load in (0.05, 0.09, 0.2):
        patterns, cues, found = demo.recall(load, batch=32)
        assert 0.75 < demo.overlap(patterns, cues).mean() < 0.85
        shares[load] = (demo.overlap(patterns, found) > 0.95).mean()
    assert shares[0.05] == 1
    assert shares[0.09] > 0.95
    assert shares[0.2] < 0.3
