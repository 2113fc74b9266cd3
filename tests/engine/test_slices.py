"""Values per slice: each slice has the bits of a run with its own values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from petabatch import in_memory, params, results, simulation
from petabatch.errors import ParamsError
from petabatch.learning import Hebbian
from petabatch.learning.revive import Revive
from petabatch.network.build import build
from petabatch.network.method import choose
from petabatch.network.plan import schedule
from petabatch.network.slices import sliced
from petabatch.probes.cost import Cost
from petabatch.probes.terms import Sum
from petabatch.spec.network import LayerOutput, Network, Output
from petabatch.spec.schedule import STEP, Every
from petabatch.spec.sweep import Sweep
from petabatch.weights import Gaussian
from support.commands import Command, alone, contents
from support.lazy_codes import random_loops
from support.networks import images, lca_network
from support.programs import random_network

PER_SLICE = {
    "layers.V1.threshold": (0.3, 0.4, 0.6),
    "layers.V1.tau": (20.0, 20.0, 35.0),
    "probes.energy.coefficient": (0.3, 0.4, 0.6),
}


def alone_each(network: Network) -> list[dict[str, Any]]:
    """Return what is recorded where all slices have the values of slice 0, of slice 1, ..."""
    found = []
    for number in range(network.run.batch):
        found.append(in_memory.run(sliced(network, number)).recorded)
    return found


@pytest.mark.sampled(2)
@pytest.mark.parametrize("kernel", ["array", "dense", "lazy"])
@pytest.mark.parametrize("mode", ["extra_shared", "shared"])
def test_each_slice_has_the_bits_of_a_run_with_its_values(kernel: Any, mode: str) -> None:
    net = lca_network(images(3), mode=mode, kernel=kernel, learn=mode == "shared")
    net = net.model_copy(update={"slices": PER_SLICE})
    found = in_memory.run(net, threads=2).recorded
    for number, own in enumerate(alone_each(net)):
        for path in ("layers/V1/A", "layers/V1/V", "probes/energy/total", "probes/active/fraction"):
            assert np.array_equal(found[path][:, number], own[path][:, number]), (path, number)
    assert not np.array_equal(found["layers/V1/A"][:, 0], alone_each(net)[2]["layers/V1/A"][:, 0])


@pytest.mark.sampled(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(("make", "kernel"), [(random_network, "auto"), (random_loops, "lazy")])
def test_programs_of_slices_differ_in_their_numbers_alone(seed: int, make: Any, kernel: str) -> None:
    net = make(seed)
    batch = net.run.batch
    scales = 1.0 + 0.25 * np.arange(batch)
    values = {
        f"layers.{name}.tau": tuple(float(layer.tau * scale) for scale in scales)
        for name, layer in net.layers.items()
        if "tau" in type(layer).model_fields
    }
    output = Output(layers={name: LayerOutput(every=Every(1)) for name in net.layers})
    run = net.run.model_copy(update={"kernel": kernel})
    net = net.model_copy(update={"slices": values, "output": output, "run": run})
    assert choose(build(net)).stepper in ("program", kernel)
    found = in_memory.run(net).recorded
    assert {f"layers/{name}/A" for name in net.layers} <= found.keys()
    for number, own in enumerate(alone_each(net)):
        for path in found:
            if path.startswith("layers/"):
                assert np.array_equal(found[path][:, number], own[path][:, number], equal_nan=True), path


def test_variables_start_from_the_values_of_their_slice() -> None:
    net = lca_network(images(3), displays=1, learn=False, record=STEP)
    net = net.model_copy(update={"slices": {"layers.V1.initial": (0.0, 0.3, 0.6)}})
    found = in_memory.run(net).recorded["layers/V1/V"]
    for number, own in enumerate(alone_each(net)):
        assert np.array_equal(found[:, number], own["layers/V1/V"][:, number])


def test_rates_may_differ_where_each_slice_has_its_own_weights() -> None:
    net = lca_network(images(2), mode="shared")
    net = net.model_copy(update={"slices": {"connections.dictionary.learn.rate": (0.1, 0.5)}})
    found = in_memory.run(net).recorded["connections/dictionary/weights"]
    for number, own in enumerate(alone_each(net)):
        assert np.array_equal(found[:, number], own["connections/dictionary/weights"][:, number])
    assert not np.array_equal(found[-1, 0], found[-1, 1])


def test_terms_of_a_sum_may_differ() -> None:
    net = lca_network(images(3), learn=False, kernel="array")
    probes = {"sum": Sum(terms={"code": Cost(layer="V1", norm="l1"), "error": Cost(layer="error")})}
    path = "probes.sum.terms.code.coefficient"
    net = net.model_copy(update={"probes": probes, "slices": {path: (0.1, 0.2, 0.4)}})
    found = in_memory.run(net).recorded["probes/sum/total"]
    for number, own in enumerate(alone_each(net)):
        assert np.array_equal(found[:, number], own["probes/sum/total"][:, number])
    assert not np.array_equal(found[:, 2], alone_each(net)[0]["probes/sum/total"][:, 2])


def test_features_of_common_weights_are_revived_alike() -> None:
    net = lca_network(images(2))
    revived = net.connections["dictionary"].model_copy(update={"revive": Revive(after=3, init=Gaussian())})
    path = "connections.dictionary.revive.init.std"
    net = net.model_copy(update={"connections": {**net.connections, "dictionary": revived}})
    with pytest.raises(ParamsError, match="belong to all slices"):
        build(net.model_copy(update={"slices": {path: (0.1, 0.2)}}))


def test_slices_with_the_same_values_share_one_plan() -> None:
    net = lca_network(images(3)).model_copy(update={"slices": {"layers.V1.threshold": (0.3, 0.4, 0.3)}})
    plan = schedule(build(net))
    assert plan.of_slice(0) is plan.of_slice(2) is not plan.of_slice(1)


def test_a_params_file_says_them_in_place(small: Path, petabatch: Command) -> None:
    file = small.parent / "slices.toml"
    file.write_text(small.read_text().replace("threshold = 0.3", "threshold = { slices = [0.2, 0.3, 0.5] }"))
    with results.open(alone(file, "one", 'connections.dictionary.mode="shared"')) as run:
        assert run.params["slices"] == {"layers.V1.threshold": [0.2, 0.3, 0.5]}
        active = (run.layer("V1")[-1] != 0).mean(axis=(1, 2, 3))
    assert active[0] > active[1] > active[2]
    two = petabatch("run", file, "--out", "two", "-q", "-s", 'connections.dictionary.mode="shared"', ranks=2)
    assert two.returncode == 0, two.stderr
    assert contents(small.parent / "two" / "run.h5") == contents(small.parent / "one" / "run.h5")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("{slices=[0.5, 0.0]}", "natural_images.toml:[0-9]+: run.kernel: slice 1: this kernel cannot run"),
        ("{at=[1, 3], values=[0.5, 0.0]}", "the values of step 801 need another kernel than those of the"),
    ],
)
def test_check_refuses_values_that_cannot_have_their_kernel_as_run_does(
    tmp_path: Path, values: str, message: str
) -> None:
    text = (Path(__file__).parents[2] / "params" / "natural_images.toml").read_text()
    file = tmp_path / "natural_images.toml"
    file.write_text(text.replace("[run]", '[run]\nkernel = "lazy"'))
    values = f"layers.V1.threshold={values}"
    loaded = params.read(file, ["run.batch=2", values, 'connections.dictionary.mode="shared"'])
    with pytest.raises(ParamsError, match=message) as raised:
        params.check_values(loaded, params.plan(loaded))
    with pytest.raises(ParamsError) as again:
        simulation.run(loaded, tmp_path / "out", quiet=True, mpi=False)
    assert str(again.value) == str(raised.value)


@pytest.mark.parametrize(
    ("path", "values", "message"),
    [
        ("layers.V1.threshold", (0.3, 0.4), "there is not one value for each slice"),
        ("layers.V1.tau", (1.0, -1.0, 1.0), "value 1 (from 0): "),
        ("layers.V1.shape", (1.0, 1.0, 1.0), "this cannot differ among slices"),
        ("layers.V1.treshold", (0.3, 0.4, 0.5), "there is no such key"),
        ("layers.V1.threshold.low", (0.3, 0.4, 0.5), "there is no such key"),
        ("layers.image.source.contrast", (0.3, 0.4, 0.5), "this cannot differ among slices"),
        ("layers.V2.threshold", (0.3, 0.4, 0.5), "there is no layer V2"),
        ("run.display", (3.0, 4.0, 5.0), "this cannot differ among slices"),
        ("connections.dictionary.learn.rate", (0.3, 0.4, 0.5), "belong to all slices"),
        ("connections.dictionary.stride", (0.3, 0.4, 0.5), "there is no such key"),
        ("connections.dictionary.patch", (0.3, 0.4, 0.5), "this cannot differ among slices"),
    ],
)
def test_wrong_tables_are_errors(path: str, values: tuple[float, ...], message: str) -> None:
    with pytest.raises(ParamsError) as raised:
        build(lca_network(images(3)).model_copy(update={"slices": {path: values}}))
    (problem,) = raised.value.problems
    assert problem.key == path
    assert message in problem.message


def test_what_a_learning_rule_starts_from_is_drawn_by_one_rule() -> None:
    net = lca_network(images(3), mode="shared")
    dictionary = net.connections["dictionary"]
    rule = Hebbian(momentum=0.5, previous=Gaussian(std=0.2))
    learns = dictionary.model_copy(update={"learn": rule})
    net = net.model_copy(update={"connections": {**net.connections, "dictionary": learns}})
    path = "connections.dictionary.learn.previous.std"
    for values in ({"slices": {path: (0.1, 0.2, 0.3)}}, {"sweep": Sweep(values={path: (0.1, 0.2)})}):
        with pytest.raises(ParamsError) as raised:
            build(net.model_copy(update=values))
        (problem,) = raised.value.problems
        assert "one rule draws what the learning rule starts from" in problem.message
        assert problem.expected == "a number of the dynamics or of `learn`"
        assert "`learn.previous.per_slice = true`" in problem.hint


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("layers.V2.threshold", "there is no layer V2", "did you mean V1?"),
        ("probes.enrgy.every", "there is no probe enrgy", "did you mean energy?"),
        ("layers.dictionary.patch", "there is no layer dictionary", "did you mean connections.dictionary?"),
        ("layer.V1.threshold", "values may differ among slices for layers", "did you mean layers.V1?"),
        ("layers.V1", "values may differ among slices for layers", ""),
        ("layers", "values may differ among slices for layers", ""),
    ],
)
def test_a_key_path_of_no_part_is_told_with_the_nearest(path: str, message: str, hint: str) -> None:
    with pytest.raises(ParamsError) as raised:
        build(lca_network(images(3)).model_copy(update={"slices": {path: (0.3, 0.4, 0.5)}}))
    (problem,) = raised.value.problems
    assert message in problem.message
    assert problem.hint == hint
