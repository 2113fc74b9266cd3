"""Arrays of other libraries: taken as they are, and returned as they came."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import petabatch
from petabatch import Simulator, in_memory
from petabatch.arrays import as_numpy
from petabatch.connections import Sparse
from petabatch.errors import ArgumentError, ParamsError, TableError
from petabatch.layers import LCA, Input, Linear
from petabatch.sources import ImageArray, Images
from petabatch.spec.network import Network, Run
from support.networks import images, lca_network

RNG = np.random.default_rng(0)
DATA = RNG.random((5, 8, 8, 3)).astype(np.float32)
DICTIONARY = RNG.normal(size=(6, 4, 4, 3))


def _torch(array: np.ndarray) -> Any:
    return pytest.importorskip("torch", reason="torch is not installed").asarray(np.array(array))


def _jax(array: np.ndarray) -> Any:
    return pytest.importorskip("jax.numpy", reason="JAX is not installed").asarray(array)


def _strict(array: np.ndarray) -> Any:
    return pytest.importorskip("array_api_strict", reason="array-api-strict is not installed").asarray(array)


class Exporting:
    """An array that only DLPack can read."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.__dlpack_device__ = array.__dlpack_device__

    def __dlpack__(self, **options: Any) -> Any:
        return self.array.__dlpack__(**options)


class OnDevice:
    """An array as CuPy's: numpy cannot read it, but its copy on the host."""

    dtype, shape = np.dtype("float32"), DATA.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        raise TypeError("Implicit conversion to a NumPy array is not allowed")

    def get(self) -> np.ndarray:
        return DATA


LIBRARIES = [_torch, _jax, _strict]
library = pytest.mark.parametrize("made", LIBRARIES, ids=lambda made: made.__name__.strip("_"))


@library
def test_arrays_of_a_library_are_coded_and_the_codes_are_of_this_library(made: Callable[..., Any]) -> None:
    expected = petabatch.encode(DATA, DICTIONARY, 0.3, stride=2, threads=1)
    codes = petabatch.encode(made(DATA), made(DICTIONARY.astype("f4")), 0.3, stride=2, threads=1)
    for name in ("activity", "gap", "steps", "active"):
        assert type(getattr(codes, name)) is type(made(DATA)), name
    np.testing.assert_allclose(np.asarray(codes), np.asarray(expected), atol=1e-5)
    first = petabatch.encode(
        made(np.moveaxis(DATA, -1, 1)),
        made(np.moveaxis(DICTIONARY, -1, 1).astype("f4")),
        0.3,
        stride=2,
        axes="oihw",
        channels="first",
        threads=1,
    )
    np.testing.assert_array_equal(np.moveaxis(np.asarray(first), 1, -1), np.asarray(codes))
    assert repr(first).startswith("<codes of 5 images, [6, 4, 4] each: ")
    several = petabatch.encode([made(one) for one in DATA], DICTIONARY, 0.3, stride=2, threads=1)
    assert type(several.activity) is type(made(DATA))
    np.testing.assert_array_equal(np.asarray(several), np.asarray(expected))


@library
def test_arrays_of_a_library_are_shown_and_assigned(made: Callable[..., Any]) -> None:
    net = lca_network(images(2))
    shown, potential = RNG.random((2, 12, 16, 3)).astype("f4"), RNG.random((2, 6, 8, 12)).astype("f4")
    with Simulator(net, threads=1) as sim:
        sim.show("image", made(np.moveaxis(shown, -1, 1)), channels="first")
        sim["V1"]["V"] = made(potential)
        sim["V1"]["V"][0, 1] = made(potential[1, 0])
        sim["V1"]["threshold"] = made(np.array([0.25, 0.5], "f4"))
        expected = potential.copy()
        expected[0, 1] = potential[1, 0]
        np.testing.assert_array_equal(sim["V1"]["V"], expected)
        np.testing.assert_array_equal(sim["V1"]["threshold"], [0.25, 0.5])
        sim.step()
        np.testing.assert_array_equal(sim["image"]["A"], shown)


@library
def test_arrays_of_a_library_are_images_weights_and_numbers_of_a_network(made: Callable[..., Any]) -> None:
    source = ImageArray(data=made(np.moveaxis(DATA, -1, 1)), channels="first")
    assert source == ImageArray(data=np.moveaxis(DATA, -1, 1), channels="first")
    np.testing.assert_array_equal(source.open((8, 8, 3), 1, 1)(0, 2), DATA[2])
    layer = LCA(shape=made(np.array([2, 3, 4])), threshold=made(np.array(0.5, "f4")))
    assert (layer.shape, layer.threshold) == ((2, 3, 4), 0.5)
    assert type(layer.threshold) is float


def test_what_numpy_cannot_see_is_copied_from_its_device() -> None:
    np.testing.assert_array_equal(as_numpy("x", Exporting(DATA)), DATA)
    np.testing.assert_array_equal(as_numpy("x", OnDevice()), DATA)


def test_tensors_that_need_gradients_and_masked_values_are_refused() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    needing = torch.ones(2, 8, 8, 3, requires_grad=True)
    for value in (needing, [needing[0], needing[1]]):
        with pytest.raises(ArgumentError, match=r"(?s)images.*requires gradients.*tensor.detach\(\)"):
            petabatch.encode(value, DICTIONARY, 0.3, stride=2)
    with pytest.raises(ArgumentError, match=r"(?s)^x: .*BFloat16.*torch.bfloat16 \[2\].*float32"):
        as_numpy("x", torch.ones(2, dtype=torch.bfloat16))


def test_masked_values_are_refused_and_an_empty_mask_is_none() -> None:
    masked = np.ma.masked_less(DATA, 0.5)
    for use in (
        lambda: petabatch.encode(masked, DICTIONARY, 0.3, stride=2),
        lambda: ImageArray(data=masked),
        lambda: as_numpy("x", [masked[0], masked[1]]),
    ):
        with pytest.raises((ArgumentError, TableError), match=r"(?s)some values are masked.*array.filled"):
            use()
    np.testing.assert_array_equal(as_numpy("x", np.ma.masked_less(DATA, -1)), DATA)


@pytest.mark.parametrize(
    "value", [None, "text", {}, {"a": 1}, object(), 1j, [DATA[0], DATA[0, :5]], [[1], [2, 3]], {1}]
)
def test_what_is_no_array_is_named(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)^name.*found: .*expected: an array of numbers"):
        as_numpy("name", value)


class Endless:
    """A data set as those of torch: it has a length, and an item for any number."""

    asked = 0

    def __len__(self) -> int:
        return 3

    def __getitem__(self, number: int) -> np.ndarray:
        self.asked += 1
        assert self.asked < 10, "items are asked for without end"
        return DATA[0]


def test_a_data_set_in_place_of_an_array_is_refused_without_reading_it() -> None:
    data = Endless()
    with pytest.raises(TableError, match=r"(?s)not an array.*petabatch\.sources\.Dataset"):
        ImageArray(data=data)
    assert data.asked == 0
    assert as_numpy("data", (ctypes.c_float * 3)(1, 2, 3)).tolist() == [1, 2, 3]


def test_numbers_of_numpy_and_paths_are_those_of_python(tmp_path: Path) -> None:
    run = Run(batch=np.int64(3), steps=np.int32(7), dt=np.float32(0.5), seed=np.uint8(4), start_from=tmp_path)
    assert run == Run(batch=3, steps=7, dt=0.5, seed=4, start_from=str(tmp_path))
    assert {type(run.batch), type(run.seed)} == {int}
    assert Images(files=[tmp_path, "b"]).files == (str(tmp_path), "b")
    for wrong in (np.bool_(True), np.float64(2.5), np.int64(0)):
        with pytest.raises(TableError, match="batch"):
            Run(batch=wrong, steps=1)
    net = Network(
        run={"batch": np.int64(2), "steps": 1},
        layers={"V1": {"type": "lca", "shape": np.array([1, 2, 3]), "threshold": np.float32(0.5)}},
        slices={"layers.V1.tau": np.linspace(10, 20, 2)},
    )
    assert net.slices == {"layers.V1.tau": (10.0, 20.0)}
    with Simulator(lca_network(images(2)), threads=np.int64(1)) as sim:
        sim.step(np.int64(3))
        sim.run(np.int16(5), quiet=True)
        sim.callback(print, every=[np.int64(6)])
        assert sim.n_steps == 5


# -- images and films


def shown(source: ImageArray, count: int, shape: tuple[int, int, int] = (8, 8, 3)) -> np.ndarray:
    read = source.open(shape, 1, 1)
    return np.stack([read(0, item) for item in range(count)])


def test_lists_of_images_may_differ_in_size() -> None:
    equal = ImageArray(data=list(DATA))
    assert equal == ImageArray(data=DATA)
    sizes = [DATA[0], DATA[1, :6, :7], DATA[2, 1:]]
    found = shown(ImageArray(data=sizes, crop="top_left"), 4, (6, 7, 3))
    np.testing.assert_array_equal(found, np.stack([sizes[n][:6, :7] for n in (0, 1, 2, 0)]))
    with pytest.raises(petabatch.errors.InputError, match=r"(?s)data\[1\].*smaller than the layer"):
        shown(ImageArray(data=sizes), 1)


def test_films_are_arrays_with_frames_or_lists_of_them() -> None:
    order = {"type": "movie", "at_end": "next", "end": "wrap"}
    films = [DATA[:3], DATA[3:]]
    np.testing.assert_array_equal(shown(ImageArray(data=films, order=order), 5), DATA)
    turned = [np.moveaxis(film, -1, 1) for film in films]
    np.testing.assert_array_equal(shown(ImageArray(data=turned, channels="first", order=order), 5), DATA)
    stacked = DATA[[0, 1, 2, 3, 4, 0]].reshape(2, 3, 8, 8, 3)
    source = ImageArray(data=stacked, order=order)
    np.testing.assert_array_equal(shown(source, 6), stacked.reshape(6, 8, 8, 3))
    stream = source.stream((8, 8, 3), 2, 1)
    assert [stream.shown(b, 2)[:2] for b in range(2)] == [(0, 2), (1, 2)]
    assert stream.files == [("data", 2)]
    assert petabatch.encode(films, DICTIONARY, 0.3, stride=2, steps=1).names == (
        *(f"images[0, {frame}]" for frame in range(3)),
        *(f"images[1, {frame}]" for frame in range(2)),
    )
    with pytest.raises(petabatch.errors.InputError, match="these are not images"):
        shown(ImageArray(data=[DATA[:3], DATA[3]]), 1)


def test_films_of_files_and_channels_first_are_read_too(tmp_path: Path) -> None:
    np.save(tmp_path / "films.npy", np.moveaxis(DATA[:4], -1, 1).reshape(2, 2, 3, 8, 8))
    source = ImageArray(file=tmp_path / "films.npy", channels="first", order="by_movie")
    np.testing.assert_array_equal(shown(source, 4), DATA[:4])
    with pytest.raises(TableError, match="an order of axes of their own"):
        ImageArray(file="a.mat", channels="first")


def test_a_run_of_films_in_memory_is_resumed(tmp_path: Path) -> None:
    net = Network(
        run=Run(batch=2, display=2, displays=3),
        layers={
            "image": Input(
                shape=(8, 8, 3),
                source=ImageArray(data=[DATA[:3], DATA[3:]], order={"type": "movie", "end": "wrap"}),
            )
        },
        output={"layers": {"image": {}}},
        checkpoint={"every": "display", "keep": 9},
    )
    whole = petabatch.run(net, tmp_path / "run", quiet=True)
    with Simulator.from_run(tmp_path / "run", step=2) as sim:
        sim.step()
        np.testing.assert_array_equal(sim["image"]["A"], whole["layers/image/A"].at(display=2))


# -- synapses

MATRIX = scipy.sparse.random_array((6, 4), density=0.5, rng=RNG)


def weighed(**keys: Any) -> np.ndarray:
    """Return what arrives through synapses from inputs `DATA[:2, 0, :2]`."""
    net = Network(
        run=Run(batch=2, steps=1),
        layers={
            "in": Input(shape=(1, 2, 3), source=ImageArray(data=DATA[:2, :1, :2])),
            "out": Linear(shape=(1, 1, 4)),
        },
        connections={"synapses": Sparse(pre="in", post="out", **keys)},
        output={"layers": {"out": {"every": 1}}},
    )
    result: np.ndarray = in_memory.run(net).recorded["layers/out/A"][-1, :, 0, 0]
    return result


def test_synapses_are_given_by_matrices_of_scipy_and_lists_of_edges(tmp_path: Path) -> None:
    entries = MATRIX.tocoo()
    columns = (entries.row, entries.col, entries.data)
    expected = DATA[:2, 0, :2].reshape(2, 6) @ MATRIX.toarray()
    for matrix in (MATRIX, MATRIX.tocsr(), MATRIX.tocsc(), scipy.sparse.lil_matrix(MATRIX), columns):
        np.testing.assert_allclose(weighed(matrix=matrix), expected, atol=1e-6)
    np.testing.assert_allclose(weighed(matrix=np.stack(columns, axis=1)), expected, atol=1e-6)
    ones = weighed(matrix=np.stack(columns[:2], axis=1), init={"type": "constant", "value": 1.0})
    np.testing.assert_allclose(ones, DATA[:2, 0, :2].reshape(2, 6) @ (MATRIX.toarray() != 0), atol=1e-6)
    source = Sparse(pre="a", post="b", matrix=MATRIX)
    assert source == Sparse(pre="a", post="b", matrix=MATRIX.copy())


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        (MATRIX.T, r"does not fit the layers(?s:.*)\[4, 6\](?s:.*)\[6, 4\]"),
        ([(0, 9, 1.0)], "columns 9 to 9"),
        ([(0, 0.5, 1.0)], "not edges between numbered units"),
        ([(0, 1)], "the weights of the synapses are missing"),
        ([(0, 1, np.nan)], "not finite"),
        (np.zeros((3, 5)), r"neither a matrix of SciPy nor a list of edges(?s:.*)\[3, 5\]"),
        (([1], [2, 3]), "not edges"),
        ("text", "this is not an array"),
        (3, "neither a matrix of SciPy"),
    ],
)
def test_what_are_no_synapses_is_refused(matrix: Any, said: str) -> None:
    with pytest.raises(ParamsError, match=said):
        weighed(matrix=matrix)
