"""Values per slice of sources and transforms: each slice sees the images of a run with its values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, results, simulation
from petabatch.errors import ParamsError, Problem
from petabatch.layers import Input
from petabatch.network.build import build
from petabatch.network.evaluation import held_out
from petabatch.network.plan import schedule
from petabatch.network.slices import sliced
from petabatch.report.memory import needed
from petabatch.sources import Bars, DeadLeaves, ImageArray, Noise
from petabatch.spec.network import Evaluate, LayerOutput, Network, Output, Run
from petabatch.spec.override import swept
from petabatch.spec.parts import Source
from petabatch.spec.sweep import Sweep
from support.commands import Command, alone, contents
from support.networks import images, lca_network

SOURCE = "layers.image.source"
DEVIATION = f"{SOURCE}.transforms.1.std"
PLAIN = 'source = { type = "array", file = "images.npy" }'
VALUES = "{ slices = [0.0, 0.1, 0.3] }"
NOISY = (
    'source = { type = "array", file = "images.npy", transforms = [{ type = "crop" }, '
    f'{{ type = "noise", std = {VALUES} }}] }}'
)
FIXED = 'connections.dictionary.learn.every="never"'


def shows(source: Source, batch: int = 3, **tables: Any) -> Network:
    """Return a network that shows images and records them."""
    return Network(
        run=Run(batch=batch, displays=2, display=2),
        layers={"image": Input(shape=(6, 6, 1), source=source)},
        output=Output(layers={"image": LayerOutput()}),
        **tables,
    )


def pixels(network: Network) -> np.ndarray:
    return in_memory.run(network).recorded["layers/image/A"]


def stack(**keys: Any) -> ImageArray:
    return ImageArray(data=np.random.default_rng(0).random((7, 9, 9, 1)), **keys)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("source", "path", "values"),
    [
        (Bars(), "probability", (0.1, 0.9, 0.5)),
        (DeadLeaves(), "largest", (4.0, 100.0, 20.0)),
        (Noise(), "exponent", (0, 1, 2)),
        (Noise(transforms=[{"type": "noise", "std": 0.0}]), "transforms.0.std", (0, 0.5, 2)),
        (stack(contrast=0.1), "contrast", (0.0, 0.28, 0.29)),
        (stack(transforms=[{"type": "whiten"}, {"type": "crop"}]), "transforms.0.cutoff", (0.1, 0.2, 0.4)),
        (stack(transforms=[{"type": "crop"}, {"type": "flip"}]), "transforms.1.probability", (0, 1, 0.5)),
    ],
)
def test_each_slice_sees_the_images_of_a_run_with_its_value(source: Source, path: str, values: Any) -> None:
    network = shows(source, slices={f"{SOURCE}.{path}": values})
    found = pixels(network)
    for number in range(3):
        own = sliced(network, number)
        assert not own.slices
        assert np.array_equal(found[:, number], pixels(own)[:, number])
    others = [pixels(sliced(network, number)) for number in range(3)]
    assert not np.array_equal(others[0], others[1])


def test_points_of_a_sweep_see_the_same_images_but_for_its_values() -> None:
    source = stack(transforms=[{"type": "crop"}, {"type": "noise", "std": 0.0}])
    network = shows(source, 2, sweep=Sweep(**{DEVIATION: [0.0, 0.25, 0.5]}))
    clean, *noisy = np.split(pixels(network), 3, axis=1)
    assert not np.array_equal(clean[:, 0], clean[:, 1])
    np.testing.assert_allclose(2 * (noisy[0] - clean), noisy[1] - clean, atol=1e-6)
    for point, found in enumerate((clean, *noisy)):
        assert np.array_equal(found, pixels(sliced(network, 2 * point)))


def test_slices_that_differ_in_images_alone_make_the_same_steps() -> None:
    net = lca_network(images(3), learn=False)
    image = net.layers["image"].model_copy(update={"source": Noise()})
    net = net.model_copy(update={"layers": {**net.layers, "image": image}})
    net = net.model_copy(update={"slices": {f"{SOURCE}.exponent": (0.0, 1.0, 2.0)}})
    plan = schedule(build(net))
    assert all(plan.of_slice(number) is plan for number in range(3))
    found = in_memory.run(net, threads=2).recorded["layers/V1/A"]
    for number in range(3):
        own = in_memory.run(sliced(net, number)).recorded["layers/V1/A"]
        assert np.array_equal(found[:, number], own[:, number])


def test_a_params_file_says_them_in_place_on_ranks_and_resumed(small: Path, petabatch: Command) -> None:
    file = small.parent / "noisy.toml"
    file.write_text(small.read_text().replace(PLAIN, NOISY))
    whole = contents(alone(file, "whole", FIXED) / "run.h5")
    done = petabatch("run", file, "--out", "ranks", "-q", "-s", FIXED, ranks=2)
    assert done.returncode == 0, done.stderr
    assert contents(small.parent / "ranks" / "run.h5") == whole
    (small.parent / "ranks" / "checkpoints" / "step_000000060.h5").unlink()
    simulation.resume(small.parent / "ranks", mpi=False, quiet=True)
    assert contents(small.parent / "ranks" / "run.h5") == whole
    with results.open(small.parent / "whole") as run:
        assert run.params["slices"] == {DEVIATION: [0.0, 0.1, 0.3]}
        assert run.coordinates["std"].tolist() == [0.0, 0.1, 0.3]
        with results.open(alone(file, "alone", FIXED, f"{DEVIATION}=0.3")) as own:
            assert np.array_equal(run.layer("V1")[:][:, 2], own.layer("V1")[:][:, 2])


def test_a_sweep_of_the_command_line_takes_the_key_of_a_transform(small: Path) -> None:
    file = small.parent / "noisy.toml"
    file.write_text(small.read_text().replace(PLAIN, NOISY.replace(VALUES, "0.1")))
    with results.open(alone(file, "swept", FIXED, *swept([f"{DEVIATION}=0.2,0.4"]))) as run:
        for point, value in enumerate((0.2, 0.4)):
            with results.open(alone(file, f"alone_{point}", FIXED, f"{DEVIATION}={value}")) as own:
                mine = run.layer("V1")[:][:, 3 * point : 3 * point + 3]
                assert np.array_equal(mine, own.layer("V1")[:])


@pytest.mark.long
def test_evaluations_show_their_own_images_whatever_the_values_of_the_run(small: Path) -> None:
    file = small.parent / "evaluated.toml"
    evaluate = '[evaluate]\nevery = "3 displays"\nsource = { type = "noise" }\n'
    shared = small.read_text().replace("learn = {", 'mode = "shared"\nlearn = {')
    file.write_text(shared.replace(PLAIN, NOISY.replace(VALUES, "0.1")) + evaluate)
    values = {"one": swept([f"{DEVIATION}=0.1,0.4"]), "two": swept([f"{DEVIATION}=0.1,0.4", "run.dt=1,2"])}
    for name, settings in values.items():
        with (
            results.open(alone(file, name, *settings)) as run,
            results.open(
                alone(file, f"{name}_alone", f"{DEVIATION}=0.4", *(["run.dt=2"] if name == "two" else []))
            ) as own,
        ):
            path = "probes/evaluate/energy_total"
            assert np.array_equal(run[path][:][:, -3:], own[path][:])
            assert not np.array_equal(run[path][:][:, :3], own[path][:])


def test_a_sweep_without_a_key_has_as_many_points() -> None:
    sweep = Sweep(**{DEVIATION: [0.1, 0.2], "run.dt": [1, 2, 3]})
    network = shows(Noise(), 1, sweep=sweep, evaluate=Evaluate(source=Noise()))
    kept = held_out(network).sweep
    assert kept is not None
    assert [kept.point(number) for number in range(kept.points)] == [{"run.dt": dt} for dt in (1, 2, 3) * 2]
    alone = Sweep(**{DEVIATION: [0.1, 0.2]}).without(SOURCE, 2**53 - 1)
    assert [alone.point(number) for number in range(alone.points)] == [{"run.seed": 2**53 - 1}] * 2


def test_the_images_of_each_value_are_kept_in_memory() -> None:
    source = stack(transforms=[{"type": "whiten"}, {"type": "crop"}])
    one = shows(source)
    two = one.model_copy(update={"slices": {f"{SOURCE}.transforms.0.cutoff": (0.1, 0.2, 0.1)}})
    more = needed(schedule(build(two)), 3, 1) - needed(schedule(build(one)), 3, 1)
    assert more == source.nbytes((6, 6, 1)) > 0


PADDED = (
    {"type": "crop", "size": (6, 6), "position": "center"},
    {"type": "noise", "std": 0.1},
    {"type": "zca", "samples": 9},
    {"type": "noise", "std": 1.0},
)


MOVIE = stack(order={"type": "by_movie"}, transforms=({"type": "crop"},))


def test_numbers_after_a_fitted_transform_may_differ() -> None:
    network = shows(stack(transforms=PADDED), slices={f"{SOURCE}.transforms.3.std": (0, 1, 2)})
    found = pixels(network)
    assert np.array_equal(found[:, 2], pixels(sliced(network, 2))[:, 2])


@pytest.mark.parametrize(
    ("source", "key", "values", "message", "told"),
    [
        (Noise(), "exponents", (0, 1, 2), "this cannot differ", "source.exponent"),
        (Noise(), "transforms.0.std", (0, 1, 2), "this cannot differ", "source.exponent"),
        (stack(), "order.seed", (0, 1, 2), "this cannot differ", "source.contrast"),
        (stack(), "offset", (0, 1, 2), "this cannot differ", "source.contrast"),
        (stack(transforms=PADDED), "transforms.01.std", (0, 1, 2), "cannot differ", "transforms.1."),
        (stack(transforms=PADDED), "transforms.1.std", (0, 1, 2), "is fitted", "a transform after it"),
        (stack(transforms=PADDED), "transforms.2.epsilon", (1, 2, 3), "is fitted", "a transform after it"),
        (Noise(), "exponent", (0, 1, -1), "value 2 (from 0): the value is out of range", "at least 0"),
        (Noise(), "exponent", (0, 1), "there is not one value for each slice", "3, the batch size"),
        (
            DeadLeaves(),
            "smallest",
            (1, 100, 2),
            "value 1 (from 0): the smallest radius",
            "a range",
        ),
        (
            stack(order={"type": "by_movie"}),
            "contrast",
            (0, 0, 1),
            "value 2 (from 0): a movie",
            "contrast = 0",
        ),
        (MOVIE, "transforms.0.contrast", (0, 0, 1), "value 2 (from 0): a movie", "contrast = 0"),
    ],
)
def test_wrong_keys_and_values_are_errors(
    source: Source, key: str, values: tuple[float, ...], message: str, told: str
) -> None:
    (problem,) = problems_of(shows(source, slices={f"{SOURCE}.{key}": values}))
    assert problem.key == f"{SOURCE}.{key}"
    assert message in problem.message
    assert told in problem.expected


def problems_of(network: Network) -> list[Problem]:
    with pytest.raises(ParamsError) as raised:
        build(network)
    return list(raised.value.problems)


def test_values_over_time_are_not_for_sources(small: Path) -> None:
    changing = f"{SOURCE}={{type='noise', exponent={{at=[1, 3], values=[0, 1]}}}}"
    with pytest.raises(ParamsError, match="this cannot change over time: images are read ahead"):
        simulation.plan(simulation.read(small, [changing]))


def test_a_place_that_an_array_does_not_have_is_an_error(small: Path) -> None:
    file = small.parent / "noisy.toml"
    file.write_text(small.read_text().replace(PLAIN, NOISY))
    for path, said in (("transforms.2.std", "no such place"), ("transforms.1", "is not a table")):
        with pytest.raises(ParamsError, match=said):
            simulation.read(file, [f"{SOURCE}.{path}=0.3"])
