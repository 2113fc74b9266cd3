"""Messages between ranks that share a slice: those that compiled steps send, by kind, bytes and period."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest

from petabatch.connections import Clone, Conv, Identity, Sparse
from petabatch.engine.lone_part import LonePart
from petabatch.errors import ParamsError
from petabatch.kernels.operations.transport import Exchange
from petabatch.layers import FISTA, LCA, Linear
from petabatch.network.build import build
from petabatch.network.messages import Message, Messages, messages
from petabatch.network.operations import Program
from petabatch.network.plan import Plan, schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer
from petabatch.spec.schedule import Every
from petabatch.weights import Gaussian
from support.networks import images, lca_network
from support.parts import loop_with, split
from support.programs import random_network

Kinds = Counter[tuple[str, int, int]]
"""How often there is a message of a kind, with its bytes and its period."""


def plan_of_part(network: Network) -> Plan:
    return LonePart(schedule(build(network)), Serial()).features.plan


def counted(sent: Messages) -> Kinds:
    kinds = {"summed": "features", "gathered": "features", "borders": "borders", "gathered_rows": "rows"}
    return Counter((kinds[kind], one.nbytes, one.period) for kind, ones in vars(sent).items() for one in ones)


def of_steps(program: Program) -> Kinds:
    """Return the messages of the operations of a program."""
    found: Kinds = Counter()
    for one in (one for one in program.joined if one.when.period):
        if isinstance(one, Exchange):
            found["borders", 4 * one.row * max(one.before, one.after), one.when.period] += 1
        else:
            found["rows" if one.tiles else "features", 4 * one.size, one.when.period] += 1
    return found


PARTS = [{"features": 2}, {"rows": 2}, {"rows": 3}, {"features": 2, "rows": 2}]


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_they_are_those_of_compiled_steps(parts: dict[str, int]) -> None:
    compared, sent = 0, Messages()
    for seed in range(60):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the momentum
            network = split(random_network(seed), **parts)
        network = network.model_copy(
            update={"run": network.run.model_copy(update={"kernel": "dense", "precision": "float32"})}
        )
        try:
            plan = plan_of_part(network)
        except ParamsError:
            continue
        resets = any(layer.reset_to is not None for layer in network.layers.values())
        if plan.method.stepper != "program" or plan.method.program.interpreted or resets:
            continue
        sent = messages(plan.graph)
        assert counted(sent) == of_steps(plan.method.program), seed
        compared += bool(counted(sent))
    assert compared > 5


def test_features_of_parts_are_gathered_before_and_after_a_connection() -> None:
    shape = (18, 12, 12)
    layers: dict[str, Layer] = {"V2": LCA(shape=shape, tau=20.0), "plain": Linear(shape=shape)}
    connections: dict[str, Connection] = {
        "a": Conv(pre="V1", post="V2", patch=(3, 3), init=Gaussian()),
        "c": Clone(pre="V2", post="plain", of="a"),
    }
    found = messages(plan_of_part(split(with_more(layers, connections), features=2)).graph)
    half = Message(4 * 18 * 12 * 12 // 2, 1)
    assert found.gathered == (half,) * 3  # V1, V2, and what c delivers
    assert found.summed == (Message(4 * 36 * 24 * 3, 1),)


def with_more(layers: dict[str, Layer], connections: dict[str, Connection]) -> Network:
    """Return a network with layers and connections beside a code of 12 features."""
    one = lca_network(images(2, shape=(36, 24, 3)), displays=2, learn=False)
    return one.model_copy(
        update={"layers": one.layers | layers, "connections": one.connections | connections}
    )


def test_what_a_whole_layer_sees_of_tiles_is_gathered_as_often_as_it_is_updated() -> None:
    layers: dict[str, Layer] = {"odd": Linear(shape=(9, 6, 4), every=Every(5))}
    connections: dict[str, Connection] = {"to": Conv(pre="V1", post="odd", patch=(2, 2), init=Gaussian())}
    found = messages(plan_of_part(split(with_more(layers, connections), rows=2)).graph)
    assert found.gathered_rows == (Message(4 * 9 * 12 * 12, 5),)


def test_through_synapses_with_delays_features_are_gathered_in_each_step() -> None:
    layers: dict[str, Layer] = {"odd": Linear(shape=(9, 6, 4), every=Every(5))}
    connections: dict[str, Connection] = {
        "to": Sparse(pre="V1", post="odd", probability=0.1, delays=3.0, init=Gaussian())
    }
    found = messages(plan_of_part(split(with_more(layers, connections), features=2)).graph)
    assert found.gathered == (Message(4 * 18 * 12 * 6, 1),)


def test_of_a_grid_a_rank_sends_its_features_of_its_tile() -> None:
    layers: dict[str, Layer] = {"seen": Linear(shape=(18, 12, 12))}
    connections: dict[str, Connection] = {"same": Identity(pre="V1", post="seen")}
    found = messages(plan_of_part(split(with_more(layers, connections), features=2, rows=3)).graph)
    assert found.gathered == (Message(4 * 6 * 12 * 6, 1),)
    assert found.summed == (Message(4 * 12 * 24 * 3, 1),)
    assert found.gathered_rows == ()


def test_norms_of_tiles_are_added_up_in_each_step() -> None:
    code = FISTA(shape=(18, 12, 4), threshold=0.1, step=0.5)
    connections: dict[str, Connection] = {"on": Identity(pre="F", post="same")}
    layers: dict[str, Layer] = {"F": code, "same": Linear(shape=(18, 12, 4))}
    plan = plan_of_part(split(loop_with("dense", layers, connections), rows=2))
    assert messages(plan.graph).gathered_rows == (Message(16, 1),)
    assert counted(messages(plan.graph)) == of_steps(plan.method.program)


def test_a_rank_with_whole_slices_sends_nothing_in_its_steps() -> None:
    assert messages(build(with_more({}, {}))) == Messages()
