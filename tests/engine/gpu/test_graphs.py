"""Layers side by side on a GPU, and steps that are captured once: the bits of one after the other."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from petabatch.connections import Conv, Identity
from petabatch.engine.gpu.graphs import CapturedSteps
from petabatch.layers import LCA, GaussianNoise, Input, LeakyIntegrator, Linear, Mask, Product, Rectified
from petabatch.network.build import build
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.schedule import Every
from support.gpu_emulation import EmulatedGpu
from support.gpu_runs import assert_near, simulate
from support.networks import GivenImages, GivenWeights, images
from support.streams import Stream, current

DATA = images(3, shape=(6, 6, 2), items=5)
SHAPE = (6, 6, 2)


def columns(middle: Layer | None = None, delay: int = 2, **run: Any) -> Network:
    """Return image -> three layers side by side -> their product -> an echo that is updated now and then."""
    weights = np.random.default_rng(1).normal(size=(2, 3, 3, 2))
    return Network(
        run=Run(batch=3, display=5, displays=5, precision="float64", **run),
        layers={
            "image": Input(shape=SHAPE, source=GivenImages(data=DATA)),
            "left": Linear(shape=SHAPE, scale=0.5),
            "middle": middle or Rectified(shape=SHAPE, threshold=0.1),
            "right": LCA(shape=SHAPE, tau=3.0, threshold=0.1, reset=Every(2, "displays")),
            "both": Product(shape=SHAPE),
            "echo": LeakyIntegrator(shape=SHAPE, tau=5.0, every=Every(3, "steps")),
        },
        connections={
            "blurred": Conv(pre="image", post="left", patch=(3, 3), init=GivenWeights(data=weights)),
            "seen": Identity(pre="image", post="middle"),
            "late": Identity(pre="image", post="right", delay_steps=delay),
            "left_both": Identity(pre="left", post="both"),
            "middle_both": Identity(pre="middle", post="both"),
            "right_both": Identity(pre="right", post="both", channel="inh"),
            "heard": Identity(pre="both", post="echo"),
        },
        output=Output(
            layers={name: LayerOutput(every=Every(1, "steps")) for name in ("left", "right", "both", "echo")}
        ),
    )


def test_steps_that_are_replayed_are_those_of_the_cpu() -> None:
    device = EmulatedGpu()
    found = simulate(columns(device="gpu"), device)[1]
    assert_near(found, simulate(columns())[1], 1e-14)
    # the delay's three places, new images, updates and resets: each kind of step once
    assert 3 <= device.captured < 15


@pytest.mark.parametrize(
    ("middle", "delay"),
    [
        (GaussianNoise(shape=SHAPE), 2),
        (Mask(shape=SHAPE, features=(1,)), 2),
        (Rectified(shape=SHAPE), 80),
    ],
)
def test_steps_that_differ_from_one_another_are_not_captured(middle: Layer, delay: int) -> None:
    device = EmulatedGpu()
    found = simulate(columns(middle, delay, device="gpu"), device)[1]
    assert_near(found, simulate(columns(middle, delay))[1], 1e-14)
    assert device.captured == 0


@pytest.mark.parametrize(("one", "other"), [("left", "middle"), ("middle", "left")])
def test_a_layer_that_is_reset_to_one_of_its_level_sees_it_as_on_the_cpu(one: str, other: str) -> None:
    def network(**run: Any) -> Network:
        net = columns(**run)
        codes = {
            one: LCA(shape=SHAPE, tau=3.0, threshold=0.1),
            other: LCA(shape=SHAPE, tau=4.0, threshold=0.1, reset=Every(2), reset_to=one),
        }
        return net.model_copy(update={"layers": {**net.layers, **codes}})

    graph = build(network())
    assert graph.levels[one] == graph.levels[other]
    found = simulate(network(device="gpu"), EmulatedGpu())[1]
    assert_near(found, simulate(network())[1], 1e-14)


def test_layers_of_a_level_are_side_by_side_and_levels_one_after_the_other() -> None:
    device, graph = EmulatedGpu(), build(columns())
    device.enter()
    done: dict[str, tuple[int, dict[int, int]]] = {}

    def operation(name: str) -> Any:
        def operate(ctx: StepContext) -> None:
            stream: Stream = current()
            done[name] = stream.ptr, stream.touch()

        return operate

    steps = CapturedSteps(device, graph, [[operation(name) for name in level] for level in graph.order])
    moment = StepContext(1, 1.0, (0, 1, 2), 1, np, 5)
    for step in range(1, 40):
        before = dict(done)
        list(steps(replace(moment, step=step), step))
        order = [(name, number) for number, level in enumerate(graph.order) for name in level]
        assert {number for _, number in order} == {0, 1, 2, 3}
        for name, level in order:
            stream, _ = done[name]
            for other, theirs in order:
                known = done[other][1].get(stream, 0) >= done[name][1][stream]
                if name != other:
                    assert known == (level < theirs), (name, other)
            if before:
                stream, clock = before[name]
                assert all(seen.get(stream, 0) >= clock[stream] for _, seen in done.values())


@pytest.mark.parametrize(("changing", "calls"), [(False, 1 + 3 + 4), (True, 100)])
def test_steps_between_events_are_few_graphs_if_they_are_alike(changing: bool, calls: int) -> None:
    network = columns()
    if not changing:
        steady = {"right": LCA(shape=SHAPE, tau=3.0), "echo": LeakyIntegrator(shape=SHAPE, tau=5.0)}
        network = network.model_copy(update={"layers": {**network.layers, **steady}})
    device, graph, made = EmulatedGpu(), build(network), list[int]()
    device.enter()

    def operation(name: str) -> Any:
        return lambda ctx: made.append(ctx.step) if name == "both" else None

    steps = CapturedSteps(device, graph, [[operation(name) for name in level] for level in graph.order])
    reached = list(steps(StepContext(1, 1.0, (0, 1, 2), 1, np, 1000), 100))
    assert reached[-1] == 100
    assert len(reached) == calls
    # A graph is that of the steps in which it was captured: these have the same places in histories.
    assert [step % 3 for step in made] == [step % 3 for step in range(1, 101)]
    assert all(
        graph.network.layers["echo"].due(step, 5) == graph.network.layers["echo"].due(n, 5)
        for n, step in enumerate(made, 1)
    )
