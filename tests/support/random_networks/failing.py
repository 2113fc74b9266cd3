"""Sweeps of random networks in which points fail: each is its own run, in a batch and in waves."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from pydantic_core import PydanticSerializationError

import petabatch
from petabatch import in_memory
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.layers import Neurons
from petabatch.network import periods
from petabatch.network.build import build
from petabatch.network.numbers import with_value
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.load import resolved
from petabatch.spec.network import LayerOutput, Network
from petabatch.spec.sweep import Sweep
from support.networks import flush
from support.random_networks.runs import Arrays, Steps, with_run

NAME = "fails"
_KEY = f"layers.{NAME}.parameters.k"
_POINTS = 5
_LAYERS: Sequence[tuple[Mapping[str, str], tuple[float, ...]]] = (
    ({"equations": "dv/dt = 1 / (t - k)", "method": "rk4"}, (-1.0, 2.0, 5.0, 7.0, 1e9)),
    (
        {"equations": "dv/dt = exp(v) * k - v + 3", "spike": "v > 4", "reset": "v = -1"},
        (0.0, 0.3, 0.9, 2.0, 5.0, 20.0, 90.0, 3e5),
    ),
    (
        {"equations": "dv/dt = exp(9*v)*k + 1\ndw/dt = v - w", "spike": "v > 2", "reset": "v = 0; w += 1"},
        (0.0, 1e-3, 0.1, 1.0, 30.0, 1e9),
    ),
    ({"equations": "dv/dt = k * v * v + 1", "method": "euler"}, (0.0, 0.1, 1.0, 4.0, 1e8, 1e30)),
)  # fmt: skip
"""Layers some of whose numbers do not stay finite, and values of `k`."""


def points_that_fail(network: Network, seen: Steps, rng: np.random.Generator) -> list[str]:
    """Return what differs between points of a sweep, of which some fail, and runs with their values alone.

    Nothing where the network can have no such sweep, as with arrays that are there for its slices alone.
    """
    layer, values = _LAYERS[rng.integers(len(_LAYERS))]
    added = Neurons(shape=(1, 1, 2), parameters={"k": 0.0}, start={"v": 0.1}, **layer)
    chosen = rng.choice(values, min(_POINTS, len(values)), replace=False).tolist()
    output = network.output.model_copy(
        update={"layers": {**network.output.layers, NAME: LayerOutput(every=1, variables=("v",))}}
    )
    wanted = with_run(
        network.model_copy(
            update={"layers": {**network.layers, NAME: added}, "output": output, "slices": {}, "sweep": None}
        ),
        pool=False,
    )
    swept = wanted.model_copy(update={"sweep": Sweep(values={_KEY: chosen})})
    try:
        resolved(swept)
        build(swept)
    except (ParamsError, PydanticSerializationError):
        return []
    with warnings.catch_warnings(action="ignore"), pytest.MonkeyPatch.context() as patched:
        patched.setattr(periods, "JUDGED_OPERATIONS", float(rng.choice([2e3, 2e4, 2e5])))
        alone = [_alone(with_value(wanted, _KEY, value)) for value in chosen]
        wave = int(rng.integers(1, len(chosen) + 1))
        points = petabatch.sweep(swept, wave=wave, threads=int(rng.integers(1, 3)), quiet=True)
        found = [(point.failed, point.recorded) for point in points]
        batch = _in_a_batch(swept)
    wrong = []
    for number, (why, recorded) in enumerate(found):
        step, expected = alone[number]
        what = f"k = {chosen[number]:g} of {layer['equations']!r} in waves of {wave}"
        if bool(why) != bool(step):
            wrong.append(f"{what}: {why or 'does not fail'}, and alone fails at step {step}")
        elif batch[number] != bool(step):
            wrong.append(f"{what}: in a batch it fails: {batch[number]}, and alone at step {step}")
        elif why and (since := re.search(r"since step (\d+)", why)) and int(since[1]) != step:
            wrong.append(f"{what}: {why}, and alone at step {step}")
        elif not why:
            different = [path for path, one in recorded.items() if one.tobytes() != expected[path].tobytes()]
            wrong += [f"{what}: {path} differs" for path in different]
    return wrong


def _alone(network: Network) -> tuple[int, Arrays]:
    """Return the step since which a run is not finite, 0 if it is, and what it recorded."""
    try:
        return 0, in_memory.run(network).recorded
    except NonFiniteError as error:
        return error.step, {}


def _in_a_batch(network: Network) -> list[bool]:
    """Return which points fail in one batch, with other sync events."""
    assert network.sweep is not None
    plan = replace(schedule(build(network)), tolerant=True, stops=(1, 2, 5))
    engine = Engine(plan, Serial(), 1)
    engine.start()
    with closing(drive(engine)) as steps:
        for step in steps:
            list(flush(engine, step))
    failed = {number // network.run.batch for number in engine.failures}
    engine.close()
    return [point in failed for point in range(network.sweep.points)]
