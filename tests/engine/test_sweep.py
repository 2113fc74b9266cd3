"""Sweeps: the points of one run have the bits of the runs with their values alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, results, simulation
from petabatch.connections import Identity
from petabatch.errors import ParamsError
from petabatch.layers import Constant, Dropout, GaussianNoise, Input
from petabatch.learning.revive import Revive
from petabatch.network.build import build
from petabatch.network.slices import sliced
from petabatch.sources import ImageArray, Noise
from petabatch.spec.network import Network, Run
from petabatch.spec.override import swept as override
from petabatch.spec.sweep import Sweep
from petabatch.weights import Gaussian
from support.commands import Command, alone, contents
from support.networks import images, lca_network
from support.programs import random_network

TWO_LAYERS = Path(__file__).parents[2] / "params" / "two_layer.toml"
THRESHOLDS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0)


def swept(network: Network, **tables: Any) -> Network:
    """Return a network with a sweep."""
    return network.model_copy(update={"sweep": Sweep(**tables)})


def assert_points_are_runs(network: Network) -> None:
    """Compare a sweep with the runs of its points, everything that is recorded."""
    assert network.sweep is not None
    batch = network.run.batch
    found = in_memory.run(network, threads=2).recorded
    for point in range(network.sweep.points):
        own = in_memory.run(sliced(network, point * batch)).recorded
        assert own.keys() == found.keys()
        for path, values in own.items():
            mine = found[path]
            if mine.shape != values.shape:  # else it belongs to all slices
                mine = mine[:, point * batch : (point + 1) * batch]
            np.testing.assert_array_equal(mine, values, err_msg=f"{path}, point {point}")


@pytest.mark.sampled(1)
@pytest.mark.parametrize("kernel", ["array", "dense", "lazy"])
def test_points_of_a_sparse_coding_loop_are_runs(kernel: str) -> None:
    net = lca_network(images(4), learn=False, displays=2, kernel=kernel)
    assert_points_are_runs(swept(net, layers={"V1": {"threshold": THRESHOLDS}}))


def test_points_of_two_layers_are_runs() -> None:
    loop, code = (f"layers.{name}.shape=[16,16,3]" for name in ("image", "error")), "[8,8,16]"
    smaller = [
        *loop,
        "layers.recon.shape=[16,16,3]",
        *(f"layers.{name}.shape={code}" for name in ("V1", "V1error", "V1recon")),
        "layers.V2.shape=[4,4,12]",
        "run.batch=4",
        "run.display=30",
    ]
    loaded = simulation.read(TWO_LAYERS, smaller)
    assert simulation.plan(loaded).method.stepper == "program"
    net = loaded.network
    assert_points_are_runs(swept(net, layers={"V1": {"threshold": THRESHOLDS}}))


@pytest.mark.parametrize("seed", range(4))
def test_points_of_random_networks_are_runs(seed: int) -> None:
    net = random_network(seed)
    numbers = {
        name: {"tau": {"start": layer.tau, "stop": 2 * layer.tau, "count": 3, "spacing": "log"}}
        for name, layer in net.layers.items()
        if "tau" in type(layer).model_fields
    }
    run = net.run.model_copy(update={"kernel": "auto", "steps": 24})
    net = net.model_copy(update={"run": run})
    seeds = {"run": {"seed": [1, 5, 9]}}
    assert_points_are_runs(swept(net, combine="zip", layers=numbers, **seeds))


def test_seeds_draw_weights_images_and_noise_as_those_of_runs() -> None:
    net = lca_network(images(2), mode="shared", displays=3)
    noisy = GaussianNoise(shape=net.layers["image"].shape, std=0.3)
    layers = {
        **net.layers,
        "image": net.layers["image"].model_copy(update={"source": Noise()}),
        "noise": noisy,
    }
    to_error = net.connections["image_to_error"].model_copy(update={"pre": "noise"})
    to_noise = net.connections["image_to_error"].model_copy(update={"post": "noise"})
    dictionary = net.connections["dictionary"].model_copy(
        update={"init": Gaussian(), "revive": Revive(after=1)}
    )
    connections = {
        **net.connections, "image_to_error": to_error, "to_noise": to_noise, "dictionary": dictionary,
    }  # fmt: skip
    net = net.model_copy(update={"layers": layers, "connections": connections})
    assert_points_are_runs(swept(net, run={"seed": [1, 2, 2**40]}))


def test_points_see_the_same_images_by_default() -> None:
    net = lca_network(images(2), learn=False, displays=2)
    net = net.model_copy(
        update={"layers": {**net.layers, "image": net.layers["image"].model_copy(update={"source": Noise()})}}
    )
    output = net.output.model_copy(
        update={"layers": {**net.output.layers, "image": net.output.layers["recon"]}}
    )
    found = in_memory.run(
        swept(net.model_copy(update={"output": output}), layers={"V1": {"threshold": [0.2, 0.6]}})
    ).recorded["layers/image/A"]
    assert np.array_equal(found[:, :2], found[:, 2:])
    assert not np.array_equal(found[:, 0], found[:, 1])


def test_values_per_slice_hold_in_each_point() -> None:
    net = lca_network(images(2), learn=False, displays=1)
    net = net.model_copy(update={"slices": {"layers.V1.tau": (10.0, 30.0)}})
    net = swept(net, layers={"V1": {"threshold": [0.2, 0.6]}})
    taus = [sliced(net, number).layers["V1"].tau for number in range(4)]
    assert taus == [10.0, 30.0, 10.0, 30.0]
    one = net.model_copy(update={"sweep": None})
    found = in_memory.run(net).recorded["layers/V1/V"]
    assert np.array_equal(found[:, 2:], in_memory.run(_with_threshold(one, 0.6)).recorded["layers/V1/V"])


def _with_threshold(network: Network, value: float) -> Network:
    layers = {**network.layers, "V1": network.layers["V1"].model_copy(update={"threshold": value})}
    return network.model_copy(update={"layers": layers})


def test_grids_and_zips() -> None:
    columns: dict[str, Any] = {"layers": {"V1": {"threshold": [1.0, 2.0]}}, "run": {"seed": [7, 8]}}
    grid, zipped = Sweep(**columns), Sweep(combine="zip", **columns)
    assert [tuple(grid.point(n).values()) for n in range(grid.points)] == [(1, 7), (1, 8), (2, 7), (2, 8)]
    assert [tuple(zipped.point(n).values()) for n in range(zipped.points)] == [(1, 7), (2, 8)]
    ranged = Sweep(**{"layers.V1.tau": {"start": 1, "stop": 100, "count": 3, "spacing": "log"}})
    assert list(ranged.columns) == ["layers.V1.tau"]
    np.testing.assert_allclose(ranged.columns["layers.V1.tau"], (1.0, 10.0, 100.0), rtol=1e-15)
    assert Sweep(**grid.model_dump()) == grid


@pytest.mark.long
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 3])
def test_a_sweep_from_the_command_line_on_ranks_and_made_again(
    small: Path, petabatch: Command, ranks: int
) -> None:
    shared = 'connections.dictionary.mode="shared"'
    values = ["--sweep", "layers.V1.threshold=0.2,0.5", "--sweep", "run.seed={start=3,stop=4,count=2}"]
    alone(small, "whole", shared, *override(values[1::2]))
    out = small.parent / "ranks"
    done = petabatch("run", small, "--out", out, "-q", "-s", shared, *values, ranks=ranks)
    assert done.returncode == 0, done.stderr
    assert contents(out / "run.h5") == contents(small.parent / "whole" / "run.h5")
    for path in (out / "points").glob("*.h5"):
        path.unlink()
    simulation.resume(out, mpi=False, quiet=True)
    assert contents(out / "run.h5") == contents(small.parent / "whole" / "run.h5")
    with results.open(small.parent / "whole") as run:
        assert run.batch == 12
        for point, (threshold, seed) in enumerate([(0.2, 3), (0.2, 4), (0.5, 3), (0.5, 4)]):
            mine = (shared, f"layers.V1.threshold={threshold}", f"run.seed={seed}")
            with results.open(alone(small, f"alone_{point}", *mine)) as own:
                for path in own:
                    assert np.array_equal(run[path][:, 3 * point : 3 * point + 3], own[path][...]), path


def interval(low: float, high: float) -> dict[str, Any]:
    """Return a sweep whose only draw lies between two thresholds, at 0.58 of the way."""
    return {"draws": 1, "layers": {"V1": {"threshold": {"low": low, "high": high}}}}


@pytest.mark.parametrize(
    ("table", "key", "message"),
    [
        ({"layers": {"V1": {"threshold": [0.3, -1.0]}}}, "sweep.layers.V1.threshold", "value 1 (from 0): "),
        ({"layers": {"V1": {"shape": [1, 2]}}}, "sweep.layers.V1.shape", "cannot differ"),
        ({"layers": {"V2": {"threshold": [1, 2]}}}, "sweep.layers.V2.threshold", "there is no layer V2"),
        ({"run": {"display": [10, 20]}}, "sweep.run.display", "cannot differ"),
        ({"run": {"seed": [1, 2.5]}}, "sweep.run.seed", "value 1 (from 0): "),
        (interval(-1e-9, 1.0), "sweep.layers.V1.threshold.low", "the value is out of range"),
        ({"layers": {"V1": {"tau": [1, 2]}}}, "sweep.layers.V1.tau", "values per slice as well"),
    ],
)
def test_wrong_keys_and_values_of_a_sweep_are_errors(table: dict[str, Any], key: str, message: str) -> None:
    net = lca_network(images(2), learn=False).model_copy(update={"slices": {"layers.V1.tau": (1.0, 2.0)}})
    with pytest.raises(ParamsError) as raised:
        build(swept(net, **table))
    (problem,) = raised.value.problems
    assert problem.key == key
    assert message in problem.message


@pytest.mark.parametrize(("bounds", "key"), [((-0.1, 0.9), "low"), ((0.1, 1.1), "high")])
def test_bounds_of_intervals_are_values_of_their_key(bounds: tuple[float, float], key: str) -> None:
    """Each bound is looked at for itself: what is drawn is between them, and may be in range."""
    low, high = bounds
    net = Network(
        run=Run(batch=1, steps=5),
        layers={"one": Constant(shape=(1, 1, 2), value=1.0), "some": Dropout(shape=(1, 1, 2))},
        connections={"given": Identity(pre="one", post="some")},
    )
    path = "layers.some.probability"
    build(swept(net, draws=1, **{path: {"low": 0.0, "high": 1.0}}))
    with pytest.raises(ParamsError) as raised:
        build(swept(net, draws=1, **{path: {"low": low, "high": high}}))
    (problem,) = raised.value.problems
    assert problem.key == f"sweep.{path}.{key}"
    assert problem.found == str(bounds[key == "high"])
    assert problem.message == "the value is out of range"


def test_weights_that_learn_from_all_slices_cannot_be_swept(small: Path) -> None:
    with pytest.raises(ParamsError) as raised:
        simulation.plan(simulation.read(small, ["sweep.layers.V1.threshold=[0.1, 0.2]"]))
    (problem,) = raised.value.problems
    assert problem.expected == 'mode = "shared", in which each slice learns alone'
    assert "-s KEY=VALUE" in problem.hint


def test_weights_in_common_that_do_not_learn_can_be_swept(small: Path) -> None:
    frozen = "connections.dictionary.learn.every='never'"
    assert simulation.plan(simulation.read(small, ["sweep.layers.V1.threshold=[0.1, 0.2]", frozen]))


def test_weights_in_common_cannot_start_from_several_seeds(small: Path) -> None:
    with pytest.raises(ParamsError) as raised:
        in_memory.run(
            simulation.read(small, ["connections.dictionary.learn.every='never'", "sweep.run.seed=[1, 2]"])
        )
    assert 'mode = "shared"' in raised.value.problems[0].expected


def test_a_transform_that_is_fitted_to_random_images_has_one_seed() -> None:
    def net(*before: dict[str, Any]) -> Network:
        source = ImageArray(
            data=np.random.default_rng(0).random((5, 9, 9, 1)),
            transforms=(*before, {"type": "zca", "samples": 9}),
        )
        layers = {"image": Input(shape=(4, 4, 1), source=source)}
        return swept(Network(run=Run(batch=2, steps=2), layers=layers), run={"seed": [1, 2]})

    with pytest.raises(ParamsError, match="layer image is fitted to random images") as raised:
        build(net({"type": "flip"}, {"type": "crop"}))
    (problem,) = raised.value.problems
    assert (problem.key, problem.found) == ("sweep.run.seed", "2 seeds")
    build(net({"type": "crop", "position": "center"}))
