"""Weights of single synapses: recorded, read back, written to files, and started from them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import petabatch
from petabatch import Network, in_memory
from petabatch.connections import Sparse
from petabatch.errors import ArgumentError, InputFileError, NonFiniteError, ParamsError, StoppedEarly
from petabatch.layers import Neurons, Poisson
from petabatch.petavision.export import export
from petabatch.plotting.weights import weights
from petabatch.session import RunSession
from petabatch.spec.sweep import Sweep
from petabatch.spec.weights import Initial
from petabatch.waves import index
from petabatch.weights import Uniform
from petabatch.weights.given import WeightArray, WeightFile
from support.commands import Command

PRE, POST = (1, 4, 5), (1, 4, 2)
FORMATS: tuple[Literal["hdf5", "zarr"], ...] = ("hdf5", "zarr")
EVERY = {"c": {"every": "10 steps"}}


TOML = (
    "[run]\nsteps = 20\ndt = 0.1\nbatch = 3\n"
    '[layers.g]\ntype = "poisson"\nshape = [1, 4, 5]\nrate = 2.0\n'
    '[layers.n]\ntype = "neurons"\nshape = [1, 4, 2]\nequations = "dv/dt = -v / 10"\nspike = "v > 1"\n'
    'reset = "v = 0"\n[connections.c]\ntype = "sparse"\npre = "g"\npost = "n"\ntarget = "v"\n'
    'probability = 0.3\nper_slice = true\nmode = "non_shared"\n'
    'init = { type = "uniform", low = 0.1, high = 1.0, per_slice = true }\n'
    'delays = { type = "uniform", low = 0.0, high = 0.5 }\n'
    '[output.connections.c]\nevery = "10 steps"\n'
)


def network(output: Any = EVERY, run: Any = None, format: str = "hdf5", **keys: Any) -> Network:
    """Return units that fire at random, joined to others by delayed synapses."""
    given = {
        "probability": 0.3,
        "init": Uniform(low=0.1, high=1.0),
        "delays": Uniform(low=0.0, high=0.5),
        "mode": "non_shared",
    } | keys
    return Network(
        run={"steps": 20, "dt": 0.1, "batch": 3, "display": 5} | (run or {}),
        layers={
            "g": Poisson(shape=PRE, rate=2.0),
            "n": Neurons(shape=POST, equations="dv/dt = -v / 10", spike="v > 1", reset="v = 0"),
        },
        connections={"c": Sparse(pre="g", post="n", target="v", **given)},
        output={
            "connections": output,
            "layers": {"n": {"variables": ["spikes", "v"], "every": 1}},
            "format": format,
        },
    )


def same(a: Any, b: Any) -> None:
    for name in ("i", "j", "w", "delay"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


KINDS = {
    "of all": {"mode": "extra_non_shared"},
    "of each": {"mode": "non_shared", "init": Uniform(low=0.1, high=1.0, per_slice=True)},
    "others in each": {"mode": "non_shared", "per_slice": True},
    "of features": {"mode": "extra_shared"},
    "of features, of each": {"mode": "shared", "per_slice": True},
    "without delays": {"delays": None},
}


@pytest.mark.parametrize("kind", KINDS)
def test_they_are_those_of_the_state(kind: str) -> None:
    net = network(**KINDS[kind])
    run = in_memory.run(net)
    with petabatch.Simulator(net) as sim:
        arrays = {name: np.array(sim["c"][name]) for name in ("starts", "targets", "weights")}
        late = np.array(sim["c"]["delays"]) if "delays" in sim["c"] else None
        for number in range(3):
            found = run.synapses("c", slice=number)
            own = {name: array[number % len(array)] for name, array in arrays.items()}
            count = own["starts"][-1]
            places = 1 if "non" in net.connections["c"].mode else PRE[1]
            assert len(found) == count * places
            assert found.size == (20, 8)
            for place in range(places):
                part = slice(place * count, (place + 1) * count)
                units = found.i[part] - place * (20 // places)
                starts = np.searchsorted(units, np.arange(len(own["starts"])))
                np.testing.assert_array_equal(starts, own["starts"])
                np.testing.assert_array_equal(found.j[part] - place * (8 // places), own["targets"][:count])
                np.testing.assert_array_equal(found.w[part], own["weights"][:count])
                steps = np.zeros(count) if late is None else late[number % len(late), :count]
                np.testing.assert_allclose(found.delay[part], 0.1 * steps, rtol=1e-12)
            same(found, sim.synapses("c", slice=number))


@pytest.mark.parametrize("format", FORMATS)
def test_a_run_on_disk_has_them_at_each_time(tmp_path: Path, format: str) -> None:
    petabatch.run(network(per_slice=True, format=format), out=tmp_path / "run", quiet=True)
    with petabatch.open(tmp_path / "run") as run:
        assert run.weights("c").steps.tolist() == [0, 10, 20]
        assert run["connections/c/starts"].steps.tolist() == [0, 20]
        assert run.weights("c").dims == ("time", "batch", "synapse")
        for step in (0, 10, 20):
            assert run.synapses("c", step=step).step == step
        same(
            run.synapses("c", step=10, slice=-1),
            in_memory.run(network(per_slice=True)).synapses("c", slice=2),
        )


def test_what_was_not_recorded_is_said() -> None:
    run = in_memory.run(network(output={}))
    with pytest.raises(petabatch.errors.UnknownName, match="no connection named c was recorded"):
        run.synapses("c")
    with pytest.raises(ParamsError, match="only patches have a `usage`") as raised:
        in_memory.run(network(output={"c": {"variables": ["weights", "usage"]}}))
    assert len(raised.value.problems) == 1
    run = in_memory.run(network(output={"c": {"every": "never"}}))
    assert not [name for name in run if name.startswith("connections/")]


@pytest.mark.parametrize("suffix", [".npz", ".csv"])
def test_a_file_of_them_makes_the_same_network(tmp_path: Path, suffix: str) -> None:
    net = network(mode="extra_non_shared")
    run = in_memory.run(net)
    table, path = run.synapses("c"), tmp_path / f"c{suffix}"
    table.save(path)
    with pytest.raises(ArgumentError, match="there is such a file"):
        table.save(path)
    given: Any = {"path": str(path)}
    if suffix == ".csv":
        i, j, w, delay = np.loadtxt(path, delimiter=",", skiprows=1).T
        given = {"matrix": (i.astype(int), j.astype(int), w, delay)}
    again = in_memory.run(network(mode="extra_non_shared", probability=None, init=None, delays=None, **given))
    same(table, again.synapses("c"))
    np.testing.assert_array_equal(again["layers/n/v"][...], run["layers/n/v"][...])
    assert again["layers/n/v"][...].any()


def test_tables_of_other_libraries_have_them() -> None:
    table = in_memory.run(network()).synapses("c")
    frame = table.to_pandas()
    assert list(frame) == ["i", "j", "w", "delay"]
    assert frame.w.tolist() == table.w.tolist()
    dense = table.to_scipy().toarray()
    np.testing.assert_array_equal(dense[table.i, table.j], table.w)
    assert np.count_nonzero(dense) == len(table)


@pytest.mark.parametrize("per_slice", [False, True])
def test_weights_start_from_those_of_a_run(tmp_path: Path, per_slice: bool) -> None:
    first = network(per_slice=per_slice, init=Uniform(low=5.0, high=6.0, per_slice=True))
    petabatch.run(first, out=tmp_path / "run", quiet=True)
    taken = WeightFile(path=str(tmp_path / "run"), connection="c", per_slice=True)
    then = in_memory.run(network(per_slice=per_slice, init=taken))
    with petabatch.open(tmp_path / "run") as run:
        for number in range(3):
            same(then.synapses("c", slice=number), run.synapses("c", slice=number))
    others: Any = {"probability": None, "in_degree": 6}
    for keys in ({"run": {"seed": 9}}, {"run": {"seed": 9}, **others}, others):  # as many, or not
        with pytest.raises(InputFileError, match=r"connections\.c\.init.*of other synapses.*") as raised:
            in_memory.run(network(per_slice=per_slice, init=taken, **keys))
        assert "run.seed and the rule must be those of that run" in str(raised.value)
    with pytest.raises(InputFileError, match="these weights do not fit the connection"):
        in_memory.run(network(per_slice=per_slice, init=taken, run={"batch": 5}))
    for mode in ("non_shared", "extra_non_shared")[: 1 if per_slice else 2]:
        alike = taken.model_copy(update={"per_slice": False})
        with pytest.raises(InputFileError, match="per_slice = true, if its first axis is the batch"):
            in_memory.run(network(per_slice=per_slice, init=alike, mode=mode))


def test_weights_of_as_many_other_synapses_are_refused(tmp_path: Path) -> None:
    keys: Any = {"mode": "extra_non_shared", "probability": None, "in_degree": 6}
    petabatch.run(network(**keys), out=tmp_path / "run", quiet=True)
    taken = WeightFile(path=str(tmp_path / "run"), connection="c")
    in_memory.run(network(**keys | {"init": taken}))
    with pytest.raises(InputFileError, match="these weights are of other synapses") as raised:
        in_memory.run(network(**keys | {"init": taken}, run={"seed": 9}))
    assert "connections.c.init" in str(raised.value)


def test_weights_start_from_arrays() -> None:
    net = network(mode="extra_non_shared", probability=None, in_degree=6)
    values = np.linspace(0.5, 1.0, 48).astype(np.float32)
    keys: Any = {"mode": "extra_non_shared", "probability": None, "in_degree": 6}
    run = in_memory.run(network(**keys, init=WeightArray(data=values)))
    np.testing.assert_array_equal(run.synapses("c").w, values)
    np.testing.assert_array_equal(run.synapses("c").i, in_memory.run(net).synapses("c").i)


def test_a_run_that_starts_from_another_has_its_synapses(tmp_path: Path) -> None:
    petabatch.run(network(per_slice=True), out=tmp_path / "a", quiet=True)
    more = network(per_slice=True, run={"steps": 40, "start_from": str(tmp_path / "a")})
    petabatch.run(more, out=tmp_path / "b", quiet=True)
    with petabatch.open(tmp_path / "a") as a, petabatch.open(tmp_path / "b") as b:
        for number in range(3):
            same(a.synapses("c", slice=number), b.synapses("c", slice=number))


SEEDS = {"run": {"seed": [1, 2, 3, 4]}}
SWEPT: dict[str, Any] = {
    "seeds": (SEEDS, {}),
    "seeds, exact": (SEEDS, {"probability": None, "in_degree": 5}),
    "probabilities": ({"connections": {"c": {"probability": [0.1, 0.5, 0.9]}}}, {}),
    "strengths": ({"connections": {"c": {"strength": [0.1, 0.5]}}}, {"mode": "extra_non_shared"}),
}


@pytest.mark.parametrize("kind", SWEPT)
@pytest.mark.parametrize("wave", [None, 1, 2])
def test_points_of_a_sweep_have_those_of_single_runs(tmp_path: Path, kind: str, wave: int | None) -> None:
    tables, keys = SWEPT[kind]
    net = network(**keys)
    table = Sweep(**tables, wave=wave)
    petabatch.run(net.model_copy(update={"sweep": table}), out=tmp_path / "run", quiet=True)
    ((path, values),) = table.columns.items()
    with petabatch.open(tmp_path / "run") as run:
        for point, value in enumerate(values):
            if path == "run.seed":
                alone = in_memory.run(network(**keys, run={"seed": int(value)}))
            else:
                alone = in_memory.run(network(**keys | {path.split(".")[2]: value}))
            for number in range(3):
                same(run.synapses("c", slice=3 * point + number), alone.synapses("c", slice=number))


@pytest.mark.parametrize(("first", "then"), [([0.1, 0.2], [0.9, 0.1, 0.2]), ([0.1, 0.9], [0.3, 0.1])])
@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("stored", ["at once", "in blocks", "in chunks"])
def test_points_of_a_sweep_that_is_extended_have_room_for_theirs(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    first: list[float],
    then: list[float],
    format: str,
    stored: str,
) -> None:
    """Points with more synapses than those before, or fewer: files of points have other widths."""
    if stored == "in chunks":  # of more than 4 KiB
        monkeypatch.setattr(sys.modules[__name__], "PRE", (1, 200, 5))
    if stored == "in blocks":
        monkeypatch.setattr(index, "_AT_ONCE", 0)
        monkeypatch.setattr(index, "_BLOCK", 1 << 10)

    def swept(out: str, values: list[float], **keys: bool) -> None:
        points = Sweep(connections={"c": {"probability": values}})
        net = network(format=format).model_copy(update={"sweep": points})
        petabatch.run(net, out=tmp_path / out, quiet=True, **keys).close()

    swept("run", first)
    swept("run", then, extend=True)
    swept("whole", then)
    with petabatch.open(tmp_path / "run") as run, petabatch.open(tmp_path / "whole") as whole:
        assert list(run) == list(whole)
        for name in whole:
            np.testing.assert_array_equal(run[name][...], whole[name][...], err_msg=name)


@pytest.mark.parametrize("per_slice", [False, True])
def test_slices_of_a_pool_have_those_of_a_batch(tmp_path: Path, per_slice: bool) -> None:
    net = network(per_slice=per_slice, run={"batch": 5})
    petabatch.run(
        network(per_slice=per_slice, run={"batch": 5, "pool": True}), out=tmp_path / "run", quiet=True
    )
    alone = in_memory.run(net)
    with petabatch.open(tmp_path / "run") as run:
        for number in range(5):
            same(run.synapses("c", slice=number), alone.synapses("c", slice=number))


@pytest.mark.mpi
def test_ranks_write_what_one_does(tmp_path: Path, petabatch: Command) -> None:
    toml = tmp_path / "net.toml"
    toml.write_text(TOML)
    found = []
    for ranks in (1, 2, 3):
        out = tmp_path / str(ranks)
        assert petabatch("run", toml, "-o", out, "-q", ranks=ranks).returncode == 0
        with _open(out) as run:
            found.append([run.synapses("c", slice=number, step=10) for number in range(3)])
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            same(a, b)


_open = petabatch.open


def test_a_run_that_is_resumed_has_those_of_one(tmp_path: Path) -> None:
    file, whole, parts = (tmp_path / name for name in ("net.toml", "whole", "parts"))
    file.write_text(TOML.replace("[output.", "[output]\nflush = 10\n[output."))
    petabatch.run(petabatch.load(file), out=whole, quiet=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunSession, "_out_of_time", lambda self: True)
        with pytest.raises(StoppedEarly):
            petabatch.run(petabatch.load(file), out=parts, quiet=True)
    with petabatch.open(parts) as run:
        assert run.synapses("c").step == 10
    petabatch.resume(parts, quiet=True).close()
    with petabatch.open(whole) as a, petabatch.open(parts) as b:
        assert list(a) == list(b)
        for name in a:
            np.testing.assert_array_equal(a[name][...], b[name][...], err_msg=name)
            np.testing.assert_array_equal(a[name].steps, b[name].steps, err_msg=name)


def test_weights_that_are_assigned_are_recorded_from_then_on() -> None:
    with petabatch.Simulator(network(mode="extra_non_shared")) as sim:
        sim.step(10)
        before = sim.synapses("c").w
        sim["c"]["weights"] = 0.25
        assert (sim.synapses("c").w == 0.25).all()
        with pytest.raises(ArgumentError, match="not finite"):
            sim["c"]["weights"] = np.nan
        sim.step(10)
        run = sim.results
        np.testing.assert_array_equal(run.synapses("c", step=10).w, before)
        assert (run.synapses("c", step=20).w == 0.25).all()
        with pytest.raises(petabatch.errors.UnknownName):
            sim.synapses("n")
        with pytest.raises(ArgumentError, match="this rank does not have it"):
            sim.synapses("c", slice=3)
        with pytest.raises(ArgumentError, match="found:    -4\n"):
            sim.synapses("c", slice=-4)


def test_weights_that_are_not_finite_are_named() -> None:
    with pytest.raises(NonFiniteError, match="c of slice 0 is not finite at step 0") as raised:
        in_memory.run(network(init=Wrong()))
    assert "weights of connection c" in str(raised.value)
    assert "see connections.c.init" in str(raised.value)


class Wrong(Initial):
    """Values that are none."""

    type: Literal["wrong_weights"] = "wrong_weights"

    def weights(self, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
        return np.full(shape, np.nan)


def test_they_are_exported_and_drawn(tmp_path: Path) -> None:
    petabatch.run(network(per_slice=True), out=tmp_path / "run", quiet=True)
    files = [path.name for path, _ in export(tmp_path / "run", tmp_path / "out")]
    assert {f"c_batchElement_{number}.npz" for number in range(3)} <= set(files)
    with petabatch.open(tmp_path / "run") as run:
        for number in range(3):
            again = network(
                mode="extra_non_shared", probability=None, init=None, delays=None,
                path=str(tmp_path / "out" / f"c_batchElement_{number}.npz"),
            )  # fmt: skip
            same(run.synapses("c", slice=number), in_memory.run(again).synapses("c"))
            figure = weights(run, slice=number)
            assert f"{len(run.synapses('c', slice=number))} synapses" in figure.axes[0].get_title(loc="left")
