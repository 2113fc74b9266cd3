"""Small networks for tests, built in Python from the same models as params files."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

import numpy as np

from petabatch.connections import Conv
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.layers import LCA, Input
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.sparse_coding import sparse_coding
from petabatch.parallel.comm import Serial
from petabatch.probes import L0, Energy
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from petabatch.spec.parts import DISPLAY, Source
from petabatch.spec.schedule import Every
from petabatch.spec.weights import Initial
from petabatch.weights import L2


class GivenImages(Source):
    """Images handed over in Python: `data[slice][item]`, items repeated when they run out."""

    type: Literal["test_images"] = "test_images"
    data: Any

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Any:
        return lambda number, item: self.data[number][item % len(self.data[number])]


class GivenWeights(Initial):
    """Weights handed over in Python."""

    type: Literal["test_weights"] = "test_weights"
    data: Any

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.broadcast_to(self.data, shape)


def images(
    slices: int, items: int = 2, shape: tuple[int, int, int] = (12, 16, 3), seed: int = 0
) -> np.ndarray:
    """Return `[slices, items, ny, nx, nf]` smooth random images of zero mean and unit deviation."""
    rng = np.random.default_rng(seed)
    data = rng.normal(size=(slices, items, *shape))
    data = data + np.roll(data, 1, axis=2) + np.roll(data, 1, axis=3)
    data -= data.mean(axis=(2, 3, 4), keepdims=True)
    return (data / data.std(axis=(2, 3, 4), keepdims=True)).astype(np.float32)


def lca_network(
    data: np.ndarray,
    features: int = 12,
    patch: tuple[int, int] = (6, 6),
    stride: int = 2,
    display: int = 20,
    displays: int = 4,
    mode: str = "extra_shared",
    learn: bool = True,
    momentum: float = 0.5,
    record: Every = DISPLAY,
    **run: Any,
) -> Network:
    """Return image -> error -> V1 -> recon -> error for images `[slices, items, ny, nx, nf]`."""
    ny, nx, channels = data.shape[2:]
    weights = np.random.default_rng(7).normal(size=(1, 1, features, *patch, channels))
    return sparse_coding(
        Input(shape=(ny, nx, channels), source=GivenImages(data=data)),
        LCA(shape=(ny // stride, nx // stride, features), tau=20.0, threshold=0.4),
        Conv(
            pre="V1",
            post="recon",
            patch=patch,
            mode=mode,
            init=GivenWeights(data=weights),
            normalize=L2(),
            learn=Hebbian(error="error", rate=0.3, momentum=momentum) if learn else None,
        ),
        run=Run(batch=len(data), display=display, displays=displays, **run),
        probes={
            "energy": Energy(error="error", code="V1", coefficient=0.4),
            "active": L0(layer="V1", every=record),
        },
        output=Output(
            layers={
                "V1": LayerOutput(every=record, variables=("A", "V")),
                "recon": LayerOutput(every=record),
            },
            connections={"dictionary": ConnectionOutput(every=record)},
        ),
    )


def simulate(network: Network, threads: int = 1) -> tuple[Engine, dict[str, np.ndarray]]:
    """Run in memory; return the engine and everything recorded, by path, `[times, ...]`."""
    engine = Engine(schedule(build(network)), Serial(), threads)
    engine.start()
    return engine, collect(engine)


def collect(engine: Engine) -> dict[str, np.ndarray]:
    found: dict[str, list[np.ndarray]] = {}
    for step in drive(engine):
        for path, values in flush(engine, step):
            found.setdefault(path, []).append(values)
    return {path: np.concatenate(values) for path, values in found.items()}


def flush(engine: Engine, step: int) -> Iterator[tuple[str, np.ndarray]]:
    if step % engine.plan.flush == 0 or step == engine.plan.length:
        for record in engine.recorder.take(step):
            yield record.stream.path, record.values
        engine.flushed()


def assert_same(found: Mapping[str, np.ndarray], expected: Mapping[str, np.ndarray]) -> None:
    """Compare what was recorded, or states, by path."""
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        np.testing.assert_array_equal(found[path], values, err_msg=path)
