"""Runs of lazily evaluated codes, and the same with all units computed in every step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume

from petabatch.engine.engine import Engine
from petabatch.engine.steppers.program import ProgramStepper
from petabatch.errors import NonFiniteError
from petabatch.kernels.cpu.program.lazy import layout
from petabatch.kernels.cpu.program.lazy.layout import ACTIVE, COMPUTED
from petabatch.network.build import build
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from support.networks import collect

State = dict[str, np.ndarray]


def changed(network: Network, **run: object) -> Network:
    return network.model_copy(update={"run": network.run.model_copy(update=run)})


def begin(plan: Plan, threads: int = 1) -> Engine:
    engine = Engine(plan, Serial(), threads)
    engine.start()
    return engine


def finish(engine: Engine) -> State:
    """Run to the end; return the state."""
    try:
        collect(engine)
    except NonFiniteError:
        assume(False)
    return saved(engine)


def last_state(network: Network, threads: int = 1) -> tuple[Engine, State]:
    engine = begin(schedule(build(network)), threads)
    return engine, finish(engine)


def saved(engine: Engine) -> State:
    engine.collect()
    return {key: array.copy() for key, array in engine.state.saved().items()}


def assert_same_bits(one: State, other: State) -> None:
    assert one.keys() == other.keys()
    for key, array in one.items():
        assert array.tobytes() == other[key].tobytes(), key


def steppers(engine: Engine) -> list[ProgramStepper]:
    found = [lane.stepper for lane in engine.lanes]
    assert all(isinstance(one, ProgramStepper) for one in found)
    return found


def kept(engine: Engine, code: str) -> np.ndarray:
    """Return what lanes kept of the bound of a code, summed up."""
    return sum(one.slice.own[f"own/{code} kept"] for one in steppers(engine))


def finish_awake(engine: Engine) -> State:
    """Run to the end with bounds that are NaN: then all units are due in every step."""

    def norms(weights: np.ndarray) -> np.ndarray:
        return np.full(len(weights), np.nan, np.float32)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layout, "norms", norms)
        return finish(engine)


def assert_sleeping_changes_no_bit(plan: Plan) -> None:
    awake, lazy = begin(plan), begin(plan)
    assert_same_bits(finish(lazy), finish_awake(awake))
    slices, steps = plan.graph.network.run.batch, plan.length
    for code in plan.method.program.lazy:
        units = slices * steps * np.prod(plan.graph.network.layers[code.layer].shape)
        assert kept(awake, code.layer)[COMPUTED] == units
        assert kept(lazy, code.layer)[ACTIVE] <= kept(lazy, code.layer)[COMPUTED] <= units
