"""Stages of a program: what waits for what."""

from __future__ import annotations

from petabatch.connections import Conv, Identity
from petabatch.layers import LCA, Input, Linear, Rectified
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.network.program import find_program
from petabatch.network.stages import find_stages
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Connection, Layer
from petabatch.spec.schedule import Every
from support.networks import GivenImages, GivenWeights, images

SHAPE = (4, 4, 3)


def network(layers: dict[str, Layer], connections: dict[str, Connection]) -> Network:
    image = Input(shape=SHAPE, source=GivenImages(data=images(1, 1, SHAPE)))
    return Network(run=Run(steps=3), layers={"image": image, **layers}, connections=connections)


def stages(net: Network) -> dict[str, int]:
    graph = build(net)
    program = find_program(graph)
    return {
        one.out: stage for one, stage in zip(program.operations, find_stages(graph, program), strict=True)
    }


def test_layers_of_one_level_are_side_by_side() -> None:
    layers: dict[str, Layer] = {name: Linear(shape=SHAPE) for name in ("a", "b", "sum")}
    found = stages(
        network(
            layers,
            {
                "to_a": Identity(pre="image", post="a"),
                "to_b": Identity(pre="image", post="b"),
                "from_a": Identity(pre="a", post="sum"),
                "from_b": Identity(pre="b", post="sum"),
            },
        )
    )
    assert found == {"layers/a/A": 0, "layers/b/A": 0, "layers/sum/A": 1}


def test_what_is_looked_back_at_is_not_waited_for_unless_its_place_is_written() -> None:
    layers: dict[str, Layer] = {"a": Rectified(shape=SHAPE), "b": Rectified(shape=SHAPE)}
    see = Identity(pre="image", post="a")
    for delay, expected in ((0, 1), (1, 0), (2, 0)):
        found = stages(network(layers, {"see": see, "look": Identity(pre="a", post="b", delay_steps=delay)}))
        assert found["layers/b/A"] == expected, delay


def test_a_reset_to_the_potential_of_another_layer_comes_before_its_update() -> None:
    other = LCA(shape=SHAPE, reset=Every(2), reset_to="first")
    layers: dict[str, Layer] = {"first": LCA(shape=SHAPE), "second": other}
    joined = {f"see_{name}": Identity(pre="image", post=name) for name in layers}
    graph = build(network(layers, dict(joined)))
    program = find_program(graph)
    found = find_stages(graph, program)
    order = {str(one).split("  ")[0]: stage for one, stage in zip(program.operations, found, strict=True)}
    assert order["first = leaky(image)"] < order["second.V = first.V"] < order["second = leaky(image)"]


def test_what_is_worth_it_is_named() -> None:
    fine, coarse = (32, 32, 3), (16, 16, 32)

    def two(size: int) -> Network:
        return Network(
            run=Run(steps=3),
            layers={
                "image": Input(shape=fine, source=GivenImages(data=images(1, 1, fine))),
                "left": Linear(shape=coarse),
                "right": Linear(shape=coarse),
            },
            connections={
                name: Conv(pre="image", post=name, patch=(size, size), init=GivenWeights(data=1.0))
                for name in ("left", "right")
            },
        )

    method = choose(build(two(5)))
    assert method.concurrent == (("project left", "project right"),)
    assert "side by side: project left, project right" in str(method)
    assert choose(build(two(1))).concurrent == ()
