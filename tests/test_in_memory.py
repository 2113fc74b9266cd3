"""Runs in memory are as good as those on disk."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import Simulator, in_memory, plotting
from petabatch.connections import Conv
from petabatch.errors import ArgumentError
from petabatch.layers import LCA, Input
from petabatch.learning import Hebbian
from petabatch.sources import Function, ImageArray
from petabatch.spec.network import Network, Output, Run
from petabatch.spec.parts import NEVER
from petabatch.spec.schedule import Every
from petabatch.weights import L2, Gaussian
from support.networks import GivenImages, images, lca_network

DATA = images(2)


def length(network: Network, steps: int) -> Network:
    run = network.run.model_copy(update={"steps": steps, "displays": None})
    return network.model_copy(update={"run": run})


@pytest.mark.parametrize("kernel", ["dense", "lazy", "array"])
def test_a_run_goes_on_from_the_end_of_another(kernel: str) -> None:
    net = lca_network(DATA, kernel=kernel)
    whole = in_memory.run(length(net, 33), at=[33])
    half = in_memory.run(length(net, 17))
    rest = in_memory.run(length(net, 33), at=[33], start=half.end)
    assert rest.states.keys() == whole.states.keys()
    for key, array in whole.states.items():
        assert rest.states[key].tobytes() == array.tobytes(), key
    with pytest.raises(ArgumentError, match="start"):
        in_memory.run(length(net, 17), start=half.end)
    with pytest.raises(ArgumentError, match="at"):
        in_memory.run(length(net, 33), at=[3], start=half.end)


def test_other_images_are_shown_to_a_run_that_starts_from_another(tmp_path: Path) -> None:
    shape, ours = (12, 16, 3), images(2, 1, seed=5)[:, 0]

    def network(data: np.ndarray, displays: int, **run: Any) -> Network:
        return petabatch.sparse_coding(
            Input(shape=shape, source=ImageArray(data=data, crop="top_left"), every=NEVER),
            LCA(shape=(6, 8, 12), tau=20.0, threshold=0.4),
            Conv(pre="V1", post="recon", patch=(6, 6), init=Gaussian(), normalize=L2()),
            run=Run(batch=2, display=20, displays=displays, **run),
        )

    petabatch.run(network(DATA[:, 0], 1), tmp_path / "run", quiet=True)
    state = in_memory.run(network(ours, 2, start_from=tmp_path / "run"), at=[20, 40]).states
    for step in (0, 1):
        np.testing.assert_array_equal(state["layers/image/A"][step], ours)
    same = in_memory.run(network(DATA[:, 0], 2, start_from=tmp_path / "run"), at=[40]).states
    alone = in_memory.run(network(DATA[:, 0], 2), at=[40]).states
    for key, array in alone.items():
        assert same[key].tobytes() == array.tobytes(), key


def test_a_function_is_called_when_its_image_is_shown() -> None:
    calls: list[tuple[int, int, int, int]] = []
    sims: list[Simulator] = []

    def see(number: int, display: int) -> np.ndarray:
        if sims:
            calls.append((number, display, sims[0].n_steps, threading.get_ident()))
            return np.full((12, 16, 3), 1 + sims[0]["V1"]["V"][number].max(), np.float32)
        return np.ones((12, 16, 3), np.float32)

    net = lca_network(DATA)
    net = net.model_copy(
        update={"layers": {**net.layers, "image": Input(shape=(12, 16, 3), source=Function(call=see))}}
    )
    with Simulator(net, threads=2) as sim:
        sims.append(sim)
        sim.step(20)
        expected = 1 + np.array(sim["V1"]["V"]).max(axis=(1, 2, 3))
        sim.step(25)
        np.testing.assert_array_equal(sim["image"]["A"][:, 0, 0, 0] != 1, [True, True])
        sim.load(sim.save())
    me = threading.get_ident()
    assert calls == [(n, 1 + d, 20 * d, me) for d in range(3) for n in range(2)]
    assert expected.min() >= 1


def test_a_result_is_that_of_a_run_on_disk(small: Path, tmp_path: Path) -> None:
    disk = petabatch.run(small, tmp_path / "run", quiet=True)
    for given in (small, petabatch.load(small), petabatch.load(small).network):
        done = in_memory.run(given)
        assert done.names() == disk.names()
        for name in disk:
            np.testing.assert_array_equal(done[name][...], disk[name][...], err_msg=name)
            np.testing.assert_array_equal(done[name].steps, disk[name].steps)
            assert done[name].dims == disk[name].dims
    assert done.status == "done"
    assert done.steps_reached == disk.steps_reached
    dictionary = next(name for name in disk if name.endswith("/weights")).split("/")[1]
    np.testing.assert_array_equal(done.weights(dictionary)[-1], disk.weights(dictionary)[-1])
    tree, there = done.to_xarray(), disk.to_xarray()
    assert [node.path for node in tree.subtree] == [node.path for node in there.subtree]
    for node in tree.subtree:
        for name, values in node.variables.items():
            np.testing.assert_array_equal(values, there[node.path].variables[name])
    assert "in memory" in done._repr_html_()
    page = plotting.dictionary(done)
    assert page is not None
    pixels = np.random.default_rng(0).random((2, 24, 24, 3))
    mine, theirs = (petabatch.encode(pixels, run, steps=20) for run in (done, disk))
    np.testing.assert_array_equal(mine.activity, theirs.activity)
    with Simulator(small) as sim:
        sim.run(quiet=True)
        assert sim.results.names() == disk.names()
        np.testing.assert_array_equal(sim.results[disk.names()[0]][...], disk[disk.names()[0]][...])


def test_codes_are_an_array_with_the_names_of_its_images(tmp_path: Path) -> None:
    weights = np.random.default_rng(1).normal(size=(5, 4, 4, 1))
    pixels = np.random.default_rng(0).random((3, 8, 8)).astype(np.float32)
    options: Any = {"threshold": 0.1, "stride": 4, "steps": 20}
    codes = petabatch.encode(pixels, weights, **options)
    stored = petabatch.encode(pixels, weights, out=tmp_path / "codes.h5", **options)
    assert len(codes) == len(stored) == 3
    assert codes.names == stored.names
    assert len(codes.names) == 3
    np.testing.assert_array_equal(np.asarray(codes), codes.activity)
    np.testing.assert_array_equal(np.asarray(stored), codes.activity)
    for one in (codes, stored):
        table = one.to_pandas()
        assert table.index.tolist() == list(codes.names)
        assert table.columns.tolist() == ["active", "gap", "steps"]
        np.testing.assert_array_equal(table["active"], np.count_nonzero(codes.activity, axis=(1, 2, 3)))


def test_completion_shows_what_users_need() -> None:
    assert {"layers", "run", "batch"} <= set(dir(lca_network(DATA)))
    assert not [name for name in dir(lca_network(DATA)) if name.startswith(("_", "model_"))]
    assert petabatch.plotting is plotting


def test_weights_of_a_slice_are_recorded_at_the_end_although_nothing_else_happens_then() -> None:
    """The image stays and is not recorded, and the last update is two steps before the end."""
    learn = Hebbian(error="error", rate=0.001, every=Every(3))
    net = petabatch.sparse_coding(
        Input(shape=(12, 16, 3), source=GivenImages(data=DATA), every=NEVER),
        LCA(shape=(6, 8, 12), tau=20.0, threshold=0.4),
        Conv(
            pre="V1", post="recon", patch=(6, 6), init=Gaussian(), normalize=L2(), mode="shared", learn=learn
        ),
        run=Run(batch=2, steps=20, display=50),
    )
    found = in_memory.run(net.model_copy(update={"probes": {}, "output": Output()}))
    recorded = found.recorded["connections/dictionary/weights"]
    end = found.end.arrays["connections/dictionary/weights"]
    np.testing.assert_array_equal(recorded[-1], end.reshape(recorded[-1].shape))
    assert recorded[-1].any()
