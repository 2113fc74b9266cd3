"""Connections of layers whose features are split, of every kind: the run of a single rank to rounding."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from petabatch.connections import Clone, Conv, Identity, Largest, Pool, Potential, Sparse, Transpose
from petabatch.errors import ParamsError
from petabatch.layers import LCA, Input, LeakyIntegrator, Linear
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.network.shares import split_layers
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network
from petabatch.spec.parts import Connection, Layer, Wiring
from petabatch.spec.schedule import STEP
from petabatch.weights import L2, Gaussian, Uniform
from support.networks import GivenImages, images, lca_network
from support.parts import agrees, of_ranks, split

PARTS = [{"features": 2}, {"features": 3}, {"features": 2, "rows": 2}]
KERNELS = ["dense", "lazy", pytest.param("array", marks=pytest.mark.long)]
SHAPE = (18, 12, 12)


def network(
    kernel: str, layers: dict[str, Layer], connections: dict[str, Connection], learn: bool = False
) -> Network:
    """Return a network that learns a dictionary or not, with more layers and connections, all recorded."""
    one = lca_network(images(2, shape=(36, 24, 3)), displays=2, kernel=kernel, learn=learn)
    weighted = [name for name, c in connections.items() if c.owner is not None]
    output = one.output.model_copy(
        update={
            "layers": one.output.layers | {name: LayerOutput(every=STEP) for name in layers},
            "connections": one.output.connections | {name: ConnectionOutput() for name in weighted},
        }
    )
    return one.model_copy(
        update={
            "layers": one.layers | layers,
            "connections": one.connections | connections,
            "output": output,
        }
    )


def code(**keys: Any) -> LCA:
    return LCA(**{"shape": SHAPE, "tau": 20.0, "threshold": 0.05, **keys})


def weights(pre: str, post: str, patch: int = 3, **keys: Any) -> Conv:
    return Conv(pre=pre, post=post, patch=(patch, patch), init=Gaussian(), normalize=L2(), **keys)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_features_of_a_layer_inhibit_each_other_across_ranks(parts: dict[str, int], kernel: str) -> None:
    lateral = weights("V1", "V1", channel="inh", feedback=True, strength=0.1)
    found = agrees(network(kernel, {}, {"lateral": lateral}), parts)
    apart = of_ranks(network(kernel, {}, {}))[0]
    assert abs(found["layers/V1/A"] - apart["layers/V1/A"]).max() > 0.01


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_weights_between_split_layers_deliver_both_ways_and_learn(parts: dict[str, int], kernel: str) -> None:
    connections = {
        "up": weights("V1", "V2", learn=Hebbian(rate=0.05, momentum=0.5), decorrelate=0.01),
        "delayed": Clone(pre="V1", post="V2", of="up", delay_steps=2, strength=0.5),
        "back": Transpose(pre="V2", post="V1", of="up", feedback=True, strength=0.1),
        "seen_back": Transpose(pre="V2", post="seen", of="up"),
        "given": Clone(pre="seen", post="V3", of="up"),
    }
    layers = {"V2": code(shape=(18, 12, 6)), "V3": code(shape=(18, 12, 6)), "seen": Linear(shape=SHAPE)}
    found = agrees(network(kernel, layers, connections, learn=True), parts)
    learned = found["connections/up/weights"]
    assert not np.array_equal(learned[0], learned[-1])
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", ["dense", "array"])
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_weights_learn_from_layers_that_are_split_otherwise_than_their_own(
    parts: dict[str, int], kernel: str
) -> None:
    rule = {"rate": 0.05, "momentum": 0.5}
    connections = {
        "copy": Identity(pre="V1", post="seen"),
        "whole": weights("seen", "more", learn=Hebbian(error="V1", **rule)),
        "into_split": weights("image", "V2", 2, learn=Hebbian(error="seen", accumulate=2, **rule)),
        "clone": Clone(pre="V1", post="V2", of="whole", error="V2"),
        "clone_of_split": Clone(pre="seen", post="recon", of="dictionary", error="error", strength=0.1),
    }
    layers = {"seen": Linear(shape=SHAPE), "more": Linear(shape=SHAPE), "V2": code()}
    found = agrees(network(kernel, layers, connections, learn=True), parts)
    for name in ("whole", "into_split", "dictionary"):
        learned = found[f"connections/{name}/weights"]
        assert not np.array_equal(learned[0], learned[-1]), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", ["dense", "array"])
@pytest.mark.parametrize("method", ["max", "sum", "average"])
def test_pools_of_split_layers(method: Any, kernel: str) -> None:
    half = (9, 6, 12)
    connections = {
        "within": Pool(pre="V1", post="V2", method=method),
        "out": Pool(pre="V1", post="pooled", method=method, window=(3, 3)),
        "in": Pool(pre="pooled", post="V3", method=method),
        "largest": Largest(pre="V1", post="largest"),
    }
    layers = {
        "V2": code(shape=half),
        "pooled": Linear(shape=half),
        "V3": code(),
        "largest": Linear(shape=(18, 12, 1)),
    }
    found = agrees(network(kernel, layers, connections), {"features": 3})
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


class Again(Clone):
    """A clone that delivers in a way of its own, which nobody knows to be a sum over features."""

    type: Literal["test_again"] = "test_again"  # type: ignore[assignment]

    def deliver(self, kernels: Any, wiring: Wiring, activity: Any, border: Any, patches: Any) -> Any:
        assert wiring.link is not None
        operator = kernels.synthesize if wiring.link.scatter else kernels.project
        return operator(activity, patches, wiring.link.patches, border)


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_weights_that_a_plug_in_delivers_by_are_whole(kernel: str) -> None:
    connections = {
        "up": weights("seen", "V2", learn=Hebbian(rate=0.05)),
        "again": Again(pre="seen", post="V2", of="up", strength=0.5),
        "copy": Identity(pre="V1", post="seen"),
    }
    layers = {"V2": code(shape=(18, 12, 6)), "seen": Linear(shape=SHAPE)}
    whole = network(kernel, layers, connections, learn=True)
    found = agrees(whole, {"features": 2})
    assert found["layers/V2/A"][-1].any()
    assert split_layers(split(whole, features=2)) == {"V1"}


def test_features_that_a_plug_in_needs_whole_are_no_reason_to_start_ranks() -> None:
    connections = {"again": Again(pre="V1", post="recon", of="dictionary")}
    with pytest.raises(ParamsError, match="V1: again, of type test_again, delivers by all weights of dict"):
        build(split(network("auto", {}, connections), features=2))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_synapses_of_split_layers(kernel: str) -> None:
    given = {"init": Uniform(low=0.0, high=0.2), "probability": 0.01}
    connections = {
        "within": Sparse(pre="V1", post="V2", **given),
        "out": Sparse(pre="V1", post="seen", delays=2.0, **given),
        "in": Sparse(pre="seen", post="V3", delays=Uniform(low=1.0, high=3.0), **given),
    }
    layers = {"V2": code(), "seen": Linear(shape=SHAPE), "V3": code()}
    found = agrees(network(kernel, layers, connections), {"features": 2})
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", [*PARTS, {"rows": 3}], ids=str)
def test_layers_are_reset_to_others_that_are_split_otherwise(parts: dict[str, int], kernel: str) -> None:
    kernel = "auto" if kernel == "lazy" else kernel
    connections = {
        "out": Identity(pre="V1", post="seen"),
        "potential": Potential(pre="V1", post="integrated"),
        "on": Identity(pre="V1", post="V2"),
        "further": Identity(pre="V1", post="V3"),
    }
    layers = {
        "seen": Linear(shape=SHAPE),
        "integrated": LeakyIntegrator(shape=SHAPE, tau=5.0, reset="7 steps", reset_to="V1"),
        "V2": code(tau=5.0, reset="5 steps", reset_to="integrated"),
        "V3": code(tau=5.0, reset="4 steps", reset_to="seen"),
    }
    found = agrees(network(kernel, layers, connections), parts)
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


def test_what_is_cut_out_of_sums_over_ranks_drives_no_code_lazily() -> None:
    connections = {
        "up": weights("V3", "V2", feedback=True),
        "seen": weights("image", "V2", 2),
        "down": Transpose(pre="V2", post="V3", of="up"),
    }
    layers = {"V2": code(shape=(18, 12, 6)), "V3": code()}
    whole = network("lazy", layers, connections)
    alone, parted = (choose(build(one)).program for one in (whole, split(whole, features=2)))
    assert alone.codes["V3"] == ""
    assert parted.codes == {**alone.codes, "V3": "nothing drives it by patches"}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", [{"features": 2}, {"features": 2, "rows": 2}], ids=str)
def test_some_features_of_the_margin_of_an_image(kernel: str, parts: dict[str, int]) -> None:
    source = GivenImages(data=images(2, 4, (22, 16, 12)))
    more: dict[str, Layer] = {"given": Input(shape=SHAPE, source=source, border="image")}
    connections: dict[str, Connection] = {
        "clone": Clone(pre="given", post="recon", of="dictionary"),
        "up": Conv(pre="V1", post="V2", patch=(5, 5), init=Gaussian(std=0.1)),
        "seen": Clone(pre="given", post="V2", of="up"),
    }
    more["V2"] = LCA(shape=(18, 12, 6), tau=20.0, threshold=0.01)
    agrees(network(kernel, more, connections), parts)


@pytest.mark.parametrize("parts", [{"features": 2}, {"features": 2, "rows": 2}], ids=str)
def test_some_features_of_the_margin_of_an_image_arrive_after_their_delay(parts: dict[str, int]) -> None:
    source = GivenImages(data=images(2, 4, (40, 28, 4)))
    more: dict[str, Layer] = {
        "given": Input(shape=(36, 24, 4), source=source, border="image"),
        "seen": LCA(shape=(36, 24, 4), tau=20.0, threshold=0.01),
    }
    connections: dict[str, Connection] = {
        "own": Conv(
            pre="given", post="seen", patch=(2, 2), mode="non_shared", init=Gaussian(), delay_steps=1
        ),
        "turned": Transpose(pre="given", post="seen", of="own", delay_steps=3),
    }
    agrees(network("dense", more, connections), parts)
