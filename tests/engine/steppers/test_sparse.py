"""Sparse connections: which synapses there are, what they deliver, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import h5py
import numpy as np
import pytest
from scipy import sparse

import petabatch
from petabatch import in_memory
from petabatch.connections import Identity, Sparse
from petabatch.connections.coordinates import read_coordinates
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.engine.step_records import StepRecords
from petabatch.errors import InputError, ParamsError, TableError
from petabatch.layers import Input, LeakyIntegrator, Neurons, Rectified
from petabatch.network.build import build
from petabatch.network.graph import Graph
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.sweep import Sweep
from petabatch.weights import Gaussian, Uniform
from petabatch.weights.random import Constant as ConstantWeights
from support.networks import GivenImages

Mode = Literal["extra_shared", "shared", "non_shared", "extra_non_shared"]
PRE, POST = (3, 4, 5), (3, 4, 7)
DRAWN = Gaussian(std=0.3)


def network(connection: Sparse, post: tuple[int, int, int] = POST, **keys: Any) -> Network:
    """Return a few active units that are joined to a layer, and this to itself."""
    rng = np.random.default_rng(0)
    images = rng.normal(size=(2, 4, *PRE)) * (rng.random((2, 4, *PRE)) < 0.2)
    layers = {
        "image": Input(shape=PRE, source=GivenImages(data=images.astype(np.float32))),
        "seen": Rectified(shape=PRE, threshold=0.1),
        "post": LeakyIntegrator(shape=post, tau=2.0),
    }
    connections = {"see": Identity(pre="image", post="seen"), "sparse": connection}
    run = Run(batch=2, steps=12, display=3, **keys)
    return Network(run=run, layers=layers, connections=connections)


def joined(**keys: Any) -> Sparse:
    given = {"probability": 0.3, "init": DRAWN} | keys
    return Sparse(pre="seen", post="post", strength=0.5, **given)


def final(given: Network, threads: int = 1) -> dict[str, np.ndarray]:
    engine = Engine(schedule(build(given)), Serial(), threads)
    engine.start()
    for _ in drive(engine):
        pass
    engine.collect()
    return {key: array.copy() for key, array in engine.state.arrays.items()}


def matrix(graph: Graph, values: np.ndarray) -> np.ndarray:
    """Return the weights between all pre and post units of connection `sparse`, as a dense matrix."""
    synapses, ends = graph.synapses["sparse"], graph.wirings["sparse"].synapses
    assert ends is not None
    one = sparse.csr_array((values, synapses.targets, synapses.starts), (ends.pre, ends.post_units))
    return np.kron(np.eye(ends.positions), one.toarray())


@pytest.mark.parametrize("mode", ["extra_shared", "shared", "non_shared", "extra_non_shared"])
@pytest.mark.parametrize("delay", [0, 2])
@pytest.mark.parametrize(("precision", "apart"), [("float32", 1e-6), ("float64", 1e-14)])
def test_what_arrives_is_the_sum_over_the_synapses(
    mode: Mode, delay: int, precision: str, apart: float
) -> None:
    given = network(joined(mode=mode, delay_steps=delay), precision=precision)
    state = final(given)
    method = schedule(build(given)).method
    assert method.stepper == "program"
    assert not method.program.interpreted
    # The reference in float64, and by hand with a dense matrix.
    reference = final(network(joined(mode=mode, delay_steps=delay), kernel="array", precision="float64"))
    np.testing.assert_allclose(state["layers/post/A"], reference["layers/post/A"], rtol=0, atol=apart)
    weights = state["connections/sparse/weights"]
    assert len(weights) == (1 if mode.startswith("extra_") else 2)
    images = given.layers["image"].source.data  # type: ignore[attr-defined]
    for number in range(2):
        dense = matrix(build(given), weights[number % len(weights)])
        expected = np.zeros(np.prod(POST))
        for step in range(1, 13):
            seen = step - delay
            image = images[number, (seen - 1) // 3] if seen > 0 else np.zeros(PRE)
            active = np.where(image > 0.1, image, 0).reshape(-1)
            expected = np.exp(-0.5) * expected + 0.5 * active @ dense
        np.testing.assert_allclose(state["layers/post/A"][number, 0].reshape(-1), expected, atol=1e-5)


def test_bits_depend_on_no_thread_and_no_other_slice() -> None:
    both, alone = final(network(joined()), threads=2), final(network(joined()), threads=1)
    for key, array in both.items():
        assert array.tobytes() == alone[key].tobytes(), key


def test_each_synapse_is_there_with_the_probability() -> None:
    graph = build(network(joined(probability=0.3), post=(30, 40, 7)))
    count, possible = len(graph.synapses["sparse"].targets), 60 * 8400
    assert abs(count / possible - 0.3) < 5 * (0.3 * 0.7 / possible) ** 0.5
    other = build(network(joined(probability=0.3), post=(30, 40, 7), seed=2))
    assert not np.array_equal(graph.synapses["sparse"].starts, other.synapses["sparse"].starts)


def test_in_degree_is_the_number_of_different_pre_units_of_each_post_unit() -> None:
    graph = build(network(joined(probability=None, in_degree=6)))
    dense = matrix(graph, np.ones(len(graph.synapses["sparse"].targets)))
    assert dense.shape == (60, 84)
    assert dense.max() == 1
    assert (dense.sum(axis=0) == 6).all()


@pytest.mark.parametrize("dense", [np.eye(3), np.ones((5, 3)), np.eye(4, 3)])
def test_a_dense_matrix_is_not_taken_for_edges(dense: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"may be a dense matrix(.|\n)*coo_array"):
        Sparse(pre="n", post="n", target="v", matrix=dense)
    Sparse(pre="n", post="n", target="v", matrix=np.array([[0, 1, 0.5], [1, 0, 0.2]]))


@pytest.mark.parametrize("kind", ["coo", "csr", "csc", "arrays"])
def test_a_matrix_is_read_from_a_file(tmp_path: Path, kind: str) -> None:
    entries = sparse.random_array((60, 84), density=0.1, rng=np.random.default_rng(1), format="coo")
    file = tmp_path / "synapses.npz"
    if kind == "arrays":
        np.savez(file, row=entries.coords[0], col=entries.coords[1], data=entries.data)
    else:
        sparse.save_npz(file, entries.asformat(kind))
    graph = build(network(joined(probability=None, init=None, path=str(file))))
    weights = graph.synapses["sparse"].first.given
    assert weights is not None
    np.testing.assert_array_equal(matrix(graph, weights), entries.toarray())
    state = final(network(joined(probability=None, init=None, path=str(file))))
    np.testing.assert_array_equal(state["connections/sparse/weights"][0], weights.astype("f4"))


def wrong(**keys: Any) -> str:
    """Return what is said of a connection that cannot be built."""
    with pytest.raises((ParamsError, TableError)) as error:
        build(network(joined(**keys)))
    return str(error.value)


@pytest.mark.parametrize("kernel", ["auto", "array"])
@pytest.mark.parametrize("delays", [None, 0.2])
def test_a_random_network_without_synapses_is_one_without_the_connection(kernel: str, delays: Any) -> None:
    mode = "non_shared"
    empty = joined(probability=0.0, delays=delays, mode=mode)
    alone = network(empty, kernel=kernel)
    without = alone.model_copy(update={"connections": {"see": alone.connections["see"]}})
    found, expected = final(alone), final(without)
    assert found["connections/sparse/targets"].shape == (1, 0)
    np.testing.assert_array_equal(found["layers/post/A"], expected["layers/post/A"])
    # In a sweep of connectivity it is the control; all points have room for the most synapses.
    sweep = Sweep(connections={"sparse": {"probability": [0.0, 0.3, 0.0]}})
    swept = final(alone.model_copy(update={"sweep": sweep}))["layers/post/A"]
    some = final(network(joined(delays=delays, mode=mode), kernel=kernel))["layers/post/A"]
    assert some.any()
    for point, own in enumerate((found["layers/post/A"], some, found["layers/post/A"])):
        np.testing.assert_array_equal(swept[2 * point : 2 * point + 2], own)


def test_a_run_without_synapses_is_resumed(tmp_path: Path) -> None:
    units = Neurons(shape=(1, 2, 2), equations="dv/dt = 2 - v", spike="v > 1", reset="v = 0")
    nothing = Sparse(pre="n", post="n", target="v", probability=0.0, delays=0.2, init=DRAWN)
    given = Network(run=Run(steps=12, dt=0.1), layers={"n": units}, connections={"c": nothing})
    petabatch.run(given, out=tmp_path / "whole", quiet=True)
    part = given.model_copy(update={"run": given.run.model_copy(update={"steps": 5})})
    petabatch.run(part, out=tmp_path / "part", quiet=True)
    start = given.run.model_copy(update={"start_from": str(tmp_path / "part")})
    petabatch.run(given.model_copy(update={"run": start}), out=tmp_path / "again", quiet=True)
    whole, again = (petabatch.Simulator.from_run(tmp_path / name).save() for name in ("whole", "again"))
    assert whole.step == again.step == 12
    for key, array in whole.arrays.items():
        np.testing.assert_array_equal(again.arrays[key], array)


def test_mistakes_are_explained(tmp_path: Path) -> None:
    assert "it is not clear which synapses there are" in wrong(in_degree=3)
    assert "the weights of the synapses are missing" in wrong(init=None)
    assert "expected: at most 60, the units of seen" in wrong(probability=None, in_degree=61)
    assert "expected: at most 5, the features of seen" in wrong(
        probability=None, in_degree=6, mode="extra_shared"
    )
    file = tmp_path / "other.npz"
    sparse.save_npz(file, sparse.eye_array(60).tocsr())
    assert "connections.sparse.path" in wrong(probability=None, path=str(file))
    assert "found:    shape [60, 60], rows 0 to 59, columns 0 to 59" in wrong(
        probability=None, path=str(file)
    )
    np.savez(file, numbers=np.ones(3))
    assert "this is no sparse matrix" in wrong(probability=None, path=str(file))
    sparse.save_npz(file, sparse.dia_array(np.eye(60, 84)))
    assert "this is no sparse matrix" in wrong(probability=None, path=str(file))
    file.write_bytes(file.read_bytes()[:100])
    assert "this file cannot be read" in wrong(probability=None, path=str(file))
    np.savez(file, row=np.array([0, 60], np.uint32), col=[1, 2], data=[1.0, 2.0])
    assert "found:    rows 0 to 60, columns 1 to 2\n" in wrong(probability=None, path=str(file))
    np.savez(file, row=[0, 1], col=[1, 2], data=[1.0, np.nan])
    assert "some weights are missing or not finite" in wrong(probability=None, path=str(file))


ONE = {"indices": [0], "data": [1.0], "format": "csr"}
ODD: dict[str, dict[str, Any]] = {
    "rows and columns of a table": {"row": [[0, 1]], "col": [[1, 2]], "data": [[1.0, 2.0]]},
    "numbers": {"row": 0, "col": 1, "data": 1.0},
    "words": {"row": ["a"], "col": [1], "data": [1.0]},
    "fractions": {"row": [0.0], "col": [1], "data": [1.0]},
    "a shape that is a number": {"row": [0], "col": [1], "data": [1.0], "shape": 4},
    "a shape of words": {"row": [0], "col": [1], "data": [1.0], "shape": ["a", "b"]},
    "no text": {**ONE, "format": np.array(b"cs\xff"), "indptr": [0, 1]},
    "two formats": {**ONE, "format": ["csr", "csc"], "indptr": [0, 1]},
    "blocks": {**ONE, "format": "bsr", "indptr": [0, 1], "data": [[[1.0]]]},
    "ends that descend": {**ONE, "indptr": [0, 3, 1]},
    "ends beyond the entries": {**ONE, "indptr": [0, 1 << 60]},
    "ends that are fractions": {**ONE, "indptr": [0, 1.0]},
    "ends in a table": {**ONE, "indptr": [[0, 1]]},
}


@pytest.mark.parametrize("odd", ODD)
def test_an_archive_of_other_arrays_is_no_sparse_matrix(tmp_path: Path, odd: str) -> None:
    np.savez(tmp_path / "odd.npz", **ODD[odd])
    with pytest.raises(InputError, match=r"odd\.npz: this is no sparse matrix"):
        read_coordinates(str(tmp_path / "odd.npz"), 4, 5)


MATRIX = {"row": [0, 1], "col": [1, 2], "data": [1.0, 2.0]}
COMPRESSED = {
    "indices": [1, 2],
    "indptr": [0, 1, 2, 2, 2],
    "data": [1.0, 2.0],
    "shape": [4, 5],
    "format": "csr",
}


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (MATRIX | {"delays": [0.1, 0.2]}, r"delays(.|\n)*did you mean delay\?"),
        (COMPRESSED | {"delay": [0.1, 0.2]}, "no use for one of its arrays(.|\n)*found: +delay"),
        (MATRIX | {"w": [3.0, 4.0]}, "two arrays of the same numbers(.|\n)*found: +data"),
    ],
)
def test_an_array_that_would_not_be_read_is_refused(tmp_path: Path, arrays: Any, message: str) -> None:
    np.savez(tmp_path / "odd.npz", **arrays)
    with pytest.raises(InputError, match=message):
        read_coordinates(str(tmp_path / "odd.npz"), 4, 5)
    read = {name: array for name, array in arrays.items() if name not in ("delays", "delay", "w")}
    np.savez(tmp_path / "even.npz", **read)
    assert read_coordinates(str(tmp_path / "even.npz"), 4, 5).weights.tolist() == [1, 2]


def test_a_file_of_another_kind_is_named_with_what_makes_a_matrix_of_it(tmp_path: Path) -> None:
    np.savetxt(tmp_path / "a.csv", [[0, 1, 1.0]], delimiter=",")
    np.save(tmp_path / "a.npy", np.eye(3))
    (tmp_path / "a.mtx").write_text("%%MatrixMarket matrix coordinate real general\n1 1 1\n1 1 2.0\n")
    (tmp_path / "a.npz").write_bytes(b"\x80\x04 a pickle")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["a"] = np.eye(3)
    for name, found, hint in (
        ("a.csv", "a text file", "numpy.loadtxt"),
        ("a.npy", "a .npy file", "scipy.sparse.save_npz"),
        ("a.mtx", "a file of Matrix Market", "scipy.io.mmread"),
        ("a.h5", "an HDF5 file", "numpy.savez"),
        ("a.npz", "another format", ""),
    ):
        with pytest.raises(
            InputError, match=rf"{name}: this is not a .npz file\n    found:    {found}"
        ) as raised:
            read_coordinates(str(tmp_path / name), 3, 3)
        assert hint in str(raised.value)
        assert "pickle" not in str(raised.value)


def test_a_damaged_matrix_is_an_error_or_another_matrix(tmp_path: Path) -> None:
    file, rng = tmp_path / "synapses.npz", np.random.default_rng(0)
    sparse.save_npz(file, sparse.random_array((40, 50), density=0.2, rng=rng, format="csr"))
    whole = np.fromfile(file, np.uint8)
    refused = 0
    for _ in range(300):
        damaged = whole.copy()
        damaged[rng.integers(0, whole.size, 3)] ^= rng.integers(1, 256, 3, np.uint8)
        damaged.tofile(file)
        try:
            read_coordinates(str(file), 40, 50)
        except InputError:
            refused += 1
    assert refused > 200


@pytest.mark.parametrize("which", [{"probability": 0.3}, {"probability": None, "in_degree": 6}])
def test_a_sweep_over_seeds_is_refused_where_synapses_are_drawn(which: dict[str, Any]) -> None:
    sweep = Sweep(run={"seed": [1, 2]})
    with pytest.raises(ParamsError, match="drawn from one seed") as raised:
        build(network(joined(**which)).model_copy(update={"sweep": sweep}))
    assert raised.value.problems[0].key == "sweep.run.seed"


def test_weights_of_slices_start_apart_where_they_are_to() -> None:
    apart = Gaussian(std=0.3, per_slice=True)
    weights = final(network(joined(mode="non_shared", init=apart)))["connections/sparse/weights"]
    assert not np.array_equal(weights[0], weights[1])
    assert "these weights belong to all slices" in wrong(init=apart)


@pytest.mark.parametrize("mode", ["non_shared", "extra_non_shared"])
def test_the_rule_that_weights_start_from_cannot_differ_among_slices(mode: str) -> None:
    net = network(joined(mode=mode, init=Gaussian(std=0.3)))
    values = {"connections.sparse.init.std": (0.1,) * net.run.batch}
    with pytest.raises(ParamsError) as raised:
        build(net.model_copy(update={"slices": values}))
    (problem,) = raised.value.problems
    assert "weights are initialised and normalised by one rule" in problem.message
    assert problem.expected == "a number of the dynamics"
    assert "per_slice = true" in problem.hint


def test_features_are_joined_where_positions_are_the_same() -> None:
    with pytest.raises(ParamsError, match="synapses between features need the same positions"):
        build(network(joined(mode="shared"), post=(6, 4, 7)))


@pytest.mark.parametrize("every", [1, 3])
def test_spikes_are_recorded_from_lists_as_they_are_from_all_units(every: int) -> None:
    units = Neurons(shape=(1, 70, 1), equations="dv/dt = (1.5 - v) / 3", spike="v > 1", reset="v = 0",
                    start={"v": Uniform(per_slice=True)})  # fmt: skip
    joined = Sparse(
        pre="n", post="n", target="v", probability=0.1, delay_steps=4, init=ConstantWeights(value=0.25)
    )
    output = Output(layers={"n": LayerOutput(every=every, variables=("A", "v"))})
    given = Network(
        run=Run(batch=2, steps=40, display=10), layers={"n": units}, connections={"nn": joined}, output=output
    )
    plan = schedule(build(given))
    assert StepRecords.of(plan).listed == {0: "n"}
    found = in_memory.run(given).recorded
    arrays = given.model_copy(update={"run": given.run.model_copy(update={"kernel": "array"})})
    expected = in_memory.run(arrays).recorded
    assert np.count_nonzero(expected["layers/n/A"]) > 20
    np.testing.assert_array_equal(found["layers/n/A"], expected["layers/n/A"])
    np.testing.assert_allclose(found["layers/n/v"], expected["layers/n/v"], atol=1e-5)
