"""Levels, feedback, delays and the checks of a whole network."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch.connections import Clone, Conv, Identity, Transpose
from petabatch.errors import ParamsError
from petabatch.layers import Input, Linear
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.probes import L2
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Output, Run
from support.networks import GivenImages, GivenWeights, images, lca_network, simulate

SHAPE = (4, 4, 1)


def chain(*connections: tuple[str, str, dict], layers: str = "abcd", **phases: int) -> Network:
    return Network(
        run=Run(steps=6),
        layers={name: Linear(shape=SHAPE, phase=phases.get(name)) for name in layers},
        connections={f"{pre}{post}": Identity(pre=pre, post=post, **keys) for pre, post, keys in connections},
    )


def test_levels_are_the_longest_way_over_forward_connections() -> None:
    graph = build(
        chain(("a", "b", {}), ("b", "d", {}), ("a", "d", {}), ("d", "a", {"feedback": True}), ("a", "c", {}))
    )
    assert graph.levels == {"a": 0, "b": 1, "c": 1, "d": 2}
    assert graph.order == [["a"], ["b", "c"], ["d"]]


def test_a_given_phase_pins_the_level() -> None:
    graph = build(chain(("a", "b", {}), a=2, b=1, c=0, d=5))
    assert graph.levels == {"a": 2, "b": 1, "c": 0, "d": 5}
    assert graph.edges["b"][0].lookback == 1


def test_lca_network_has_petavisions_levels() -> None:
    graph = build(lca_network(images(1)))
    assert graph.levels == {"image": 0, "error": 1, "V1": 2, "recon": 3}
    assert {edge.name: edge.lookback for edges in graph.edges.values() for edge in edges} == {
        "image_to_error": 0,
        "recon_to_error": 1,
        "drive": 0,
        "dictionary": 0,
    }


def test_an_undeclared_cycle_is_printed() -> None:
    with pytest.raises(ParamsError, match="a -> b -> c -> a") as caught:
        build(chain(("a", "b", {}), ("b", "c", {}), ("c", "a", {})))
    assert "feedback = true" in str(caught.value)


@pytest.mark.parametrize("delay", [0, 1, 3])
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("pinned", [None, 0, 5])
def test_activity_arrives_after_delay_and_feedback(delay: int, feedback: bool, pinned: int | None) -> None:
    ramp = np.arange(20, dtype=np.float32)[None, :, None, None, None] * np.ones((1, 20, *SHAPE), np.float32)
    network = Network(
        run=Run(steps=12),
        layers={
            "image": Input(shape=SHAPE, source=GivenImages(data=ramp)),
            "middle": Linear(shape=SHAPE, phase=None if pinned is None else 1),
            "late": Linear(shape=SHAPE, phase=pinned),
        },
        connections={
            "in": Identity(pre="image", post="middle"),
            "out": Identity(pre="middle", post="late", delay_steps=delay, feedback=feedback),
        },
        output=Output(layers={"late": LayerOutput(every=1)}),
    )
    _, found = simulate(network)
    back = delay + (1 if feedback or pinned == 0 else 0)
    expected = np.maximum(np.arange(12) - back, 0)  # step t shows item t - 1
    np.testing.assert_array_equal(found["layers/late/A"][:, 0, 0, 0, 0], expected)


def test_all_problems_of_a_network_are_reported_at_once() -> None:
    init = GivenWeights(data=1.0)
    network = Network(
        run=Run(steps=1),
        layers={
            "image": Linear(shape=(8, 8, 1)),
            "V1": Linear(shape=(4, 4, 3)),
            "odd": Linear(shape=(3, 3, 1)),
        },
        connections={
            "dangling": Identity(pre="imag", post="V1"),
            "unequal": Identity(pre="image", post="V1"),
            "ratio": Conv(pre="image", post="odd", patch=(1, 1), init=init),
            "large": Conv(pre="V1", post="image", patch=(99, 99), init=init),
            "channel": Conv(pre="V1", post="image", patch=(4, 4), init=init, channel="exec"),
            "view": Transpose(pre="V1", post="image", of="channel"),
            "of": Clone(pre="V1", post="image", of="chanel"),
            "learns": Conv(pre="V1", post="image", patch=(4, 4), init=init, learn=Hebbian(error="V1")),
        },
        probes={"norm": L2(layer="V2")},
        output=Output(
            layers={"V1": LayerOutput(variables=("V",)), "V3": LayerOutput()},
            connections={"unequal": ConnectionOutput()},
        ),
    )
    with pytest.raises(ParamsError) as caught:
        build(network)
    problems = {problem.key: problem for problem in caught.value.problems}
    assert set(problems) == {
        "connections.dangling.pre",
        "connections.unequal",
        "connections.ratio",
        "connections.large",  # image -> V1 -> image is a cycle
        "connections.large.patch",
        "connections.channel.channel",
        "connections.view",
        "connections.of.of",
        "connections.learns.learn.error",
        "probes.norm",
        "output.layers.V1.variables",
        "output.layers.V3",
        "output.connections.unequal",
    }
    assert problems["connections.dangling.pre"].hint == "did you mean image?"
    assert problems["connections.of.of"].hint == "did you mean channel?"
    assert problems["connections.channel.channel"].hint == "did you mean exc?"
