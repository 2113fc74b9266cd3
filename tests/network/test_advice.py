"""What is said of a network before its run: what has no effect, what the run is too short for, and where."""

from __future__ import annotations

import logging
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory, params
from petabatch.connections import Conv, Identity, Sparse
from petabatch.engine.engine import Engine
from petabatch.layers import (
    FISTA,
    ISTA,
    LCA,
    Constant,
    HeavyBall,
    Input,
    LeakyIntegrator,
    Linear,
    Neurons,
    Poisson,
    Rectified,
    Rescale,
    Sigmoid,
    SpikeTimes,
)
from petabatch.learning import Hebbian, SynapticEquations
from petabatch.learning.revive import Revive
from petabatch.network.advice import Advice, advice
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.recordings import Recording
from petabatch.network.silence import Silence
from petabatch.parallel.comm import Serial
from petabatch.probes import L2
from petabatch.sources import ImageArray
from petabatch.spec.network import Evaluate, LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP, Connection, Layer
from petabatch.spec.schedule import Every
from petabatch.spec.sweep import Sweep
from petabatch.weights import L2 as Unit
from petabatch.weights import Constant as Start
from petabatch.weights import ImagePatches
from petabatch.weights.random import Constant as ConstantWeights
from support.networks import GivenImages, GivenWeights, images, lca_network
from support.programs import random_network

ROOT = Path(__file__).parents[2]
FILES = [*ROOT.glob("params/*.toml"), *ROOT.glob("demos/*/*.toml")]
SHAPE = (4, 4, 2)
NO_RECORDS = "nothing is recorded: neither [output] nor a probe asks for anything"
IMAGE = Input(shape=SHAPE, source=GivenImages(data=images(1, 1, SHAPE)))


def said(network: Network) -> list[Advice]:
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    return list(advice(engine.plan, engine.state.arrays))


def warnings(network: Network) -> list[str]:
    return [one.text for one in said(network) if one.level == "warning"]


def notes(network: Network) -> list[str]:
    return [one.text for one in said(network) if one.level == "note"]


def chain(layer: Layer, connection: Connection | None = None, **keys: Any) -> Network:
    """Return image -> layer, which is recorded."""
    connections = {"see": connection or Identity(pre="image", post="layer")}
    layers = {"image": IMAGE, "layer": layer}
    output = Output(layers={"layer": LayerOutput(every=STEP)})
    return Network(
        **{"run": Run(steps=20, display=5), "layers": layers, "connections": connections, "output": output}
        | keys
    )


@pytest.mark.parametrize("learn", [True, False])
def test_synapses_of_zeros_are_told_unless_they_learn(learn: bool) -> None:
    rule = SynapticEquations(on_pre="w += 0.1 * r", factors={"r": "reward"}) if learn else None
    connections = {
        "c": Sparse(
            pre="p", post="n", target="v", probability=1.0, init=ConstantWeights(value=0.0),
            mode="non_shared", learn=rule,
        )
    }  # fmt: skip
    layers = {
        "p": Poisson(shape=(1, 1, 4), rate=0.5),
        "n": Neurons(shape=(1, 1, 2), equations="dv/dt = -v", spike="v > 1", reset="v = 0"),
        "reward": Neurons(shape=(1, 1, 1), equations="dr/dt = -r", start={"r": 1.0}),
    }
    output = Output(layers={"n": LayerOutput()})
    net = Network(run=Run(steps=20), layers=layers, connections=connections, output=output)
    told = str(said(net))
    assert ("connections.c: its weights are all 0, and nothing changes them" in told) != learn
    assert ("layers that nothing reads" in told) != learn


@pytest.mark.parametrize("kind", [LCA, FISTA])
@pytest.mark.parametrize("learn", [True, False])
def test_a_dictionary_of_zeros_is_told_with_what_stays_0(kind: Any, learn: bool) -> None:
    net = lca_network(images(2), learn=learn)
    dictionary: Any = net.connections["dictionary"]
    zeros = dictionary.model_copy(update={"init": GivenWeights(data=np.zeros(1))})
    code = kind(shape=net.layers["V1"].shape)
    net = net.model_copy(update={"layers": {**net.layers, "V1": code}, "output": Output()})
    assert warnings(net) == []
    told = warnings(net.model_copy(update={"connections": {**net.connections, "dictionary": zeros}}))
    assert told[0] == "connections.dictionary: its weights are all 0, and nothing changes them"
    assert told[1] == "layers that stay 0 in all steps: V1, recon" + (
        "; weights that never learn: dictionary" if learn else ""
    )
    if learn:
        revived = zeros.model_copy(update={"revive": Revive(after=2, init=GivenWeights(data=np.ones(1)))})
        assert not warnings(
            net.model_copy(update={"connections": {**net.connections, "dictionary": revived}})
        )


def test_weights_of_zero_that_learn_from_two_active_layers_are_meant() -> None:
    conv = Conv(
        pre="image", post="layer", patch=(1, 1), init=GivenWeights(data=np.zeros(1)),
        learn=Hebbian(error="teacher"),
    )  # fmt: skip
    net = chain(Linear(shape=SHAPE), conv)
    teacher = {"teacher": Linear(shape=SHAPE)}
    teach = {"teach": Identity(pre="image", post="teacher")}
    with_teacher = net.model_copy(
        update={"layers": net.layers | teacher, "connections": net.connections | teach}
    )
    assert said(with_teacher) == []
    without = net.model_copy(update={"layers": net.layers | teacher})
    assert "layers.teacher: nothing is connected to it, and without input it stays 0" in warnings(without)
    assert warnings(without)[-1].endswith("weights that never learn: see")


def with_zeros(seed: int) -> Network:
    """Return a random network, some of whose weights are 0, and some of whose strengths."""
    net, rng = random_network(seed), np.random.default_rng(seed)
    connections: dict[str, Connection] = {}
    for name, connection in net.connections.items():
        update: dict[str, Any] = {"strength": 0.0} if rng.random() < 0.2 else {}
        if connection.owner is not None and rng.random() < 0.4:
            update["init"] = GivenWeights(data=np.zeros(1))
        connections[name] = connection.model_copy(update=update)
    run = net.run.model_copy(update={"steps": 12})
    return net.model_copy(update={"connections": connections, "run": run})


def test_layers_that_are_said_to_stay_0_do() -> None:
    count = 0
    for seed in range(40):
        net = with_zeros(seed)
        engine = Engine(schedule(build(net)), Serial(), 1)
        engine.start()
        graph, arrays = engine.plan.graph, engine.state.arrays
        silence = Silence(graph, [n for n in graph.weighted if not arrays[f"connections/{n}/weights"].any()])
        found = in_memory.run(net, range(13)).states
        for name in silence.layers:
            assert not found[f"layers/{name}/A"].any(), (seed, name)
        count += len(silence.layers)
    assert count > 20


@pytest.mark.parametrize(
    ("patch", "left"), [((4, 4), None), ((2, 4), "50%"), ((1, 1), "94%"), ((5, 6), None)]
)
def test_patches_that_leave_units_out_are_told(patch: tuple[int, int], left: str | None) -> None:
    net = lca_network(images(1, shape=(16, 16, 1)), stride=4, patch=patch)
    found = warnings(net)
    assert len(found) == (left is not None)
    assert not left or f"leave {left} of them out" in found[0]


@pytest.mark.parametrize("mode", ["shared", "extra_shared", "extra_non_shared"])
def test_a_connection_that_has_drawn_no_synapses_is_told(mode: Any) -> None:
    init = GivenWeights(data=np.ones(1))
    one = (4, 4, 1) if mode.endswith("shared") and "non" not in mode else (1, 1, 1)
    layers = {"a": Constant(shape=one, value=1.0), "b": Linear(shape=one)}

    def net(probability: float) -> Network:
        sparse = Sparse(pre="a", post="b", probability=probability, mode=mode, init=init)
        return Network(run=Run(steps=2), layers=layers, connections={"s": sparse})

    assert not any("synapses" in note for note in notes(net(1.0)))
    (told,) = (note for note in notes(net(0.01)) if "synapses" in note)
    assert told.startswith("connections.s: it has no synapses: none of 1 possible ones")
    assert ("extra_non_shared" in told) == (one == (4, 4, 1))
    assert not any("its weights are all 0" in text for text in warnings(net(0.01)))


@pytest.mark.parametrize("per_slice", [False, True])
def test_no_synapses_have_no_weights_to_draw(per_slice: bool) -> None:
    source = ImageArray(data=images(1, 1, (4, 4, 1)), normalize="range")
    sparse = Sparse(
        pre="a",
        post="b",
        probability=0.0,
        init=ImagePatches(source=source),
        per_slice=per_slice,
        mode="non_shared" if per_slice else "extra_non_shared",
    )
    layers = {"a": Constant(shape=(1, 1, 2), value=1.0), "b": Linear(shape=(1, 1, 2))}
    network = Network(run=Run(steps=2, batch=2), layers=layers, connections={"s": sparse})
    assert (
        any("it has no synapses" in note for note in notes(network)) is not per_slice
    )  # others may have some


def test_times_beside_the_run_are_told() -> None:
    def told(refractory: float, spikes: float) -> list[str]:
        layers = {
            "n": Neurons(
                shape=(1, 1, 1), equations="dv/dt = -v", spike="v > 1", reset="v = 0", refractory=refractory
            ),
            "s": SpikeTimes(shape=(1, 1, 1), spikes=((1.0, 0.0), (spikes, 0.0))),
        }
        found = notes(Network(run=Run(steps=100, dt=0.1), layers=layers))
        return [one for one in found if one.startswith(("layers.n:", "layers.s:"))]

    assert told(0.05, 2.0) == [
        "layers.n: `refractory` of 0.05 is less than a step of run.dt, 0.1: there is none"
    ]
    assert told(2000.0, 10.0) == [
        "layers.n: a unit spikes once at most: `refractory` of 2000 is longer than the run, 10",
        "layers.s: 1 of its 2 spikes come after the end of the run, at 10",
    ]
    assert told(0.1, 9.9) == told(0.0, 9.9) == []


def test_spikes_of_slices_that_there_are_not_are_told() -> None:
    spikes = SpikeTimes(shape=(1, 1, 2), spikes=((0.1, 0, 0), (0.2, 1, 1), (0.3, 0, 7)))

    def net(batch: int) -> Network:
        return Network(run=Run(steps=2, batch=batch), layers={"s": spikes})

    assert "layers.s: 1 of its spikes is not of slices 0 to 1, and is left out" in notes(net(2))
    assert "layers.s: 2 of its spikes are not of the only slice, 0, and are left out" in notes(net(1))
    assert not any("spikes" in note for note in notes(net(8)))


@pytest.mark.parametrize(
    ("layer", "told"),
    [
        (LCA(shape=SHAPE, width=0.3), 'layers.layer.width: it has no effect with transfer = "soft"'),
        (LCA(shape=SHAPE, width=0.3, transfer="firm"), None),
        (LCA(shape=SHAPE, width=0.0), None),
        (Rectified(shape=SHAPE, slopes=(0.0, 0.5)), "layers.layer.slopes: it has no effect without vertices"),
        (Rectified(shape=SHAPE, slopes=(0.0, 0.5), vertices=((0.0, 0.0),)), None),
        (
            Rescale(shape=SHAPE, method="length", low=0.0),
            'layers.layer.low: it has no effect with method = "length"',
        ),
        (Rescale(shape=SHAPE, method="range", low=0.0), None),
    ],
)  # fmt: skip
def test_keys_without_effect_are_told(layer: Layer, told: str | None) -> None:
    assert warnings(chain(layer)) == ([] if told is None else [told])


def test_parameters_and_currents_that_nothing_reads_are_told() -> None:
    layers: dict[str, Layer] = {
        "n": Neurons(
            shape=SHAPE, equations="dv/dt = -v / tau + sin(t)\nw = k * v", currents=("I",),
            parameters={"tau": 3.0, "k": 1.0, "kk": 2.0, "u": ConstantWeights(value=1.0)}, activity="v",
        ),
        "p": Poisson(shape=SHAPE, rate="k * sin(t)", parameters={"k": 1.0, "l": 2.0}),
    }  # fmt: skip
    unread = [
        text
        for text in warnings(Network(run=Run(steps=1), layers=layers))
        if "reads" in text or "read it" in text
    ]
    assert unread == [
        "layers.n.parameters.kk: it has no effect as no equation reads it",
        "layers.n.parameters.u: it has no effect as no equation reads it",
        "layers.n.currents.I: it has no effect as no equation reads it",
        "layers.p.parameters.l: it has no effect as the rate does not read it",
    ]


@pytest.mark.parametrize(("rate", "told"), [(-0.5, True), (0.0, True), (0.5, False)])
def test_a_rate_that_is_not_above_0_is_told_where_nothing_is_connected(rate: float, told: bool) -> None:
    alone = Network(run=Run(steps=1), layers={"p": Poisson(shape=SHAPE, rate=rate)})
    text = "layers.p: nothing is connected to it, and without input it stays 0"
    assert (text in warnings(alone)) == told
    assert text not in warnings(chain(Poisson(shape=SHAPE, rate=rate)))


def test_a_normaliser_that_is_never_applied_is_told() -> None:
    init = GivenWeights(data=np.ones(1))
    for at_start, at_updates, learn, expected in (
        (False, True, None, 1),
        (True, False, None, 0),
        (False, True, Hebbian(), 0),
        (False, False, Hebbian(), 1),
    ):
        rule = Unit(at_start=at_start, at_updates=at_updates)
        conv = Conv(pre="image", post="layer", patch=(1, 1), init=init, normalize=rule, learn=learn)
        assert len(warnings(chain(Linear(shape=SHAPE), conv))) == expected


def test_a_connection_to_a_layer_that_takes_no_input_is_told() -> None:
    onto = chain(Constant(shape=SHAPE, value=1.0), Identity(pre="image", post="layer"))
    assert warnings(onto) == ["connections.see: it delivers nothing, since layers.layer takes no input"]


def test_what_may_be_meant_is_a_note() -> None:
    see = Identity(pre="image", post="layer", strength=0.0)
    assert said(chain(LeakyIntegrator(shape=SHAPE), see)) == [
        Advice("note", "layers that stay 0 in all steps: layer"),
        Advice("note", "connections.see: it delivers nothing, since its strength is 0"),
    ]
    varied = chain(LeakyIntegrator(shape=SHAPE), see, slices={"connections.see.strength": (0.0,)})
    assert said(varied) == []
    late = chain(LeakyIntegrator(shape=SHAPE), Identity(pre="image", post="layer", delay_steps=20))
    assert notes(late) == ["the run is shorter than the delay of connections.see, which delivers nothing"]
    often = chain(LeakyIntegrator(shape=SHAPE, every=Every(4), reset=Every(6)))
    assert len(notes(often)) == 1
    assert notes(often)[0].startswith("layers.layer is reset every 12 steps alone")
    unread = chain(Linear(shape=SHAPE), output=Output())
    assert notes(unread) == [
        NO_RECORDS,
        "layers that nothing reads, and that no probe or output records: layer",
    ]
    assert notes(chain(Linear(shape=SHAPE), output=Output(), probes={"size": L2(layer="layer")})) == []
    held = Conv(pre="image", post="layer", patch=(1, 1), init=GivenWeights(data=np.ones(1)), channel="none")
    assert any("nothing uses its weights" in note for note in notes(chain(Linear(shape=SHAPE), held)))


@pytest.mark.parametrize(("displays", "short"), [(2, True), (3, False)])
def test_a_run_that_is_too_short_to_learn_or_to_evaluate_says_so(displays: int, short: bool) -> None:
    net = lca_network(images(2), displays=displays)
    dictionary: Any = net.connections["dictionary"]
    rule = dictionary.learn.model_copy(update={"every": Every(3, "displays")})
    evaluate = Evaluate(source=GivenImages(data=images(2)), every=Every(3, "displays"), displays=1)
    connections = {**net.connections, "dictionary": dictionary.model_copy(update={"learn": rule})}
    found = notes(net.model_copy(update={"connections": connections, "evaluate": evaluate}))
    assert [
        any("too short to learn" in note for note in found),
        any("too short to evaluate" in note for note in found),
    ] == [short] * 2


SLOW = [
    *((layer(shape=SHAPE, tau=1e6), "V", "1.3 % too short") for layer in (LCA, HeavyBall, LeakyIntegrator)),
    (LCA(shape=SHAPE, tau=5e7), "V", "infinite"),
    *(
        (Neurons(shape=SHAPE, equations=f"dv/dt = {right}", currents=("exc",)), "v", "1.3 % too short")
        for right in ("(exc - v) / 1e6", "exc - v / 1e6 + sin(t)")
    ),
]


@pytest.mark.parametrize(("layer", "variable", "told"), SLOW)
def test_time_constants_that_float32_rounds_are_told(layer: Layer, variable: str, told: str) -> None:
    see = Identity(pre="image", post="layer", target="exc" if layer.targets else None)
    (found,) = (note for note in notes(chain(layer, see)) if "time constant" in note)
    assert found.startswith(f"layers.layer: the time constant of {variable}, ")
    assert f"is {told} in float32" in found
    exact = chain(layer, see, run=Run(steps=20, display=5, precision="float64"))
    assert not [note for note in notes(exact) if "time constant" in note]
    assert notes(chain(ISTA(shape=SHAPE, tau=1e6))) == notes(chain(LCA(shape=SHAPE, tau=100.0))) == []


def test_of_slices_that_differ_the_first_slow_one_is_told() -> None:
    values = (10.0, 100.0, 1e6, 1e7)
    layers = {"image": Constant(shape=SHAPE, value=1.0), "layer": LeakyIntegrator(shape=SHAPE)}
    net = chain(
        layers["layer"], layers=layers, slices={"layers.layer.tau": values}, run=Run(batch=4, steps=5)
    )
    (found,) = (note for note in notes(net) if "time constant" in note)
    assert "of V in slice 2, 1e+06 steps, " in found
    steps = Sweep(run={"dt": [1.0, 1e-4]})
    (found,) = (note for note in notes(chain(layers["layer"], sweep=steps)) if "time constant" in note)
    assert "of V in slice 1, 1e+06 steps, " in found


def test_the_error_of_a_time_constant_is_the_one_that_is_told() -> None:
    steps, tau = 2000, 1e6
    see = Identity(pre="image", post="layer", strength=0.0)
    held = LeakyIntegrator(shape=SHAPE, tau=tau, start={"V": Start(value=1.0)})
    found = in_memory.run(chain(held, see, run=Run(steps=steps, display=100)), threads=1)
    left = found.end.arrays["layers/layer/V"].mean()
    assert -np.log(left) * tau / steps - 1 == pytest.approx(0.0133, rel=0.1)


def test_usual_networks_are_told_nothing() -> None:
    assert said(lca_network(images(2))) == []
    assert said(chain(Sigmoid(shape=SHAPE))) == []


@pytest.mark.sampled(9)
@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_the_networks_of_the_repository_have_nothing_without_effect(file: Path) -> None:
    plan = params.plan(params.read(file))
    assert [one.text for one in advice(plan) if one.level == "warning"] == []


def test_a_run_logs_what_check_prints_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "petabatch")
    shown = Input(shape=SHAPE, source=ImageArray(data=images(1, 1, SHAPE)[0]))
    net = chain(LCA(shape=SHAPE, width=0.3), output=Output())
    net = net.model_copy(update={"layers": {**net.layers, "image": shown}})
    logged = ['layers.layer.width: it has no effect with transfer = "soft"']
    noted = ["note: layers that nothing reads, and that no probe or output records: layer"]

    def records() -> tuple[list[str], list[str]]:
        found = [(record.levelno, record.getMessage()) for record in caplog.records]
        caplog.clear()
        told = [text for level, text in found if level == logging.WARNING]
        return told, [text for level, text in found if level == logging.INFO and text.startswith("note")]

    in_memory.run(net)
    assert records() == (logged, noted)
    petabatch.run(net, tmp_path / "run", mpi=False)
    assert records() == (logged, [f"note: {NO_RECORDS}", *noted])
    assert (tmp_path / "run/log.txt").read_text().count(logged[0]) == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ({"data": np.zeros((3, 9, 9, 1), "f4")}, "its images of 9 x 9 are a little larger"),
        ({"data": np.zeros((3, 9, 9, 1), "f4"), "crop": "random"}, ""),
        ({"data": np.zeros((1, 8, 8, 1), "f4"), "order": "by_movie"}, 'order = "by_movie" starts all 2'),
    ],
)
def test_a_run_of_a_network_built_in_python_is_told_what_one_of_a_file_is(
    source: dict[str, Any], said: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    net = chain(Linear(shape=(8, 8, 1)), run=Run(batch=2, steps=1))
    shown = Input(shape=(8, 8, 1), source=ImageArray(**source))
    net = net.model_copy(update={"layers": {**net.layers, "image": shown}})
    for run in (in_memory.run, partial(petabatch.run, out=tmp_path / "run", mpi=False)):
        caplog.clear()
        run(net)
        found = "".join(one.getMessage() for one in caplog.records if one.levelno == logging.WARNING)
        assert found.partition(": ")[2].startswith(said)
        assert bool(found) == bool(said)


def test_a_run_to_files_that_records_nothing_is_told_so() -> None:
    silent = chain(LeakyIntegrator(shape=SHAPE), output=Output())
    assert NO_RECORDS in notes(silent)
    assert NO_RECORDS not in notes(silent.model_copy(update={"probes": {"size": L2(layer="layer")}}))
    assert NO_RECORDS not in notes(chain(LeakyIntegrator(shape=SHAPE)))


def recorded(every: Every, displays: int) -> list[str]:
    network = lca_network(images(1, 1, (8, 8, 1)), 2, (2, 2), display=10, displays=displays, record=every)
    return [one.text for one in advice(schedule(build(network)))]


@pytest.mark.parametrize(("displays", "missed"), [(3, ["layers/V1/A, layers/V1/V"]), (4, [])])
def test_what_is_recorded_first_after_the_end_of_the_run_is_named(displays: int, missed: list[str]) -> None:
    found = recorded(Every(4, "displays"), displays)
    assert [any(names in note for note in found) for names in missed] == [True] * len(missed)
    assert len(found) == len(missed)


def test_the_steps_of_a_run_are_not_gone_through(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, due = [], Recording.due
    monkeypatch.setattr(Recording, "due", lambda one, step: asked.append(step) or due(one, step))
    assert recorded(STEP, 10_000) == []
    assert len(asked) < 100


def test_numbers_in_other_units_of_time_are_told() -> None:
    def net(rate: float, delays: float, steps: int = 500) -> Network:
        cell = Neurons(shape=(1, 1, 10), equations="dv/dt = -v / 20", spike="v > 1", reset="v = 0")
        synapses = Sparse(
            pre="p", post="n", target="v", probability=0.5, init=ConstantWeights(value=0.2), delays=delays
        )
        return Network(
            run=Run(batch=1, steps=steps, dt=0.1),
            layers={"p": Poisson(shape=(1, 1, 10), rate=rate), "n": cell},
            connections={"c": synapses},
        )

    assert "layers.p: a unit has 2 spikes a step; `rate` is per unit of time of run.dt, 0.1" in notes(
        net(20.0, 1.0)
    )
    assert (
        "connections.c: `delays` of 0.0015 are less than half a step of run.dt, 0.1: there are none"
        in notes(net(0.02, 0.0015))
    )
    late = "its synapses are delayed by at least 15,000 steps, and the run has 500"
    assert f"connections.c: nothing arrives: {late}" in notes(net(0.02, 1500.0))
    wave = net("20 * (1 + sin(2 * pi * t / 10))", 1.0)
    assert any(one.startswith("layers.p: a unit has 4 spikes a step") for one in notes(wave))
    right = notes(net(0.02, 1500.0, steps=15001)) + notes(net(10.0, 0.05))
    assert not [one for one in right if one.startswith(("layers.p", "connections.c"))]
