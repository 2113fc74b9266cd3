"""Layers with row functions on an emulated GPU: kernels of their translation, or their array form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

import numba
import numpy as np
import pytest

from petabatch.connections import Identity
from petabatch.errors import ParamsError
from petabatch.kernels.cuda.units.rows import row_body
from petabatch.kernels.cuda.units.values import Untranslated
from petabatch.layers import Neurons, Poisson
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.spec.network import Network, Output, Run
from petabatch.spec.over_time import OverTime
from petabatch.spec.parts import Layer
from petabatch.spec.rows import row_function
from petabatch.variable import LAYER_DIMS, Variable
from support.gpu_emulation import COMPILER, NO_COMPILER, EmulatedGpu
from support.gpu_runs import assert_agree, on_gpu
from support.row_functions import Adaptive, ByRowAlone, network

emulated = pytest.mark.skipif(COMPILER is None, reason=NO_COMPILER)
SHAPE = (3, 3, 2)
LARGEST = 0.75


@numba.njit
def bent(x: float, power: int) -> float:
    if x < 0:
        return 0.0
    y = x
    for _ in range(power - 1):
        y *= x
    return min(y, LARGEST)


class Involved(Layer):
    """Statements and functions of all kinds."""

    type: Literal["involved"] = "involved"
    tau: float = 4.0
    levels: tuple[float, float, float] = (0.1, 0.4, 0.6)
    count: int = 3

    def variables(self) -> Sequence[Variable]:
        return (Variable("V", self.shape, LAYER_DIMS, initial=0.2), Variable("n", self.shape, LAYER_DIMS))

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        V, given = state.V, drive[0]
        keep = math.exp(-p.dt / p.tau)
        half = np.float32(0.5)
        for i in range(len(A)):
            before, level = V[i], 0
            for j in range(p.count):
                if before > p.levels[j]:
                    level += 1
                elif j == 2:
                    continue
                else:
                    break
            left = 7
            while left > 3 and not before > 2:
                left -= 2
            V[i] = keep * before + (1 - keep) * given[i] + half * bent(before, 2)
            V[i] -= (left // 2) * 1e-3 * abs(math.sin(before)) % 0.7
            a, b = V[i], before
            a, b = b, a
            state.n[i] += level**2 + (a != b) + 2**-1
            A[i] = (max(a, 0.0) if 0 <= a < LARGEST else math.floor(b)) if level else math.tanh(b) ** 3


class Whole(Adaptive):
    """A row of units at once, which only the array form does on a GPU."""

    type: Literal["whole"] = "whole"  # type: ignore[assignment]
    update = Adaptive.update

    @staticmethod
    def row(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
        heard = drive[0] * (1 + drive[1]) + p.std * draws.noise
        state.V[:] += p.dt / p.tau * (heard - state.fatigue - state.V)
        state.fatigue[:] += p.dt * (p.rise * A - state.fatigue) / 8
        low = p.bounds[0] if p.signed else 0.0
        A[:] = np.array([min(max(v, low), p.bounds[1]) for v in state.V]) * (draws.chance < 0.75)


class WholeAlone(Whole):
    type: Literal["whole_alone"] = "whole_alone"  # type: ignore[assignment]
    row = staticmethod(Whole.row)
    update = Layer.update


@pytest.mark.sampled(3)
@emulated
@pytest.mark.parametrize("precision", ["float32", "float64"])
@pytest.mark.parametrize("kind", [Adaptive, ByRowAlone, Involved, Whole])
def test_row_functions_are_those_of_the_cpu(kind: type[Layer], precision: str) -> None:
    kernel = "array" if precision == "float64" else "auto"
    wanted = network(kind(shape=SHAPE), precision=precision, kernel=kernel)
    device = EmulatedGpu()
    method = schedule(build(on_gpu(wanted)), device.limits).method
    assert (not method.rows["L"]) == (kind is not Whole)
    assert_agree(wanted, device, 2e-5)


@emulated
@pytest.mark.parametrize("kind", [Involved, Whole])
def test_slices_have_their_own_parameters_and_numbers(kind: type[Layer]) -> None:
    engine = assert_agree(network(kind(shape=SHAPE), {"layers.L.tau": (2.0, 5.0, 2.0)}), EmulatedGpu(), 2e-5)
    assert len(engine.lanes) == 3


@emulated
def test_parameters_change_over_time() -> None:
    course = OverTime(at=(1, 2), values=(2.0, 7.0))
    wanted = network(ByRowAlone(shape=SHAPE)).model_copy(update={"over_time": {"layers.L.tau": course}})
    assert_agree(wanted, EmulatedGpu(), 2e-5)


@emulated
@pytest.mark.parametrize(
    "keys",
    [
        {"equations": "dv/dt = (-v + sin(t) + 0.1*xi) / tau", "parameters": {"tau": 3.0}},
        {
            "equations": "dv/dt = (1.5 - v + g*w) / tau : unless refractory\ndg/dt = -g / 5\nw = exprel(-v)",
            "parameters": {"tau": 3.0, "up": 0.9},
            "spike": "v > up",
            "reset": "v = 0; g += 0.2",
            "refractory": 1.2,
        },
        {"equations": "dv/dt = -v**3 + clip(g, -1, 1) % 0.3 + abs(v)\ng = sign(v) - floor(2*v)"},
    ],
    ids=["noise and time", "spikes", "functions"],
)
def test_equations_are_those_of_the_cpu(keys: dict[str, Any]) -> None:
    layer = Neurons(shape=SHAPE, start={"v": 0.3}, **keys)
    run = Run(batch=2, steps=30, display=10, dt=0.2)
    target = "g" if "dg/dt" in keys["equations"] else "v"
    back = Identity(
        pre="L", post="L", target=target, delay_steps=2, strength=0.1
    )  # so that there is a history
    wanted = Network(run=run, layers={"L": layer}, connections={"back": back}, output=Output())
    assert_agree(wanted, EmulatedGpu(), 2e-5)


@emulated
@pytest.mark.parametrize("rate", ["k * (1 + sin(t))", 0.7])
def test_poisson_processes_are_those_of_the_cpu(rate: float | str) -> None:
    parameters = {"k": 0.6} if isinstance(rate, str) else {}
    wanted = network(Poisson(shape=SHAPE, rate=rate, parameters=parameters))
    spikes = assert_agree(wanted, EmulatedGpu(), 2e-5).state.arrays["layers/L/A"]
    assert spikes.any()
    assert (spikes == np.round(spikes)).all()


def test_steps_of_row_functions_are_replayed_unless_numbers_come_from_the_host() -> None:
    from petabatch.engine.gpu.graphs import _alike

    graphs = [build(on_gpu(network(kind(shape=SHAPE)))) for kind in (Involved, ByRowAlone, Whole)]
    assert [_alike(graph.network.layers["L"], graph) for graph in graphs] == [True, False, False]


def test_a_row_that_is_neither_translated_nor_has_an_array_form_is_refused_with_its_line() -> None:
    with pytest.raises(ParamsError, match="`row` cannot be translated") as refused:
        build(on_gpu(network(WholeAlone(shape=SHAPE))))
    message = str(refused.value)
    assert "test_rows.py:" in message
    assert "give the layer an `update` for arrays" in message
    build(network(WholeAlone(shape=SHAPE)))


def total(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    A[:] = drive[0].sum()


def unknown(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for i in range(A.size):
        A[i] = np.linalg.norm(drive[0])


def listed(p: Any, state: Any, drive: Any, draws: Any, A: Any) -> None:
    for value in [1, 2]:
        A[0] = value


@pytest.mark.parametrize("function", [total, unknown, listed])
def test_what_has_no_form_on_a_gpu_is_named_with_its_line(function: Any) -> None:
    form = row_function(Adaptive(shape=SHAPE))
    assert form is not None
    with pytest.raises(Untranslated, match=r"test_rows\.py:\d+: \w"):
        row_body(function, form.form, "float")
