"""Margins read from the image: what connections see beyond the edge of a layer that shows a part of it."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch import in_memory
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import InputError, ParamsError
from petabatch.layers import Input, Linear
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.sources import ImageArray
from petabatch.spec.network import Network, Run
from support.image_margins import BELOW, INSIDE, MIRRORED, network
from support.networks import GivenImages, collect


@pytest.mark.parametrize("every", ["display", "never", "2 steps"])
def test_an_image_that_goes_on_as_its_mirror_is_seen_as_by_a_mirror_border(every: str) -> None:
    seen = in_memory.run(network("image", MIRRORED, every)).recorded
    mirror = in_memory.run(network("mirror", INSIDE, every)).recorded
    zero = in_memory.run(network("zero", INSIDE, every)).recorded
    assert seen.keys() == mirror.keys()
    for path in (path for path in seen if not path.startswith("inputs/")):
        if path == "layers/large/A":  # before step 2 it sees the layer before the run, of zeros
            np.testing.assert_array_equal(seen[path][2:], mirror[path][2:], err_msg=path)
        else:
            np.testing.assert_array_equal(seen[path], mirror[path], err_msg=path)
        assert path in ("layers/image/A", "layers/back/A") or (seen[path][-1] != zero[path][-1]).any(), path


@pytest.mark.parametrize("crop", ["random", "center", "top_left"])
def test_the_layer_shows_the_middle_of_what_a_larger_one_would_see(crop: str) -> None:
    """The margin is that of the largest patches: two rows and columns."""
    data = np.random.default_rng(1).normal(size=(3, 30, 30, 2)).astype(np.float32)
    own = in_memory.run(network("image", data, crop=crop, normalize="standard"), [4, 12])
    source = ImageArray(data=data, crop=crop, normalize="standard")
    whole = Network(
        run=Run(batch=2, display=3, displays=4), layers={"image": Input(shape=(12, 16, 2), source=source)}
    )
    larger = in_memory.run(whole, [4, 12])
    np.testing.assert_array_equal(
        own.states["layers/image/A"], larger.states["layers/image/A"][:, :, 2:10, 2:14]
    )
    np.testing.assert_array_equal(own.recorded["inputs/image/crop"], larger.recorded["inputs/image/crop"] + 2)


def compiled(net: Network) -> Network:
    return net.model_copy(update={"run": net.run.model_copy(update={"kernel": "auto"})})


@pytest.mark.parametrize("every", ["display", "never", "2 steps", "1 step"])
def test_compiled_connections_see_the_same_margins(every: str) -> None:
    data = np.random.default_rng(1).normal(size=(3, 30, 30, 2)).astype(np.float32)
    net = network("image", data, every, crop="random")
    assert choose(build(compiled(net))).stepper == "program"
    mine, theirs = in_memory.run(compiled(net)).recorded, in_memory.run(net).recorded
    for path, values in theirs.items():
        np.testing.assert_allclose(mine[path], values, 0, 2e-5 * abs(values).max(), err_msg=path)


@pytest.mark.parametrize("kernel", ["array", "auto"])
def test_a_resumed_run_sees_the_same_margins(kernel: str) -> None:
    net = network("image", MIRRORED)
    net = compiled(net) if kernel == "auto" else net
    recorded = in_memory.run(net).recorded
    first = Engine(schedule(build(net)), Serial(), 1)
    first.start()
    next(step for step in drive(first) if step == 6)
    saved = {key: array.copy() for key, array in first.state.saved().items()}
    second = Engine(schedule(build(net)), Serial(), 1)
    second.resume(6, saved)
    for path, values in collect(second).items():
        np.testing.assert_array_equal(values, recorded[path][-len(values) :], err_msg=path)


def test_images_must_be_larger_than_the_layer_by_its_margin() -> None:
    with pytest.raises(InputError, match=r"(?s)smaller than the layer.*2 rows and 2 columns of the image"):
        in_memory.run(network("image", INSIDE))
    net = network("image", MIRRORED)
    image = Input(shape=(8, 12, 2), border="image", source=GivenImages(data=INSIDE[:, None]))
    with pytest.raises(InputError, match="margin"):
        in_memory.run(net.model_copy(update={"layers": {**net.layers, "image": image}}))


def test_only_images_have_something_beyond_their_edge() -> None:
    net = network("image", MIRRORED)
    layers = {**net.layers, "small": Linear(shape=BELOW, border="image")}
    with pytest.raises(ParamsError, match="no surrounding image"):
        build(net.model_copy(update={"layers": layers}))
