"""Runs of networks of which ranks, that are threads here, have a part of each slice."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.evaluation import Evaluation
from petabatch.parallel.comm import Comm
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Parallel
from petabatch.spec.parts import Connection, Layer
from petabatch.spec.schedule import STEP
from support.networks import images, lca_network
from support.rank_threads import on_threads

Recorded = dict[str, np.ndarray]


def split(network: Network, **parts: int) -> Network:
    """Return a network with parts of each slice on several ranks, such as `rows=2`."""
    return network.model_copy(update={"parallel": Parallel.model_validate(parts)})


def in_float64(network: Network) -> Network:
    """Return a network in float64, in which parts agree to 1e-12 unless more than rounding differs."""
    return network.model_copy(
        update={"run": network.run.model_copy(update={"precision": "float64", "kernel": "array"})}
    )


def of_ranks(
    network: Network, ranks: int | None = None, threads: int | Sequence[int] = 1
) -> tuple[Recorded, Recorded]:
    """Return what was recorded, and the state at the end; of the slices of the first ranks.

    `threads` are those of each rank.
    """

    def one(comm: Comm) -> Any:
        mine = threads if isinstance(threads, int) else threads[comm.rank]
        engine = Assembly.of(network, comm, mine).engine()
        evaluation = Evaluation(engine) if network.evaluate is not None else None
        engine.start()
        found = records(engine, evaluation)
        engine.collect()
        return found, engine.features.whole(engine.state.saved())

    return on_threads(ranks or network.parallel.parts, one)[0]  # type: ignore[no-any-return]


def records(engine: Engine, evaluation: Evaluation | None = None) -> Recorded:
    """Run to the end; return what was recorded of whole slices, by path."""
    found: dict[str, list[np.ndarray]] = {}
    for step in drive(engine):
        if evaluation is not None and evaluation.due(step):
            evaluation.at(step)
        if step % engine.plan.flush and step != engine.plan.length:
            continue
        for record in engine.features.records(engine.recorder.take(step)):
            found.setdefault(record.stream.path, []).append(record.values)
        engine.flushed()
    return {path: np.concatenate(values) for path, values in found.items()}


def assert_near(one: Recorded, other: Recorded, tolerance: float) -> None:
    """Compare arrays relative to the largest value of each."""
    assert one.keys() == other.keys()
    for key, array in one.items():
        scale = max(abs(array).max(), 1e-30) if array.size else 1
        assert array.shape == other[key].shape, key
        np.testing.assert_allclose(other[key], array, rtol=0, atol=tolerance * scale, err_msg=key)


def loop_with(kernel: str, layers: dict[str, Layer], connections: dict[str, Connection]) -> Network:
    """Return a sparse-coding network with more layers and connections, all recorded."""
    one = lca_network(images(2, shape=(36, 24, 3)), displays=2, kernel=kernel, learn=False)
    weighted = {name: c.owner for name, c in connections.items() if c.owner is not None}
    learned = ("weights", "usage")
    output = one.output.model_copy(
        update={
            "layers": one.output.layers | {name: LayerOutput(every=STEP) for name in layers},
            "connections": {
                name: ConnectionOutput(variables=learned if owner.learns else learned[:1])
                for name, owner in weighted.items()
            },
        }
    )
    changed = {"layers": one.layers | layers, "connections": one.connections | connections}
    return one.model_copy(update={**changed, "output": output})


def agrees(whole: Network, parts: dict[str, int], tolerance: float = 1e-6) -> Recorded:
    """Assert that parts record, and end with, what one rank does; return it.

    But for what lazily evaluated codes keep beside V: what is summed up or gathered cannot be filtered.
    """
    alone, state = of_ranks(whole)
    found, gathered = of_ranks(split(whole, **parts))
    assert_near(alone, found, tolerance)
    own, others = ({k: v for k, v in one.items() if not k.startswith("lazy/")} for one in (state, gathered))
    assert_near(own, others, tolerance)
    return alone
