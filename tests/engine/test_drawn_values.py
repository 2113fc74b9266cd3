"""Values per slice and over time of what is drawn before the first step: synapses, parameters, starts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Sparse
from petabatch.connections.wirings import Profile
from petabatch.errors import ParamsError
from petabatch.layers import LeakyIntegrator, Poisson
from petabatch.layers.timescale import LogTimeScale
from petabatch.network.numbers import with_value
from petabatch.network.slices import sliced
from petabatch.spec.network import Network, Run
from petabatch.spec.over_time import OverTime
from petabatch.spec.sweep import Sweep
from petabatch.weights import Gaussian, Uniform
from support.networks import images, lca_network

SYNAPSES: dict[str, tuple[tuple[float, float], dict[str, Any]]] = {
    "probability": ((0.4, 0.2), {}),
    "delays": ((2.0, 7.0), {"delays": 2.0}),
    "delays.high": ((2.0, 7.0), {"delays": Uniform(low=1.0, high=2.0)}),
    "speed": ((0.5, 2.0), {"speed": 0.5}),
    "profile.width": ((1.0, 3.0), {"profile": Profile(width=1.0)}),
}
"""Keys that say which synapses there are: values of two slices, and what else they need."""


def spiking(mode: str, **keys: Any) -> Network:
    """Return spikes that synapses bring to integrators."""
    shape = (4, 4, 2)
    synapses = Sparse(pre="a", post="b", probability=0.4, mode=mode, init=Gaussian(std=0.3), **keys)
    return Network(
        run=Run(batch=2, display=12, displays=1),
        layers={"a": Poisson(shape=shape, rate=300.0), "b": LeakyIntegrator(shape=shape)},
        connections={"s": synapses},
    )


def end(network: Network) -> dict[str, np.ndarray]:
    """Return the layers' state at the end."""
    return {key: a for key, a in in_memory.run(network).end.arrays.items() if key.startswith("layers/")}


def assert_slices_are_those_of_their_values(network: Network) -> None:
    """Each slice has the bits that it has where all slices have its values; these make a difference."""
    found, alone = end(network), [end(sliced(network, number)) for number in range(network.batch)]
    for number, own in enumerate(alone):
        for key, array in own.items():
            np.testing.assert_array_equal(found[key][number], array[number % network.run.batch], key)
    assert any(not np.array_equal(array, alone[-1][key]) for key, array in alone[0].items())


@pytest.mark.sampled(7)
@pytest.mark.parametrize("key", SYNAPSES)
@pytest.mark.parametrize("per_slice", [False, True])
@pytest.mark.parametrize("kernel", ["array", "dense"])
def test_slices_have_the_synapses_of_their_values(key: str, per_slice: bool, kernel: Any) -> None:
    values, keys = SYNAPSES[key]
    net = spiking("non_shared", per_slice=per_slice, **keys)
    run = net.run.model_copy(update={"kernel": kernel})
    assert_slices_are_those_of_their_values(
        net.model_copy(update={"slices": {f"connections.s.{key}": values}, "run": run})
    )


def test_values_of_two_keys_need_not_suit_each_other_across_slices() -> None:
    net = spiking("non_shared", delays=Uniform(low=1.0, high=10.0))
    values = {"connections.s.delays.low": (1.0, 5.0), "connections.s.delays.high": (2.0, 10.0)}
    assert_slices_are_those_of_their_values(net.model_copy(update={"slices": values}))


@pytest.mark.parametrize("key", SYNAPSES)
def test_points_of_a_sweep_have_the_synapses_of_their_values(key: str) -> None:
    values, keys = SYNAPSES[key]
    net = spiking("non_shared", **keys)
    assert_slices_are_those_of_their_values(
        net.model_copy(update={"sweep": Sweep(values={f"connections.s.{key}": values})})
    )


@pytest.mark.parametrize("key", SYNAPSES)
def test_synapses_of_all_slices_have_one_rule(key: str) -> None:
    values, keys = SYNAPSES[key]
    path = f"connections.s.{key}"
    sweep = Sweep(values={path: values})
    for way, place in (({"slices": {path: values}}, path), ({"sweep": sweep}, f"sweep.{path}")):
        with pytest.raises(ParamsError, match="are those of all slices") as raised:
            in_memory.run(spiking("extra_non_shared", **keys).model_copy(update=way))
        assert raised.value.problems[0].key == place
        assert raised.value.problems[0].expected == 'mode = "non_shared", or one run for each value'


@pytest.mark.parametrize("key", SYNAPSES)
def test_what_is_drawn_does_not_change_over_time(key: str) -> None:
    values, keys = SYNAPSES[key]
    course = {f"connections.s.{key}": OverTime(at=(1, 3), values=values, by="step")}
    with pytest.raises(ParamsError, match="drawn before the first step"):
        in_memory.run(spiking("non_shared", **keys).model_copy(update={"over_time": course}))


def test_parameters_of_each_unit_are_drawn_with_the_values_of_a_slice() -> None:
    rate = Poisson(shape=(2, 2, 3), rate="100 * k", parameters={"k": Uniform(low=1.0, high=2.0)})
    net = Network(run=Run(batch=2, display=9, displays=1), layers={"a": rate})
    path = "layers.a.parameters.k.high"
    assert_slices_are_those_of_their_values(net.model_copy(update={"slices": {path: (2.0, 9.0)}}))
    course = OverTime(at=(1, 3), values=(2.0, 9.0), by="step")
    with pytest.raises(ParamsError, match="drawn before the first step"):
        in_memory.run(net.model_copy(update={"over_time": {path: course}}))


@pytest.mark.parametrize("key", ["initial", "time_scale.maximum"])
def test_values_over_time_begin_with_that_of_the_first_step(key: str) -> None:
    scale = LogTimeScale(energy="energy", minimum=0.2, maximum=0.4)
    net = lca_network(images(2), display=6, displays=2)
    code = net.layers["V1"].model_copy(update={"time_scale": scale})
    net = net.model_copy(update={"layers": {**net.layers, "V1": code}})
    path, value = f"layers.V1.{key}", 0.6
    given = end(with_value(net, path, value))
    course = {path: OverTime(at=(1,), values=(value,))}
    found = end(net.model_copy(update={"over_time": course}))
    for key_of_array, array in given.items():
        np.testing.assert_array_equal(found[key_of_array], array, key_of_array)
    assert any(not np.array_equal(array, end(net)[one]) for one, array in given.items())
