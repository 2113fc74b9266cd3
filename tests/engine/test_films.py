"""Films shown by slices: what was shown is recorded, and layers are reset where a film begins."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.layers import Linear
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.sources import ImageArray
from petabatch.spec.network import Network, Output
from petabatch.spec.parts import NEVER
from support.films import film_network
from support.networks import assert_same, collect, simulate

SHOWN = {"type": "movie", "reset": True}


def test_the_item_frame_and_crop_of_each_display_are_recorded() -> None:
    found = in_memory.run(film_network("movie"))
    items, frames = found.recorded["inputs/image/item"], found.recorded["inputs/image/frame"]
    assert found.steps["inputs/image/item"].tolist() == [20, 40, 60, 80, 100, 120]
    assert items.T.tolist() == [[0, 0, 0, 2, 2, 0], [1, 1, 1, 1, 1, 3]]
    assert frames.T.tolist() == [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 4, 0]]
    crops = found.recorded["inputs/image/crop"]
    assert crops.shape == (6, 2, 2)
    stream = film_network("movie").layers["image"].source.stream((12, 16, 3), 2, 1)
    for display in range(6):
        for b in range(2):
            shown = stream.shown(b, display)
            assert tuple(crops[display, b]) == shown.crop


class Dimmed(ImageArray):
    """A plug-in that changes what a built-in source reads."""

    type: Literal["test_dimmed"] = "test_dimmed"

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Any:
        read = super().open(shape, batch, seed)
        return lambda number, item: 0.5 * read(number, item)


def test_a_source_that_reads_through_a_built_in_one_is_recorded_like_it() -> None:
    net = film_network("movie")
    data = np.random.default_rng(0).random((5, 14, 18, 3)).astype(np.float32)
    found = []
    for source in (ImageArray(data=data), Dimmed(data=data)):
        image = net.layers["image"].model_copy(update={"source": source})
        only = net.model_copy(update={"layers": {**net.layers, "image": image}})
        found.append(in_memory.run(only, [120]))
    plain, dimmed = found
    for path in ("inputs/image/item", "inputs/image/crop"):
        assert np.array_equal(plain.recorded[path], dimmed.recorded[path])
    assert np.array_equal(0.5 * plain.states["layers/image/A"], dimmed.states["layers/image/A"])


def test_an_image_that_stays_for_the_whole_run_is_recorded_once() -> None:
    net = film_network("movie")
    image = net.layers["image"].model_copy(update={"every": NEVER})
    found = in_memory.run(net.model_copy(update={"layers": {**net.layers, "image": image}}))
    assert found.steps["inputs/image/item"].tolist() == [120]
    assert found.recorded["inputs/image/item"].tolist() == [[0, 1]]


def test_recording_what_is_shown_adds_no_event() -> None:
    net = film_network("movie")
    plan = schedule(build(net.model_copy(update={"probes": {}, "output": Output()})))
    assert [one.stream.path for one in plan.recordings if one.due(20)] == [
        "inputs/image/item", "inputs/image/frame", "inputs/image/crop"
    ]  # fmt: skip
    unwatched = range(len(plan.recordings))
    assert [plan.next_event(step, 120) for step in range(40)] == [
        plan.next_event(step, 120, unwatched) for step in range(40)
    ]


def as_program(net: Network) -> Network:
    """Return the network with a readout, for which it is no single loop any more."""
    layers = {**net.layers, "readout": Linear(shape=net.layers["V1"].shape)}
    connections = {**net.connections, "read": Identity(pre="V1", post="readout")}
    return net.model_copy(update={"layers": layers, "connections": connections})


def as_it_is(net: Network) -> Network:
    return net


@pytest.mark.parametrize("form", [as_it_is, as_program])
@pytest.mark.parametrize("kernel", ["array", "dense", "lazy"])
def test_a_slice_begins_its_film_with_layers_reset_whatever_the_kernel(kernel: Any, form: Any) -> None:
    # After step 60 slice 0 begins its second film; slice 1 is in the middle of its first until step 100.
    at = [60, 61, 100, 120]
    nets = (form(film_network(order, kernel=kernel, learn=False)) for order in ("movie", SHOWN))
    plain, found = (in_memory.run(net, at).states["layers/V1/V"] for net in nets)
    assert np.array_equal(plain[0], found[0])
    assert np.array_equal(plain[:3, 1], found[:3, 1])
    # One step after the reset V is small, where it had grown for 60 steps.
    assert abs(found[1, 0]).max() < 0.2 * abs(plain[1, 0]).max()
    net = film_network(SHOWN, kernel="array", precision="float64", learn=False)
    wanted = in_memory.run(net, at).states["layers/V1/V"]
    assert abs(found - wanted).max() < 1e-5 * abs(wanted).max()


@pytest.mark.parametrize("form", [as_it_is, as_program])
@pytest.mark.parametrize("kernel", ["array", "lazy"])
def test_a_run_resumed_where_a_film_begins_has_the_same_bits(kernel: Any, form: Any) -> None:
    net = form(film_network(SHOWN, kernel=kernel))
    _, recorded = simulate(net)
    first = Engine(schedule(build(net)), Serial(), 1)
    first.start()
    next(step for step in drive(first) if step == 60)
    saved = {key: array.copy() for key, array in first.state.saved().items()}
    second = Engine(schedule(build(net)), Serial(), 2)
    second.resume(60, saved)
    found = collect(second)
    assert_same(found, {path: values[len(values) - len(found[path]) :] for path, values in recorded.items()})


def test_a_run_longer_than_its_films_is_an_error() -> None:
    order = {"type": "movie", "end": "shortest"}  # slice 0 has 5 frames, slice 1 has 9
    Engine(schedule(build(film_network(order, displays=5))), Serial(), 1)
    with pytest.raises(ParamsError) as raised:
        Engine(schedule(build(film_network(order, displays=6))), Serial(), 1)
    (problem,) = raised.value.problems
    assert problem.key == "layers.image.source.order"
    assert problem.message.startswith(
        "the run is longer than its films\n    found:    6 frames to show\n    expected: at most 5\n"
    )
