"""Activities recorded inside the steps of a program: the same as with a call for each recording."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis import strategies as st

from petabatch.engine import step_records
from petabatch.engine.engine import Engine
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.layers import Neurons
from petabatch.network.build import build
from petabatch.network.operations import LazyUpdate, Update
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.report import memory
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP
from petabatch.spec.schedule import Every
from petabatch.weights import Uniform
from support.random_runs import finish, random_run, states
from support.recurrent import recurrent_network

some = settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)


@contextmanager
def room(nbytes: int) -> Iterator[None]:
    """Let a recording of a slice keep so much; with nothing, a call ends at each recording."""
    with patch.object(step_records, "_BYTES", nbytes):
        yield


def assert_same(network: Network, nbytes: int) -> None:
    with room(0):
        engine, expected = finish(network)
    with room(nbytes):
        other, found = finish(network)
    assert engine.plan.recordings == other.plan.recordings
    for path, values in expected.items():
        assert found[path].tobytes() == values.tobytes(), path
    for key, array in states(engine).items():
        assert states(other)[key].tobytes() == array.tobytes(), key


@some
@given(seed=st.integers(0, 2**32), nbytes=st.integers(100, 20_000))
def test_the_room_for_recordings_changes_no_bit(seed: int, nbytes: int) -> None:
    try:
        network = random_run(seed)
        assume(schedule(build(network)).method.stepper == "program")
        program = schedule(build(network)).method.program
        # What else is recorded in every step would end each call.
        made = {one.layer for one in program.operations if isinstance(one, Update | LazyUpdate)}
        layers = {layer: LayerOutput(every=STEP) for layer in sorted(made - program.readers)[:2]}
        output = network.output.model_copy(update={"layers": layers})
        probes = {name: probe for name, probe in network.probes.items() if name == "energy"}
        network = network.model_copy(update={"output": output, "probes": probes})
        finish(network)
    except (ParamsError, NonFiniteError):
        assume(False)
    assert_same(network, nbytes)


@pytest.mark.parametrize(("every", "most"), [(STEP, 5), (Every(2), 5), (Every(3), 3)])
def test_a_call_makes_as_many_steps_as_there_is_room_for(every: Every, most: int) -> None:
    base = recurrent_network(1, 3)
    units = base.layers["x"].shape[2]
    output = base.output.model_copy(update={"layers": {"x": LayerOutput(every=every)}})
    network = base.model_copy(update={"output": output, "probes": {}})
    with room(5 * 4 * units):
        plan = schedule(build(network))
        engine = Engine(plan, Serial(), 1)
        kept = memory.needed(plan, 3, 1)
    with room(0):
        assert kept - memory.needed(plan, 3, 1) == (3 * 5 * 4 * units if most == 5 else 0)
    lane = engine.lanes[0]
    display = network.run.display
    stops = [lane.next_event(step, display) for step in range(display)]
    assert max(stop - step for step, stop in enumerate(stops)) == most


def test_variables_are_recorded_inside_the_steps() -> None:
    neurons = Neurons(
        shape=(1, 1, 5), equations="dv/dt = 1 - v + u\ndu/dt = -u / 3", spike="v > 0.8",
        reset="v = 0; u -= 0.1", refractory=0.5, start={"u": Uniform(per_slice=True)},
    )  # fmt: skip
    names = ("v", "u", "refractory")
    wanted = {"n": LayerOutput(every=Every(2), variables=("A", *names))}
    run = Run(batch=3, display=40, displays=2, dt=0.1)
    network = Network(run=run, layers={"n": neurons}, output=Output(layers=wanted))
    kept = step_records.StepRecords.of(schedule(build(network))).recordings.values()
    assert {one.stream.path for one in kept} == {f"layers/n/{name}" for name in ("A", *names)}
    assert_same(network, 200)
