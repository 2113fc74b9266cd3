"""Numbers that are not finite: found in any variable at the end of a display, and never in a checkpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import petabatch
from petabatch import in_memory, weights
from petabatch.connections import Conv, Identity, Sparse
from petabatch.engine.assembly import Assembly
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.failure import Failure
from petabatch.engine.finite import Watch
from petabatch.errors import NonFiniteError, ParamsError
from petabatch.layers import LCA, ConductanceLIF, Constant, LeakyIntegrator, Linear, Quotient
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Comm, Serial
from petabatch.spec.network import Checkpoint, Network, Output, Run
from petabatch.spec.parts import Connection, Layer, StepContext
from petabatch.storage.checkpoint import checkpoint_steps
from petabatch.storage.directory import RunDirectory
from petabatch.variable import LAYER_DIMS, Array, Variable
from support.gpu_emulation import EmulatedGpu
from support.gpu_runs import simulate
from support.networks import GivenWeights, images, lca_network
from support.parts import split
from support.rank_threads import on_threads

SHAPE = (1, 2, 3)
ON: dict[str, dict[str, Any]] = {
    "array": {"kernel": "array"},
    "program": {"kernel": "auto"},
    "gpu": {"device": "gpu"},
}


def neuron(on: str = "program", strength: float = -0.9, reset: Any = "never", **run: Any) -> Network:
    """Return a neuron whose conductance falls below that of the leak in step 2, so that V is NaN."""
    return Network(
        run=Run(**{"batch": 3, "display": 5, "displays": 4} | ON[on] | run),
        layers={
            "one": Constant(shape=SHAPE, value=1.0),
            "late": LeakyIntegrator(shape=SHAPE, tau=1.0),
            "lif": ConductanceLIF(shape=SHAPE, reset=reset),
        },
        connections={
            "given": Identity(pre="one", post="late"),
            "see": Identity(pre="late", post="lif", strength=strength),
        },
        checkpoint=Checkpoint(every="display"),
    )


def run(net: Network) -> None:
    if net.run.device == "gpu":
        simulate(net, EmulatedGpu())
    else:
        in_memory.run(net)


@pytest.mark.parametrize("reset", ["never", "display"])
@pytest.mark.parametrize("on", ON)
def test_a_potential_that_is_not_finite_ends_the_run_although_the_activity_is_0(on: str, reset: Any) -> None:
    found = (
        r"V of layer lif of slice 0 is no longer finite at step 2\n    found:    nan at y 0, x 0, feature 0"
    )
    with pytest.raises(NonFiniteError, match=found) as ended:
        run(neuron(on, reset=reset))
    assert "conductances" in str(ended.value)
    run(neuron(on, strength=0.9, reset=reset))


def networks() -> dict[str, Network]:
    films = images(3, shape=(16, 16, 3))
    learning = lca_network(films, 12, (8, 8), momentum=0.5, kernel="lazy", display=10)
    return {
        "lazy": learning,
        "dense": learning.model_copy(update={"run": learning.run.model_copy(update={"kernel": "dense"})}),
        "lazy program": learning.model_copy(
            update={"layers": {**learning.layers, "echo": LCA(shape=(8, 8, 12), tau=20.0, threshold=0.4)},
                    "connections": {**learning.connections, "say": Identity(pre="V1", post="echo")}}
        ),
        "neuron": neuron(strength=0.1),
    }  # fmt: skip


@pytest.mark.parametrize("kind", networks())
def test_every_variable_of_every_slice_is_watched(kind: str) -> None:
    engine = Engine(schedule(build(networks()[kind])), Serial(), 1)
    engine.start()
    step = next(drive(engine))
    watched = [k for k, v in engine.plan.variables.items() if v.dtype == "float" and v.checkpoint]
    assert {"dense": 6, "lazy": 8, "lazy program": 10, "neuron": 8}[kind] <= len(watched)
    for key in watched:
        array = engine.state.arrays[key]
        place = (len(array) - 1, *([step % array.shape[1]] if key.endswith("/A") else ()), ..., -1)
        before = array[place].copy()
        for value in (np.nan, np.inf, -np.inf):
            array[place] = value
            with pytest.raises(NonFiniteError, match=rf"{key.split('/')[-2]}.* at step {step}\n"):
                engine.state.assert_finite(step)
            if not key.startswith("connections/"):  # these are watched where they change
                with pytest.raises(NonFiniteError, match="of slice 2"):
                    engine.dispatch.groups[-1]._judge(step)
        array[place] = before
    engine.state.assert_finite(step)
    for group in engine.dispatch.groups:
        group._judge(step)


@pytest.mark.parametrize(("mode", "whose"), [("extra_shared", ""), ("shared", " of slice 2")])
def test_weights_and_what_their_rule_keeps_are_watched_at_updates(mode: str, whose: str) -> None:
    engine = Engine(schedule(build(lca_network(images(3), mode=mode))), Serial(), 1)
    engine.start()
    steps = drive(engine)
    assert next(steps) == 20
    engine.state.arrays["connections/dictionary/momentum"][-1, ..., 0] = np.inf
    with pytest.raises(
        NonFiniteError, match=rf"of connection dictionary{whose} is no longer finite at step 40"
    ):
        next(steps)


def test_no_checkpoint_is_written_whose_numbers_are_not_finite(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Watch, "check", lambda watch, *steps: None)  # not even where this finds nothing
    with pytest.raises(NonFiniteError, match="V of layer lif of slice 0 is no longer finite at step 20"):
        petabatch.run(neuron(), tmp_path / "run", quiet=True, mpi=False)
    assert checkpoint_steps(RunDirectory.open(tmp_path / "run")) == [0]


class Clock(Layer):
    """Steps since the last input above 0: infinitely many at first."""

    type: Literal["test_clock"] = "test_clock"
    declared: bool = True
    first: float = np.inf

    def variables(self) -> Sequence[Variable]:
        return (Variable("since", self.shape, LAYER_DIMS, initial=self.first, infinite=self.declared),)

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        state["since"][...] = np.where(drive[0] > 0, 0, state["since"] + 1)


def test_infinities_are_right_in_variables_that_declare_them_and_nan_in_none() -> None:
    def states(**keys: Any) -> Any:
        net = neuron(strength=0.1)
        return in_memory.run(
            net.model_copy(update={"layers": {**net.layers, "clock": Clock(shape=SHAPE, **keys)}}), [9]
        )

    assert np.isinf(states().states["layers/clock/since"]).all()
    with pytest.raises(NonFiniteError, match="since of layer clock of slice 0 is not finite at step 0"):
        states(declared=False)
    with pytest.raises(NonFiniteError, match="since of layer clock of slice 0 is not finite at step 0"):
        states(first=np.nan)


def test_weights_that_are_not_finite_at_the_start_are_refused() -> None:
    net = neuron(strength=0.1)
    bad = Conv(pre="late", post="lif", patch=(1, 1), init=GivenWeights(data=np.nan))
    with pytest.raises(NonFiniteError, match="weights of connection see is not finite at step 0"):
        run(net.model_copy(update={"connections": {**net.connections, "see": bad}}))


def test_a_constant_that_starts_with_other_values_is_not_taken_for_its_value() -> None:
    net = with_constants(Quotient(shape=SHAPE), ("exc", 1.0, 1.0), ("inh", 0.0, 1.0))
    start = {"A": {"type": "uniform", "low": 1.0, "high": 2.0}}
    other = Constant(shape=SHAPE, value=0.0, start=start)
    in_memory.run(net.model_copy(update={"layers": {**net.layers, "c1": other}}))


def with_constants(layer: Layer, *values: tuple[str, float, float]) -> Network:
    """Return a layer driven by constants: channel, value, strength."""
    layers: dict[str, Layer] = {"layer": layer}
    connections: dict[str, Connection] = {}
    for number, (channel, value, strength) in enumerate(values):
        layers |= {
            f"c{number}": Constant(shape=SHAPE, value=value),
            f"l{number}": Linear(shape=SHAPE, scale=2.0),
        }
        connections |= {
            f"c{number}": Identity(pre=f"c{number}", post=f"l{number}"),
            f"l{number}": Identity(pre=f"l{number}", post="layer", channel=channel, strength=strength),
        }
    return Network(run=Run(steps=20, display=5), layers=layers, connections=connections)


@pytest.mark.parametrize(
    ("layer", "values", "bad"),
    [
        (ConductanceLIF(shape=SHAPE), [("exc", 1.0, -0.45)], True),
        (ConductanceLIF(shape=SHAPE), [("exc", 1.0, -0.45), ("inh", 1.0, 0.45)], False),
        (ConductanceLIF(shape=SHAPE), [("exc", 1.0, -0.1)], False),
        (ConductanceLIF(shape=SHAPE), [("exc", 0.0, -0.45)], False),
        (ConductanceLIF(shape=SHAPE, noise=(5.0, 0.0, 0.0)), [("exc", 1.0, -0.45)], False),  # not known
        (ConductanceLIF(shape=SHAPE), [], False),
        (Quotient(shape=SHAPE), [("exc", 1.0, 1.0)], True),
        (Quotient(shape=SHAPE), [("exc", 1.0, 1.0), ("inh", 1.0, 0.0)], True),
        (Quotient(shape=SHAPE), [("exc", 1.0, 1.0), ("inh", 1.0, 0.5)], False),
    ],
)
def test_what_constants_alone_drive_out_of_bounds_is_refused_before_the_run(
    layer: Layer, values: list[tuple[str, float, float]], bad: bool
) -> None:
    network = with_constants(layer, *values)
    if not bad:
        build(network)
        if not layer.host_numbers:
            in_memory.run(network)
        return
    with pytest.raises(ParamsError, match="do not stay finite") as refused:
        build(network)
    assert [problem.key for problem in refused.value.problems] == ["layers.layer"]


def test_a_slice_that_stops_has_the_patches_of_the_weights_that_it_kept() -> None:
    see = Conv(pre="one", post="code", patch=(2, 2), mode="shared", init=GivenWeights(data=0.5))
    net = Network(
        run=Run(batch=2, display=5, displays=2),
        layers={"one": Constant(shape=(4, 4, 1), value=1.0), "code": LCA(shape=(2, 2, 3), threshold=0.1)},
        connections={"see": see},
    )
    engine = Engine(replace(schedule(build(net)), tolerant=True), Serial(), 1)
    engine.start()
    patches = engine.state.arrays["connections/see/patches"]
    expected = patches.copy()
    assert expected.all()
    next(drive(engine))
    engine.state.arrays["connections/see/weights"][...] = 7.0
    patches[...] = 7.0
    engine.lanes[1].stop(Failure("the patches are others", 5))
    assert (patches[0] == 7.0).all()
    assert patches[1].tobytes() == expected[1].tobytes()


def test_of_a_slice_that_stops_nothing_is_on_its_way() -> None:
    wired = Sparse(
        pre="one", post="late", number=3, delays=weights.Constant(value=3.0), init=GivenWeights(data=0.5)
    )
    net = Network(
        run=Run(batch=2, display=5, displays=2, dt=1.0),
        layers={"one": LeakyIntegrator(shape=SHAPE, tau=5.0), "late": LeakyIntegrator(shape=SHAPE, tau=5.0),
                "given": Constant(shape=SHAPE, value=1.0)},
        connections={"see": Identity(pre="given", post="one"), "wired": wired},
    )  # fmt: skip
    engine = Engine(replace(schedule(build(net)), tolerant=True), Serial(), 1)
    engine.start()
    next(drive(engine))
    pending = engine.state.arrays["connections/wired/pending"]
    assert pending.any(axis=(1, 2, 3, 4)).all()
    engine.lanes[1].stop(Failure("it is to stop", 5))
    assert pending[0].any()
    assert not pending[1].any()


@pytest.mark.parametrize("before", ["lazy", "dense"])
@pytest.mark.parametrize("after", ["lazy", "dense"])
def test_the_last_finite_state_is_the_same_under_another_kernel(before: str, after: str) -> None:
    def opened(kernel: str) -> Engine:
        net = lca_network(images(2), learn=False, kernel=kernel, display=40, displays=2)
        few_active = net.layers["V1"].model_copy(update={"threshold": 2.0})
        # What is recorded would bring potentials up to date.
        net = net.model_copy(update={"layers": {**net.layers, "V1": few_active}, "output": Output()})
        return Engine(replace(schedule(build(net)), tolerant=True, stops=(40, 60)), Serial(), 1)

    first = opened(before)
    first.start()
    states = {}
    for step in drive(first):
        first.collect()
        states[step] = {key: array.copy() for key, array in first.saved().items()}
    assert states[60]["layers/V1/V"].tobytes() != states[40]["layers/V1/V"].tobytes()
    if before == "lazy":
        assert states[40]["lazy/V1/decay"].all()
        assert states[60]["lazy/V1/decay"].all()
    other = opened(after)
    other.resume(60, states[60])
    other.lanes[1].stop(Failure("it is to stop", 80))
    other.collect()
    for key in ("layers/V1/V", "layers/V1/A"):
        assert other.state.arrays[key][1].tobytes() == states[40][key][1].tobytes(), key
    assert other.state.arrays["layers/V1/V"][0].tobytes() == states[60]["layers/V1/V"][0].tobytes()


@pytest.mark.parametrize(
    ("parts", "rank", "place"),
    [
        ({"rows": 2}, 1, "y 3, x 2, feature 1"),
        ({"features": 3}, 2, "y 1, x 2, feature 9"),
        ({"rows": 2, "features": 3}, 4, "y 3, x 2, feature 5"),
    ],
    ids=str,
)
def test_errors_name_the_place_in_the_whole_layer(parts: dict[str, int], rank: int, place: str) -> None:
    network = split(lca_network(images(1, 1, (8, 8, 3)), display=4), **parts)

    def one(comm: Comm) -> str:
        state = Assembly.of(network, comm, 1).engine().state
        state.arrays["layers/V1/V"][0, 1, 2, 1] = np.nan
        with pytest.raises(NonFiniteError) as found:
            state.assert_finite(7, ["layers/V1/V"])
        weights = state.arrays["connections/dictionary/weights"]
        weights[0, 0, 0, 1, 3, 2, 0] = np.inf
        with pytest.raises(NonFiniteError) as of_weights:
            state.assert_finite(7, ["connections/dictionary/weights"])
        return f"{found.value} {of_weights.value}"

    feature = place.split()[-1]
    message = on_threads(network.parallel.parts, one)[rank]
    assert f"nan at {place}\n" in message
    assert f"pre_feature {feature}, py 3, px 2, post_feature 0" in message
