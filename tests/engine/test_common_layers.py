"""Layers that are held once for all slices: the bits of layers that each slice has, in less memory."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from petabatch.connections import Identity
from petabatch.engine.engine import Engine
from petabatch.engine.start import Start
from petabatch.errors import ArgumentError, ParamsError
from petabatch.layers import Constant, Input, Linear, Mask
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.simulator import Simulator
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network
from petabatch.spec.parts import DISPLAY, NEVER
from petabatch.weights import Gaussian
from support.networks import assert_same, images, lca_network, simulate
from support.parts import assert_near, of_ranks, split

SHAPE = (12, 16, 3)


def network(batch: int | None, kernel: Any = "auto", **keys: Any) -> Network:
    """Return a code of one image in all slices, with a mask of pixels, and an offset; slices start apart."""
    base = lca_network(images(3), learn=False, kernel=kernel, **keys)
    source = ImageArray(data=images(1)[0], slices="same")
    mask = np.random.default_rng(2).integers(0, 2, (1, *SHAPE)).astype(np.float32)
    v1 = base.layers["V1"].model_copy(update={"start": {"V": Gaussian(std=0.3, per_slice=True)}})
    layers = {
        **base.layers,
        "V1": v1,
        "image": Input(shape=SHAPE, source=source, every=NEVER, batch=batch),
        "pixels": Input(shape=SHAPE, source=ImageArray(data=mask, slices="same"), every=NEVER, batch=batch),
        "offset": Constant(shape=SHAPE, value=0.3, batch=batch),
        "masked": Mask(shape=SHAPE),
        "sum": Linear(shape=SHAPE),
    }
    more = {
        "a": Identity(pre="recon", post="masked"),
        "b": Identity(pre="pixels", post="masked", channel="mask"),
        "c": Identity(pre="masked", post="sum"),
        "d": Identity(pre="offset", post="sum"),
    }
    recorded = {name: LayerOutput() for name in ("image", "offset", "sum", "V1")}
    output = base.output.model_copy(update={"layers": recorded})
    update = {"layers": layers, "connections": {**base.connections, **more}, "output": output}
    return base.model_copy(update=update)


@pytest.mark.parametrize(("batch", "slices"), [(1, [0]), (None, [0, 1, 2])])
def test_the_first_image_is_read_as_often_as_it_is_held(batch: int | None, slices: list[int]) -> None:
    engine, read = Engine(schedule(build(network(batch))), Serial(), 1), []

    def noted(name: str, number: int, item: int) -> np.ndarray:
        read.append((name, number, item))
        return engine.readers[name](number, item)

    Start(engine.state, engine.features).fill({name: partial(noted, name) for name in engine.readers})
    assert read == [(name, number, 0) for name in ("image", "pixels") for number in slices]


@pytest.mark.parametrize("kernel", ["auto", "dense", "array"])
def test_what_is_held_once_changes_no_bit(kernel: str) -> None:
    engine, found = simulate(network(1, kernel), threads=2)
    other, expected = simulate(network(None, kernel))
    assert_same(found, expected)
    assert len(np.unique(found["layers/V1/A"][-1].reshape(3, -1), axis=0)) == 3, "slices are alike"
    for name in ("image", "pixels", "offset"):
        key = f"layers/{name}/A"
        assert engine.state.arrays[key].shape == (1, 1, *SHAPE)
        assert np.array_equal(other.state.arrays[key], np.repeat(engine.state.arrays[key], 3, axis=0))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", ["dense", "array"])
@pytest.mark.parametrize("parts", [{"features": 2}, {"rows": 2}, {"features": 2, "rows": 2}], ids=str)
def test_ranks_hold_their_part_of_it(parts: dict[str, int], kernel: str) -> None:
    alone, state = of_ranks(network(1, kernel))
    found, gathered = of_ranks(split(network(1, kernel), **parts))
    assert alone["layers/sum/A"][-1].any()
    assert_near(alone, found, 1e-6)
    assert_near(state, gathered, 1e-6)


def test_a_simulator_reads_it_saves_it_and_shows_no_other() -> None:
    with Simulator(network(1), mpi=False) as sim:
        sim.step(10)
        saved = sim.save()
        sim.run(quiet=True)
        first = np.array(sim["V1"]["A"])
        sim.load(saved)
        sim.run(quiet=True)
        assert np.array_equal(sim["V1"]["A"], first)
        assert sim["image"]["A"].shape == (1, *SHAPE)
        with pytest.raises(ArgumentError, match="the same in all slices"):
            sim.show("image", np.zeros((3, *SHAPE)))


def changed(name: str, **keys: Any) -> Network:
    """Return the network with other keys of a layer."""
    base = network(1)
    layers = {**base.layers, name: base.layers[name].model_copy(update=keys)}
    return base.model_copy(update={"layers": layers})


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: changed("sum", batch=1), "type linear, which is updated in each slice"),
        (lambda: changed("image", every=DISPLAY), "as slices come to displays at other times"),
        (lambda: changed("image", source=ImageArray(data=images(1)[0])), "images of their own"),
        (
            lambda: network(1).model_copy(update={"slices": {"layers.offset.value": (0.1, 0.2, 0.3)}}),
            "layers.offset.value, which differs",
        ),
    ],
)
def test_what_differs_between_slices_or_times_is_refused(given: Any, message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        build(given())


def test_what_is_seen_with_a_delay_is_refused() -> None:
    base = network(1)
    late = base.connections["d"].model_copy(update={"delay_steps": 2})
    with pytest.raises(ParamsError, match="connections from offset that are delayed"):
        build(base.model_copy(update={"connections": {**base.connections, "d": late}}))
