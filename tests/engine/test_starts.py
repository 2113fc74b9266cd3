"""Initial values of state variables and weights: drawn, given, the same in all slices or of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch as pb
from petabatch import in_memory
from petabatch.connections import Sparse
from petabatch.errors import InputFileError, ParamsError
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.random import stream
from petabatch.spec.network import Network
from petabatch.spec.weights import Initial
from petabatch.weights import Gabor, Gaussian2D, IdentityWeights
from petabatch.weights.given import WeightArray, WeightFile
from petabatch.weights.petavision import PetaVisionGaussian
from petabatch.weights.random import Constant, Gaussian, Uniform
from support.commands import Command, alone, contents, set_all
from support.networks import images, lca_network

SHAPE = (6, 8, 12)


def started(initial: Initial, batch: int = 3, **run: Any) -> Network:
    """Return the sparse-coding loop whose potentials start like this."""
    net = lca_network(images(batch), learn=False, displays=1, **run)
    V1 = net.layers["V1"].model_copy(update={"start": {"V": initial}})
    return net.model_copy(update={"layers": {**net.layers, "V1": V1}})


def potentials(net: Network, step: int = 0, threads: int = 1) -> np.ndarray:
    return in_memory.run(net, [step], threads=threads).states["layers/V1/V"][0]


@pytest.mark.parametrize("kernel", ["array", "dense", "lazy"])
def test_slices_start_alike_or_from_values_of_their_own(kernel: Any) -> None:
    alike = potentials(started(Gaussian(std=0.2), kernel=kernel))
    own = potentials(started(Gaussian(std=0.2, per_slice=True), kernel=kernel))
    assert np.array_equal(alike[0], alike[2])
    assert np.array_equal(alike[0], stream(1, "start/V1/V").normal(0, 0.2, SHAPE).astype("f4"))
    for number in range(3):
        wanted = stream(1, "start/V1/V", number).normal(0, 0.2, SHAPE).astype("f4")
        assert np.array_equal(own[number], wanted)


@pytest.mark.parametrize("kernel", ["dense", "lazy"])
def test_a_run_goes_on_from_them_whatever_the_kernel_and_the_threads(kernel: Any) -> None:
    initial = Uniform(low=-0.5, high=0.9, per_slice=True)
    found = potentials(started(initial, kernel=kernel), 20)
    assert np.array_equal(found, potentials(started(initial, kernel=kernel), 20, threads=2))
    wanted = potentials(started(initial, kernel="array", precision="float64"), 20)
    assert abs(found - wanted).max() < 1e-5 * abs(wanted).max()
    assert abs(found - potentials(started(Constant(value=0.0), kernel=kernel), 20)).max() > 0.01


def test_the_activity_of_step_0_belongs_to_them() -> None:
    found = in_memory.run(started(Constant(value=1.0)), [0]).states
    assert (found["layers/V1/V"] == 1).all()
    assert np.allclose(found["layers/V1/A"], 0.6)


def test_arrays_and_files_have_a_batch_axis_or_none(tmp_path: Path) -> None:
    values = np.random.default_rng(0).random((3, *SHAPE)).astype("f4")
    np.save(tmp_path / "own.npy", values)
    path = str(tmp_path / "own.npy")
    for initial in (WeightArray(data=values, per_slice=True), WeightFile(path=path, per_slice=True)):
        assert np.array_equal(potentials(started(initial)), values)
    assert np.array_equal(potentials(started(WeightArray(data=values[1])))[2], values[1])
    with pytest.raises(InputFileError, match="per_slice = true, if its first axis is the batch"):
        potentials(started(WeightArray(data=values)))
    with pytest.raises(InputFileError, match=r"expected: \[2, 6, 8, 12\]: batch, rows, columns, features"):
        potentials(started(WeightFile(path=path, per_slice=True), batch=2))


def test_weights_of_slices_start_from_draws_of_their_own() -> None:
    net = lca_network(images(3), mode="shared", learn=False, displays=1)
    dictionary = net.connections["dictionary"]

    def weights(initial: Initial) -> np.ndarray:
        update = {"init": initial, "normalize": None}
        connections = {**net.connections, "dictionary": dictionary.model_copy(update=update)}
        found = in_memory.run(net.model_copy(update={"connections": connections}), [0]).states
        return found["connections/dictionary/weights"][0]

    alike, own = weights(Gaussian()), weights(Gaussian(per_slice=True))
    assert np.array_equal(alike[0], alike[1])
    shape = own.shape[1:]
    for number in range(3):
        wanted = stream(1, "weights/dictionary", number).normal(0, 1, shape).astype("f4")
        assert np.array_equal(own[number], wanted)
    assert np.array_equal(weights(WeightArray(data=own, per_slice=True)), own)


def test_what_cannot_start_like_this_is_an_error() -> None:
    net = started(Constant(value=0.0))
    V1 = net.layers["V1"].model_copy(update={"start": {"U": Constant(value=0.0)}})
    with pytest.raises(ParamsError, match=r"layers\.V1\.start\.U: there is no state variable of V1"):
        build(net.model_copy(update={"layers": {**net.layers, "V1": V1}}))
    dictionary = net.connections["dictionary"].model_copy(update={"init": Gaussian(per_slice=True)})
    with pytest.raises(ParamsError, match="these weights belong to all slices"):
        build(net.model_copy(update={"connections": {**net.connections, "dictionary": dictionary}}))
    rule = Hebbian(rate=0.1, momentum=0.5, previous=Gaussian(per_slice=True))
    dictionary = net.connections["dictionary"].model_copy(update={"learn": rule})
    with pytest.raises(ParamsError, match=r"learn\.previous\.per_slice: these weights belong to all slices"):
        build(net.model_copy(update={"connections": {**net.connections, "dictionary": dictionary}}))


@pytest.mark.parametrize(
    "initial",
    [Constant(value=0.1, same_feature=True), Gabor(), Gaussian2D(), IdentityWeights(), PetaVisionGaussian()],
)
def test_initialisers_of_patches_are_not_for_states_and_synapses(initial: Initial) -> None:
    with pytest.raises(ParamsError, match="this initialiser is for the weights of patches") as raised:
        build(started(initial))
    assert raised.value.problems[0].key == "layers.V1.start.V"
    net = started(Constant(value=0.0))
    synapses = Sparse(pre="V1", post="V1", delay_steps=1, probability=0.5, init=initial)
    with pytest.raises(ParamsError, match=r"synapses\.init: this initialiser is for the weights of patches"):
        build(net.model_copy(update={"connections": {**net.connections, "synapses": synapses}}))


def test_a_checkpoint_of_another_run(small: Path) -> None:
    with pb.open(alone(small, "first", "run.displays=2")) as run:
        wanted = run["layers/V1/V"].at(display=2)
    head = small.parent / "first" / "checkpoints" / "step_000000020.h5"
    start = f'{{ type = "file", path = "{head}", dataset = "layers/V1/V", per_slice = true }}'
    net = pb.load(small, [f"layers.V1.start.V={start}", "run.displays=1"])
    assert np.array_equal(in_memory.run(net.network, [0]).states["layers/V1/V"][0], wanted)


@pytest.mark.mpi
def test_starts_are_the_same_on_any_number_of_ranks(small: Path, petabatch: Command) -> None:
    settings = [
        'layers.V1.start.V={ type = "gaussian", per_slice = true }',
        'connections.dictionary.mode="shared"',
        "connections.dictionary.init.per_slice=true",
    ]
    done = petabatch("run", small, "--out", "two", "-q", *set_all(*settings), ranks=2)
    assert done.returncode == 0, done.stderr
    one, two = contents(alone(small, "one", *settings) / "run.h5"), contents(small.parent / "two" / "run.h5")
    assert one == two
