"""Runs of a small network on an emulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.gpu.arrays import slice_bytes
from petabatch.engine.gpu.detect import missing
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.network import Network
from petabatch.spec.schedule import Every
from support.gpu_emulation import EmulatedGpu
from support.networks import collect, images, lca_network
from support.rank_threads import on_threads

MISSING = missing()


DATA = images(5, shape=(8, 8, 3))


def network(**run: Any) -> Network:
    return lca_network(DATA, features=6, display=6, displays=3, record=Every(1, "displays"), **run)


def simulate(wanted: Network, device: Any = None) -> tuple[Engine, dict[str, np.ndarray]]:
    limits = None if device is None else device.limits
    engine = Engine(schedule(build(wanted), limits), Serial(), 2, device)
    engine.start()
    return engine, collect(engine)


def assert_near(found: dict[str, np.ndarray], expected: dict[str, np.ndarray], tolerance: float) -> None:
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        assert found[path].shape == values.shape
        distance = np.linalg.norm(found[path] - values)
        assert distance <= tolerance * max(np.linalg.norm(values), 1e-30), path


def window(slices: int, wanted: Network) -> EmulatedGpu:
    """Return an emulated GPU with memory for `slices` slices."""
    return EmulatedGpu((slices + 0.5) * slice_bytes(build(wanted)) / 0.85)


def state_of(wanted: Network, device: Any = None) -> tuple[Engine, dict[str, np.ndarray]]:
    """Return the engine after a run, and all arrays of its state."""
    engine, _ = simulate(wanted, device)
    engine.collect()
    return engine, dict(engine.state.saved())


def split_state_of(wanted: Network, *devices: Any) -> dict[str, np.ndarray]:
    """Return all arrays of the state of whole slices, after a run of a rank on each device."""

    def one(comm: Comm) -> dict[str, np.ndarray]:
        device = devices[comm.rank]
        plan = schedule(build(wanted), device.limits)
        engine = Assembly(plan, comm, 1, device).engine()
        engine.start()
        for step in drive(engine):
            engine.recorder.take(step)
        engine.collect()
        return engine.features.whole(engine.state.saved())

    whole: dict[str, np.ndarray] = on_threads(len(devices), one)[0]
    return whole


def on_gpu(wanted: Network, **run: Any) -> Network:
    """Return a network on a GPU, with other keys of `run`."""
    return wanted.model_copy(update={"run": wanted.run.model_copy(update={"device": "gpu", **run})})


def assert_agree(wanted: Network, device: EmulatedGpu, tolerance: float = 1e-4, **run: Any) -> Engine:
    """Run a network on the CPU and on a GPU; compare all arrays and all that is recorded."""
    here, expected = simulate(wanted)
    there, found = simulate(on_gpu(wanted, **run), device)
    assert_near(found, expected, tolerance)
    for engine in (here, there):
        engine.collect()
    kept = {key: array for key, array in here.state.saved().items() if not key.startswith("lazy/")}
    assert_near(dict(there.state.saved()), kept, tolerance)
    return there
