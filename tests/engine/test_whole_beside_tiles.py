"""Layers and connections that tiles cannot have, whole on each rank beside tiles: the run of one rank."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any, ClassVar, Literal

import numpy as np
import pytest

from petabatch.connections import Conv, Identity, Pool, Sparse, Transpose
from petabatch.engine.lone_part import LonePart
from petabatch.errors import ParamsError
from petabatch.layers import (
    FISTA,
    LCA,
    Dropout,
    GaussianNoise,
    Input,
    Linear,
    MaxUnpool,
    Neurons,
    Rescale,
)
from petabatch.learning import Hebbian
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.tiles import find_tiling
from petabatch.parallel.comm import Serial
from petabatch.probes import L1
from petabatch.report.memory import needed
from petabatch.spec.network import Evaluate, LayerOutput, Network
from petabatch.spec.parts import Connection, Layer, StepContext
from petabatch.spec.schedule import DISPLAY, STEP, Every
from petabatch.variable import Array
from petabatch.weights import L2, Gaussian, Uniform
from support.networks import GivenImages, images
from support.parts import agrees, assert_near, in_float64, loop_with, of_ranks, split
from support.programs import PeriodicImages, random_network
from support.row_functions import Adaptive

PARTS = [{"rows": 2}, {"rows": 3}, {"features": 2, "rows": 2}]
KERNELS = ["auto", pytest.param("array", marks=pytest.mark.long)]
FINE, CODE = (36, 24, 3), (18, 12, 12)


class Mean(Layer):
    """A = input minus its mean over all units, as a plug-in may be."""

    type: Literal["test_mean"] = "test_mean"

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        activity[...] = drive[0] - drive[0].mean(axis=(1, 2, 3), keepdims=True)


class MeanOfTiles(Layer):
    """The same, of tiles that sum up."""

    local: ClassVar[bool] = True
    type: Literal["test_mean_of_tiles"] = "test_mean_of_tiles"

    def update(
        self,
        ctx: StepContext,
        state: Mapping[str, Array],
        drive: Sequence[Array],
        previous: Array,
        activity: Array,
    ) -> None:
        sums = ctx.tile.total(drive[0].sum(axis=(1, 2, 3), dtype=float))
        mean = sums / math.prod(ctx.tile.whole(self.shape))
        activity[...] = drive[0] - mean.astype(activity.dtype).reshape(-1, 1, 1, 1)


class Turned(Identity):
    """The activity upside down, as a plug-in may deliver it."""

    type: Literal["test_turned"] = "test_turned"  # type: ignore[assignment]

    @property
    def operation(self) -> Any:
        return "other"

    def deliver(self, kernels: Any, wiring: Any, activity: Array, border: Any, patches: Any) -> Array:
        return kernels.xp.ascontiguousarray(activity[:, ::-1])


def both_ways(layer: Layer) -> tuple[dict[str, Layer], dict[str, Connection]]:
    """Return a layer that sees the error, and is seen, through patches and as it is."""
    code = LCA(shape=(18, 12, 4), tau=5.0, threshold=0.1)
    layers = {"it": layer, "same": Linear(shape=FINE), "code": code}
    connections: dict[str, Connection] = {
        "see": Identity(pre="error", post="it"),
        "show": Identity(pre="it", post="same", delay_steps=1),
        "gathered": Conv(pre="it", post="code", patch=(2, 2), init=Gaussian(std=0.2)),
        "spread": Conv(pre="code", post="it", patch=(4, 4), init=Gaussian(std=0.05), feedback=True),
        "back": Transpose(pre="it", post="code", of="spread", strength=0.5),
    }
    return layers, connections


OTHERS: dict[str, Layer] = {
    "rescale": Rescale(shape=FINE, method="standard"),
    "noise": GaussianNoise(shape=FINE, std=0.1),
    "dropout": Dropout(shape=FINE, probability=0.3),
    "unpool": MaxUnpool(shape=FINE, window=(4, 4)),
    "plug-in": Mean(shape=FINE),
    "plug-in in tiles": MeanOfTiles(shape=FINE),
    "row": Adaptive(shape=FINE, tau=4.0, std=0.02),
    "mirrored": Mean(shape=FINE, border="mirror"),
}


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize("kind", OTHERS)
def test_layers_whose_units_depend_on_others(kind: str, parts: dict[str, int], kernel: str) -> None:
    whole = loop_with(kernel, *both_ways(OTHERS[kind]))
    found = agrees(whole, parts)
    assert ("it" in build(split(whole, **parts)).tiling.layers) == (
        kind in ("noise", "dropout", "plug-in in tiles")
    )
    for name in ("it", "same", "code"):
        assert found[f"layers/{name}/A"][-1].any(), name


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_a_code_with_momentum_of_all_its_units_learns(parts: dict[str, int], kernel: str) -> None:
    rule, uneven = Hebbian(error="rest", rate=0.05, momentum=0.5), images(2, shape=FINE)
    uneven[:, :, 9:] *= 0.1
    layers: dict[str, Layer] = {
        "rest": Linear(shape=FINE),
        "F": FISTA(shape=CODE, threshold=0.1, step=0.5),  # too large for some tiles alone
        "made": Linear(shape=FINE),
        "image": Input(shape=FINE, source=GivenImages(data=uneven)),
    }
    connections: dict[str, Connection] = {
        "a": Identity(pre="image", post="rest"),
        "b": Identity(pre="made", post="rest", channel="inh", feedback=True),
        "driven": Transpose(pre="rest", post="F", of="own"),
        "own": Conv(pre="F", post="made", patch=(6, 6), init=Gaussian(), normalize=L2(), learn=rule),
    }
    whole = loop_with(kernel, layers, connections)
    found = agrees(whole, parts, 2e-5)  # of its last steps, some double the rounding
    if kernel == "array":
        agrees(in_float64(whole), parts, 1e-12)
    assert "F" in build(split(whole, **parts)).tiling.layers
    assert found["layers/F/A"][-1].any()
    learned = found["connections/own/weights"]
    assert not np.array_equal(learned[0], learned[-1])


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_synapses_and_spikes_of_all_tiles(parts: dict[str, int], kernel: str) -> None:
    given: dict[str, Any] = {"init": Uniform(low=0.0, high=0.2), "probability": 0.01}
    cells = Neurons(
        shape=(18, 12, 2),
        equations="dv/dt = (i - v) / 5",
        currents=("i",),
        spike="v > 0.1",
        reset="v = 0",
    )
    layers: dict[str, Layer] = {
        "positive": Linear(shape=(18, 12, 2)),
        "cells": cells,
        "seen": Linear(shape=(18, 12, 2)),
        "on": LCA(shape=CODE, tau=5.0, threshold=0.01),
    }
    connections: dict[str, Connection] = {
        "onto": Sparse(pre="V1", post="positive", delays=Uniform(low=1.0, high=3.0), **given),
        "in": Identity(pre="positive", post="cells", target="i"),
        "out": Identity(pre="cells", post="seen"),
        "further": Sparse(pre="cells", post="on", **given),
    }
    whole = loop_with(kernel, layers, connections)
    spikes = {"cells": LayerOutput(every=STEP, variables=("A", "spikes"))}
    output = whole.output.model_copy(update={"layers": whole.output.layers | spikes})
    found = agrees(whole.model_copy(update={"output": output}), parts)
    for name in layers:
        assert found[f"layers/{name}/A"].any(), name
    assert len(found["spikes/cells/unit"])


def connected(kind: str, mode: str = "extra_shared") -> tuple[dict[str, Layer], dict[str, Connection]]:
    """Return a connection that tiles cannot make, between layers that are split."""
    learn: dict[str, Any] = {
        "init": Gaussian(), "mode": mode, "normalize": L2(), "learn": Hebbian(error="made", rate=0.01),
    }  # fmt: skip
    made: dict[str, Layer] = {"made": Linear(shape=FINE)}
    code: dict[str, Layer] = {"code": LCA(shape=CODE, tau=5.0, threshold=0.05)}
    if kind == "border":
        bordered = LCA(shape=(18, 12, 6), tau=5.0, threshold=0.05, border="mirror")
        return made | {"code": bordered}, {
            "given": Conv(pre="image", post="code", patch=(1, 1), init=Gaussian()),
            "out": Conv(pre="code", post="made", patch=(6, 6), **learn),
            "back": Transpose(pre="error", post="code", of="out"),
        }
    if kind == "far":
        return made | code, {
            "given": Conv(pre="image", post="code", patch=(1, 1), init=Gaussian()),
            "out": Conv(pre="code", post="made", patch=(38, 6), **learn),
            "back": Transpose(pre="error", post="code", of="out", strength=0.1),
        }
    if kind == "maxima":
        return {"made": Linear(shape=(36, 24, 12))}, {
            "out": Pool(pre="V1", post="made", method="max", window=(4, 4))
        }
    if kind == "own weights":
        learn["learn"] = Hebbian(error="code", rate=0.01)
        return code, {"in": Conv(pre="image", post="code", patch=(2, 2), **learn)}
    assert kind == "plug-in"
    return made, {"out": Turned(pre="error", post="made")}


@pytest.mark.sampled(10)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("parts", PARTS, ids=str)
@pytest.mark.parametrize(
    ("kind", "mode"),
    [
        ("border", "extra_shared"),
        ("border", "shared"),
        ("border", "non_shared"),
        ("border", "extra_non_shared"),
        ("far", "extra_shared"),
        ("far", "non_shared"),
        ("maxima", ""),
        ("own weights", "non_shared"),
        ("own weights", "extra_non_shared"),
        ("plug-in", ""),
    ],
)
def test_connections_that_tiles_cannot_make(kind: str, mode: str, parts: dict[str, int], kernel: str) -> None:
    whole = loop_with(kernel, *connected(kind, mode))
    found = agrees(whole, parts, 3e-6 if kind == "far" else 1e-6)  # sums over 38 rows of weights that learn
    if (kind, kernel, parts) == ("far", "array", PARTS[0]):
        agrees(in_float64(whole), parts, 1e-12)
    tiling = build(split(whole, **parts)).tiling
    assert any(tiling.repeated(name) for name in ("out", "in") if name in tiling.shares)
    for key, array in found.items():
        kind_of, name, _ = key.split("/")
        if kind_of == "layers":
            assert array[-1].any(), name
        elif name in ("out", "in"):
            assert not np.array_equal(array[0], array[-1]), name


@pytest.mark.sampled(3)
@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("far", [False, True], ids=["near", "far"])
@pytest.mark.parametrize("parts", [*PARTS, {"rows": 6}], ids=str)
def test_images_around_layers(parts: dict[str, int], far: bool, kernel: str) -> None:
    image = Input(shape=FINE, source=PeriodicImages(data=images(2, shape=FINE)), border="image")
    layers: dict[str, Layer] = {
        "around": image,
        "code": LCA(shape=(18, 12, 6), tau=5.0, threshold=0.05),
        "blocks": Linear(shape=(18, 12, 5)),
        "pooled": Linear(shape=(18, 12, 3)),
        "copy": Linear(shape=FINE),
    }
    connections: dict[str, Connection] = {
        "up": Conv(
            pre="around",
            post="code",
            patch=(3, 3),
            init=Gaussian(),
            learn=Hebbian(rate=0.01, average="active"),
        ),
        "small": Conv(pre="around", post="blocks", patch=(1, 1), init=Gaussian(), delay_steps=2),
        "pool": Pool(pre="around", post="pooled", window=(4, 4), method="max"),
        "same": Identity(pre="around", post="copy"),
    }
    if far:
        layers |= {"overview": Linear(shape=(18, 12, 2))}
        connections["far"] = Conv(pre="around", post="overview", patch=(19, 1), init=Gaussian())
    whole = loop_with(kernel, layers, connections)
    found = agrees(whole, parts)
    assert ("around" in build(split(whole, **parts)).tiling.layers) != far
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


@pytest.mark.parametrize("kernel", KERNELS)
def test_layers_that_do_not_divide_are_whole(kernel: str) -> None:
    layers: dict[str, Layer] = {
        "top": LCA(shape=(9, 6, 8), tau=5.0, threshold=0.001, signed=True),
        "one": Linear(shape=(1, 1, 5)),
    }
    connections: dict[str, Connection] = {
        "up": Transpose(pre="V1", post="top", of="down"),
        "down": Conv(pre="top", post="V1", patch=(2, 2), init=Gaussian(), feedback=True, normalize=L2()),
        "all": Conv(pre="top", post="one", patch=(1, 1), init=Gaussian()),
    }
    whole = loop_with(kernel, layers, connections)
    assert find_tiling(split(whole, rows=2), build(whole).wirings).layers == {"image", "error", "V1", "recon"}
    found = agrees(whole, {"rows": 2})
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", ["auto", "array"])
@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_layers_are_reset_to_whole_ones_and_these_to_tiles(parts: dict[str, int], kernel: str) -> None:
    layers: dict[str, Layer] = {
        "rescaled": Rescale(shape=CODE, method="length", norm=5.0),
        "F": LCA(shape=CODE, tau=5.0, threshold=0.1, reset=Every(4), reset_to="rescaled"),
        "cells": Adaptive(shape=CODE, tau=5.0, reset=Every(3), reset_to="V1"),
    }
    connections: dict[str, Connection] = {
        "a": Identity(pre="V1", post="rescaled"),
        "b": Identity(pre="V1", post="F"),
        "c": Identity(pre="V1", post="cells"),
    }
    whole = loop_with(kernel, layers, connections)
    found = agrees(whole, parts, 3e-6)  # of norms of activities
    if kernel == "array":
        agrees(in_float64(whole), parts, 1e-12)
    for name in layers:
        assert found[f"layers/{name}/A"][-1].any(), name


class Brightened(GivenImages):
    """Images with a factor, in which slices may differ."""

    type: Literal["test_brightened"] = "test_brightened"  # type: ignore[assignment]
    gain: float = 1.0

    def open(self, shape: tuple[int, int, int], batch: int, seed: int) -> Any:
        read = super().open(shape, batch, seed)
        return lambda number, item: np.float32(self.gain) * read(number, item)


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_slices_differ_in_values_of_their_source(parts: dict[str, int]) -> None:
    one = loop_with("auto", {}, {})
    shown = Input(shape=FINE, source=Brightened(data=images(2, shape=FINE)))
    whole = one.model_copy(
        update={
            "layers": {**one.layers, "image": shown},
            "slices": {"layers.image.source.gain": (1.0, 3.0)},
        }
    )
    found = agrees(whole, parts)
    plain = of_ranks(whole.model_copy(update={"slices": {}}))[0]
    codes = found["layers/V1/A"], plain["layers/V1/A"]
    np.testing.assert_array_equal(codes[0][:, 0], codes[1][:, 0])
    assert abs(codes[0][:, 1] - codes[1][:, 1]).max() > 0.1


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_probes_of_whole_layers_and_through_whole_connections_count_once(parts: dict[str, int]) -> None:
    layers, connections = both_ways(OTHERS["rescale"])
    whole = loop_with("auto", layers, connections)
    probes = {
        "norm": L1(layer="it", every=STEP),
        "tiled": L1(layer="code", every=STEP),
        "masked": L1(layer="it", mask="image", every=STEP),
    }
    whole = whole.model_copy(update={"probes": {**whole.probes, **probes}})
    alone, _ = of_ranks(whole)
    found, _ = of_ranks(split(whole, **parts))
    assert all(alone[f"probes/{name}/sum"].any() for name in probes)
    assert_near(alone, found, 1e-6)


@pytest.mark.parametrize("parts", PARTS, ids=str)
def test_held_out_images_are_coded_beside_whole_layers(parts: dict[str, int]) -> None:
    layers, connections = both_ways(OTHERS["rescale"])
    far = Conv(pre="image", post="same", patch=(35, 1), init=Gaussian(std=0.1))
    held = Evaluate.model_construct(source=GivenImages(data=images(2, shape=FINE, seed=5)), every=DISPLAY)
    whole = loop_with("auto", layers, connections | {"far": far}).model_copy(update={"evaluate": held})
    found = agrees(whole, parts)
    assert found["probes/evaluate/energy_total"].min() > 0
    part = LonePart(schedule(build(split(whole, **parts))), Serial())
    assert needed(part.features.plan, 2, 1) > 0


def random_split(seed: int, parts: int) -> Network | None:
    """Return a random network of which ranks have tiles; None where this seed has no rows to split."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the momentum
        network = split(random_network(seed), rows=parts)
    try:
        build(network)
    except ParamsError:
        return None
    return network


@pytest.mark.sampled(2)
@pytest.mark.parametrize("rows", [2, 3])
@pytest.mark.parametrize(
    ("run", "tolerance"),
    [({"kernel": "array", "precision": "float64"}, 1e-9), ({"kernel": "auto"}, 1e-6)],
    ids=["array", "auto"],
)
def test_random_networks(run: dict[str, Any], tolerance: float, rows: int) -> None:
    networks = filter(None, (random_split(seed, rows) for seed in range(30 * rows)))
    found = list(islice(networks, 20))
    for one in found:
        parted = one.model_copy(update={"run": one.run.model_copy(update={"steps": 9, **run})})
        _, alone = of_ranks(split(parted))
        _, tiles = of_ranks(parted)
        assert_near(alone, tiles, tolerance)
    ways = [build(one).tiling for one in found]
    assert sum(any(one.by_tiles(name) for name in one.shares) for one in ways) > 5
    assert sum(any(one.repeated(name) for name in one.shares) for one in ways) > 5
