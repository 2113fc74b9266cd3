"""Runs of a small network on an emulated GPU."""

from __future__ import annotations

from typing import Any

import numpy as np

from petabatch.engine.engine import Engine
from petabatch.engine.gpu.arrays import slice_bytes
from petabatch.engine.gpu.detect import missing
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from petabatch.spec.schedule import Every
from support.gpu_emulation import EmulatedGpu
from support.networks import collect, images, lca_network

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
