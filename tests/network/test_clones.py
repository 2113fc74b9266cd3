"""Connections that share weights, and learn them together."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Clone, Conv, Sparse, Transpose
from petabatch.errors import ParamsError
from petabatch.layers import Constant
from petabatch.learning import Hebbian, Revive
from petabatch.network.build import build
from petabatch.spec.network import ConnectionOutput, Network, Output
from petabatch.spec.parts import Connection, Wiring
from petabatch.spec.weights import Learning
from petabatch.weights import L2, Gaussian, Uniform
from support.gpu_emulation import EmulatedGpu
from support.gpu_runs import simulate
from support.networks import images, lca_network


def batch(data: np.ndarray, rule: Learning, **keys: Any) -> Network:
    """Return a network whose slices learn one dictionary."""
    net = lca_network(data, displays=3, **keys)
    changed = {"learn": rule, "revive": Revive(after=3, init=Gaussian())}
    conv = net.connections["dictionary"].model_copy(update=changed)
    output = Output(connections={"dictionary": ConnectionOutput(variables=("weights", "usage"))})
    return net.model_copy(
        update={"connections": {**net.connections, "dictionary": conv}, "probes": {}, "output": output}
    )


def twins(data: np.ndarray, rule: Learning, error: str | None = "error2", **keys: Any) -> Network:
    """Return two loops in one slice that share a dictionary; the second learns through a clone."""
    first, second = (batch(data[b : b + 1], rule, **keys) for b in (0, 1))
    layers = {f"{name}2": layer for name, layer in second.layers.items()}
    connections = {
        f"{name}2": c.model_copy(update={"pre": f"{c.pre}2", "post": f"{c.post}2"})
        for name, c in second.connections.items()
        if name != "dictionary"
    }
    clone = Clone(pre="V12", post="recon2", of="dictionary", error=error)
    return first.model_copy(
        update={
            "layers": {**first.layers, **layers},
            "connections": {**first.connections, **connections, "decode2": clone},
        }
    )


@pytest.mark.parametrize(
    "rule",
    [
        Hebbian(error="error", rate=0.3, momentum=0.5),
        Hebbian(error="error", rate=0.01, average="sum"),
    ],
)
@pytest.mark.parametrize("mode", ["extra_shared", "extra_non_shared"])
def test_a_clone_with_an_error_teaches_as_a_second_slice_would(rule: Learning, mode: str) -> None:
    data = images(2, 3)
    keys = {"mode": mode, "precision": "float64"}
    nets = [net(data, rule, **keys) for net in (twins, batch)]
    if mode == "extra_non_shared":
        nets = [without_revival(net) for net in nets]
    together, slices = (in_memory.run(net).recorded for net in nets)
    alone = in_memory.run(twins(data, rule, None, precision="float64")).recorded
    for path in ("connections/dictionary/weights", "connections/dictionary/usage"):
        np.testing.assert_allclose(together[path], slices[path], rtol=1e-9, atol=1e-11)
    usage = "connections/dictionary/usage"
    assert (together[usage][1].sum() > alone[usage][1].sum()).all()


MODES = ("extra_shared", "shared", "non_shared", "extra_non_shared")


@pytest.mark.parametrize("mode", MODES)
def test_every_kernel_adds_what_a_clone_learns_to_what_its_owner_learns(mode: str) -> None:
    data, rule = images(2, 3, (8, 8, 3)), Hebbian(error="error", rate=0.3)
    path, size = "connections/dictionary/weights", {"features": 6, "display": 8}

    def weights(**run: Any) -> np.ndarray:
        return in_memory.run(without_revival(twins(data, rule, mode=mode, **size, **run))).recorded[path]

    expected = weights(precision="float64")
    for kernel in ("array", "auto", "dense", "lazy"):
        np.testing.assert_allclose(weights(kernel=kernel), expected, rtol=0, atol=1e-5, err_msg=kernel)
    net = without_revival(twins(data, rule, mode=mode, **size, device="gpu"))
    on_gpu = simulate(net, EmulatedGpu())[1][path]
    np.testing.assert_allclose(on_gpu, expected, rtol=0, atol=1e-5, err_msg="gpu")


@pytest.mark.parametrize("channel", ["exc", "none"])
@pytest.mark.parametrize("mode", MODES)
def test_a_clone_of_a_silent_layer_changes_no_bit(mode: str, channel: str) -> None:
    """With a channel the network is a program, without it is a sparse-coding loop."""
    data = images(2, 3, (8, 8, 3))
    for kernel in ("auto", "dense", "lazy"):
        net = lca_network(data, features=6, display=8, displays=2, mode=mode, kernel=kernel)
        layers = {**net.layers, "silent": Constant(shape=net.layers["V1"].shape, value=0.0)}
        learned = []
        for error in (None, "error"):
            clone = Clone(pre="silent", post="recon", of="dictionary", error=error, channel=channel)
            changed = {"layers": layers, "connections": {**net.connections, "clone": clone}}
            recorded = in_memory.run(net.model_copy(update=changed)).recorded
            learned.append(recorded["connections/dictionary/weights"])
        assert (learned[0][-1] != learned[0][0]).any()
        assert learned[0].tobytes() == learned[1].tobytes(), kernel


def without_revival(net: Network) -> Network:
    conv = net.connections["dictionary"].model_copy(update={"revive": None})
    return net.model_copy(update={"connections": {**net.connections, "dictionary": conv}})


def test_what_a_clone_cannot_learn_is_refused() -> None:
    data, rule = images(2, 1), Hebbian(error="error")
    for error, words in (("error3", "no layer"), ("V12", "does not have the shape")):
        with pytest.raises(ParamsError, match=words):
            build(twins(data, rule, error))
    net = twins(data, rule)
    still = net.connections["dictionary"].model_copy(update={"learn": None, "revive": None})
    net = net.model_copy(update={"connections": {**net.connections, "dictionary": still}, "output": Output()})
    with pytest.raises(ParamsError, match="do not learn"):
        build(net)


class Backwards(Transpose):
    """A transpose that delivers in a way of its own."""

    type: Literal["test_backwards"] = "test_backwards"  # type: ignore[assignment]

    def deliver(self, kernels: Any, wiring: Wiring, activity: Any, border: Any, patches: Any) -> Any:
        assert wiring.link is not None
        operator = kernels.synthesize if wiring.link.scatter else kernels.project
        return operator(activity, patches, wiring.link.patches, border)


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_a_plug_in_that_derives_from_a_transpose_sees_the_weights_from_there(kernel: Any) -> None:
    net = lca_network(images(2), kernel=kernel, learn=False)
    drive = Backwards(**net.connections["drive"].model_dump(exclude={"type"}))
    own = net.model_copy(update={"connections": {**net.connections, "drive": drive}})
    mine, expected = (in_memory.run(one)["layers/V1/A"][...] for one in (own, net))
    np.testing.assert_allclose(mine, expected, atol=1e-4)
    assert expected.any()


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            Clone(pre="V1", post="recon", of="s"),
            "d.of: this is not a connection that owns patches of weights",
        ),
        (
            Conv(pre="V1", post="recon", patch=(4, 4), init=Gaussian(), normalize=L2(together=("s",))),
            "d.normalize.together: there is no connection with patches of weights of this name",
        ),
    ],
)
def test_single_synapses_are_no_patches(table: Connection, message: str) -> None:
    net = lca_network(images(1), learn=False)
    synapses = Sparse(pre="V1", post="recon", probability=0.1, init=Uniform(low=0.0, high=1.0))
    with pytest.raises(ParamsError, match=message):
        build(net.model_copy(update={"connections": {**net.connections, "s": synapses, "d": table}}))
