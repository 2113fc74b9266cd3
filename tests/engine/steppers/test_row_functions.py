"""Row functions of plug-ins: compiled in programs, layer by layer, and what is said of their mistakes."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import numba
import numpy as np
import pytest

from petabatch import in_memory
from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import PartError
from petabatch.kernels.cpu.rows import call_row
from petabatch.kernels.rows import Form
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network, Run
from petabatch.spec.parts import Layer, StepContext
from petabatch.spec.rows import drawn
from petabatch.variable import LAYER_DIMS, Array, Variable
from support.row_functions import Adaptive, ByRowAlone, network

SHAPE = (5, 7, 60)
"""More units than a chunk has."""


def final(given: Network, threads: int = 1) -> dict[str, np.ndarray]:
    """Return the state after a run."""
    engine = Engine(schedule(build(given)), Serial(), threads)
    engine.start()
    for _ in drive(engine):
        pass
    engine.collect()
    return {key: array.copy() for key, array in engine.state.arrays.items() if key.startswith("layers/L")}


def test_a_row_function_joins_the_program() -> None:
    method = schedule(build(network(Adaptive(shape=SHAPE)))).method
    assert method.stepper == "program"
    assert not method.program.interpreted


@pytest.mark.parametrize("kind", [Adaptive, ByRowAlone])
@pytest.mark.parametrize(("precision", "apart"), [("float32", 1e-5), ("float64", 1e-13)])
def test_the_reference_in_float64_agrees(kind: type[Layer], precision: str, apart: float) -> None:
    compiled = final(network(Adaptive(shape=SHAPE), precision=precision))
    reference = final(network(kind(shape=SHAPE), kernel="array", precision="float64"))
    for key, theirs in reference.items():
        np.testing.assert_allclose(compiled[key], theirs, rtol=0, atol=apart, err_msg=key)


def test_slices_have_their_own_parameters_and_numbers() -> None:
    values = (2.0, 5.0, 2.0)
    mixed = final(network(Adaptive(shape=SHAPE), {"layers.L.tau": values}), threads=2)
    for number, tau in enumerate(values):
        alone = final(network(Adaptive(shape=SHAPE, tau=tau)))
        for key, array in mixed.items():
            assert array[number].tobytes() == alone[key][number].tobytes(), key


class Draws(Layer):
    """Its activity is its random numbers."""

    type: Literal["draws"] = "draws"
    draws = {"first": "uniform", "second": "normal"}  # noqa: RUF012

    def variables(self) -> list[Variable]:
        return [Variable("second", self.shape, LAYER_DIMS)]

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        A[:] = draws.first
        state.second[:] = draws.second


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_random_numbers_are_those_of_seed_layer_slice_step_and_unit(kernel: Literal["auto", "array"]) -> None:
    layer = Draws(shape=SHAPE)
    state = final(network(layer, kernel=kernel, seed=5))
    ctx = StepContext(20, 0.5, (0, 1, 2), 5, layer="L")
    for number in range(3):
        first, second = (drawn(layer, ctx, name, number).astype("f4") for name in layer.draws)
        np.testing.assert_array_equal(state["layers/L/A"][number, 20 % 2], first)
        np.testing.assert_allclose(state["layers/L/second"][number], second, rtol=0, atol=2e-6)
        assert 0.45 < first.mean() < 0.55
        assert abs(second.mean()) < 0.1
        assert 0.95 < second.std() < 1.05


class Overriding(Adaptive):
    """A subclass whose update is another one."""

    type: Literal["overriding"] = "overriding"  # type: ignore[assignment]

    def update(self, ctx: StepContext, state: Any, drive: Any, previous: Array, activity: Array) -> None:
        activity[...] = 1


def test_a_subclass_with_another_update_does_not_run_the_inherited_row() -> None:
    assert (final(network(Overriding(shape=SHAPE)))["layers/L/A"] == 1).all()


def test_a_layer_needs_an_update() -> None:
    with pytest.raises(TypeError, match="the layer Nothing has neither `update` nor `row`"):

        class Nothing(Layer):
            type: Literal["nothing"] = "nothing"


def constant(name: str, value: float) -> Layer:
    """Return a layer whose row function has a value of its own."""

    @numba.njit
    def inner() -> float:
        return value

    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        for i in range(A.size):
            A[i] = inner()

    return layer_of(row, name)


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_functions_of_one_text_with_other_values_are_others(kernel: Literal["auto", "array"]) -> None:
    layers = {name: constant(f"test_{name}", value) for name, value in (("a", 1.0), ("b", 2.0))}
    given = Network(run=Run(batch=1, steps=2, display=2, kernel=kernel), layers=layers)
    found = in_memory.run(given, [2]).states
    assert (found["layers/a/A"] == 1).all()
    assert (found["layers/b/A"] == 2).all()


def test_a_file_that_changed_after_its_import_is_compiled_again(tmp_path: Path) -> None:
    file, found = tmp_path / "edited.py", []
    text = "def row(p, state, drive, draws, A):\n    for i in range(A.size):\n        A[i] = {}\n"
    file.write_text(text.format(1.0))
    for _ in range(2):
        function = runpy.run_path(str(file))["row"]
        file.write_text(text.format(2.0))
        A = np.zeros(3)
        call_row(function, Form((), (), 1, ()), (), [A.copy(), A])
        found.append(A[0])
    assert found == [1.0, 2.0]


def layer_of(function: Callable[..., None], name: str = "") -> Layer:
    """Return a layer with this row function, as of a plug-in."""
    name = name or function.__name__
    members = {
        "__module__": __name__, "__annotations__": {"type": Literal[name]}, "type": name,
        "row": staticmethod(function),
    }  # fmt: skip
    kind: type[Layer] = type(name, (Layer,), members)
    return kind(shape=(1, 3, 4))


def unknown_name(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(A.size):
        A[i] = unheard_of  # type: ignore[name-defined]  # noqa: F821


def unknown_variable(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(A.size):
        A[i] = state.W[i]


def raises(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    if A.size > 1:
        raise ValueError("too many")


def beyond(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    A[A.size] = 1


@pytest.mark.parametrize("kernel", ["auto", "array"])
@pytest.mark.parametrize(
    ("function", "message", "line"),
    [
        (unknown_name, "numba cannot compile `row`: NameError: name 'unheard_of'", "A[i] = unheard_of"),
        (unknown_variable, "numba cannot compile `row`: Unknown attribute 'W'", "A[i] = state.W[i]"),
        (raises, "ValueError: too many", 'raise ValueError("too many")'),
    ],
)
def test_an_error_names_layer_and_line(
    function: Callable[..., None], message: str, line: str, kernel: Literal["auto", "array"]
) -> None:
    with pytest.raises(PartError) as error:
        final(network(layer_of(function), kernel=kernel))
    text = str(error.value)
    assert text.startswith("layers.L: the plug-in type ")
    assert message in text
    source = Path(__file__).read_text().splitlines()
    number = next(n for n, one in enumerate(source, 1) if one.strip().startswith(line))
    assert f"{__file__}:{number}: {line}" in text


def test_indices_are_checked_layer_by_layer() -> None:
    with pytest.raises(PartError, match=r"layers\.L: .*IndexError"):
        final(network(layer_of(beyond), kernel="array"))


class Whole(Layer):
    """A variable of the slice, which a row of units cannot have."""

    type: Literal["whole"] = "whole"

    def variables(self) -> list[Variable]:
        return [Variable("total", (1,), ("one",))]

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        A[:] = 0


def test_variables_are_those_of_units() -> None:
    graph = build(network(Whole(shape=SHAPE)))
    declared = Whole.variables.__code__.co_firstlineno
    said = f"{__file__}:{declared}: layers of type whole: a row function changes arrays of units"
    with pytest.raises(PartError, match=re.escape(said)):
        schedule(graph)
