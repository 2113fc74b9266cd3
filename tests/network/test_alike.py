"""Slices that differ in plain numbers alone: the program and tables of one, the bits of their own runs."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from petabatch.engine.driver import drive
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.layers import LeakyIntegrator, Neurons
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.slices import sliced
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from support.swept_units import CURRENT, POINTS, STRENGTH, swept


def final(network: Network) -> dict[str, np.ndarray]:
    """Return the state after the last step."""
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    for _ in drive(engine):
        pass
    return engine.state.arrays


def test_they_share_the_tables_of_one_and_have_their_own_numbers() -> None:
    network = swept()
    engine = Engine(schedule(build(network)), Serial(), 1)
    first, second, *_, last = (lane.stepper for lane in engine.lanes)
    assert last.tables.rows is second.tables.rows is first.tables.rows
    for number, lane in enumerate(engine.lanes):
        (own,) = Engine(schedule(build(sliced(network, number))), Serial(), 1).lanes
        for mine, alone in (
            (lane.stepper.slice.numbers, own.stepper.slice.numbers),
            (lane.stepper.slice.factors, own.stepper.slice.factors),
        ):
            assert mine.tobytes() == alone.tobytes(), number


def test_the_program_of_a_slice_has_its_numbers() -> None:
    plan = schedule(build(swept()))
    for number in range(plan.graph.network.batch):
        alone = schedule(build(sliced(plan.graph.network, number))).method.program
        mine = plan.of_slice(number).program
        assert list(map(str, mine.operations)) == list(map(str, alone.operations)), number


@pytest.mark.parametrize("batch", [7, 8, 19, 40])
@pytest.mark.parametrize(
    ("shape", "mode"),
    [((1, 1, 7), "extra_non_shared"), ((1, 1, 27), "extra_non_shared"), ((3, 1, 8), "extra_shared")],
)
def test_slices_side_by_side_have_the_bits_of_their_own_runs(
    shape: tuple[int, int, int], mode: str, batch: int
) -> None:
    strengths = tuple(np.random.default_rng(batch).normal(size=batch))
    network = swept({STRENGTH: strengths}, shape=shape, mode=mode)
    together = final(network)
    for number in range(0, batch, 3):
        for key, array in final(sliced(network, number)).items():
            mine = together[key][number] if len(together[key]) == network.batch else together[key][0]
            assert mine.tobytes() == array[0].tobytes(), (number, key)


def leaky(points: dict[str, tuple[float, ...]]) -> Network:
    """Return leaky integrators, whose updates are no row functions, with synapses between them."""
    network = swept(points)
    units = LeakyIntegrator(shape=(1, 1, 6), tau=4.0)
    tracts = network.connections["tracts"].model_copy(update={"target": None, "post": "leaky"})
    layers = {"units": network.layers["units"], "leaky": units}
    return network.model_copy(update={"layers": layers, "connections": {"tracts": tracts}})


@pytest.mark.parametrize("network", [swept(), leaky({STRENGTH: POINTS[STRENGTH]}), leaky(POINTS)])
def test_they_have_the_bits_of_their_own_runs(network: Network) -> None:
    together = final(network)
    for number in range(network.batch):
        for key, array in final(sliced(network, number)).items():
            mine = together[key][number] if len(together[key]) == network.batch else together[key][0]
            assert mine.tobytes() == array[0].tobytes(), (number, key)


def test_a_value_that_is_not_finite_is_named() -> None:
    points = POINTS | {CURRENT: (0.1, 0.2, 0.3, float("nan"), 1.0, 0.4, 0.5)}
    with pytest.raises(ParamsError, match=r"value 3 \(from 0\) of the array is out of range"):
        build(swept(points))
    with pytest.raises(ParamsError, match="there is no such key"):
        build(swept({"layers.units.parameters.J": (1.0, 2.0)}))


@pytest.mark.parametrize("path", ["tau", "layers", "layers.units", "layers.other.tau"])
def test_a_key_path_that_leads_to_no_number_is_named(path: str) -> None:
    with pytest.raises(ParamsError, match=path):
        build(swept({path: (1.0, 2.0)}))


def test_tables_are_made_once_also_beyond_the_plans_that_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("petabatch.engine.steppers.MOST_PLANS", 2)
    engine = Engine(schedule(build(swept({CURRENT: tuple(np.linspace(0.1, 0.8, 8))}))), Serial(), 1)
    rows = {id(lane.stepper.tables.rows) for lane in engine.lanes}
    assert len(rows) <= 4  # one for each time that plans were forgotten


def test_a_subclass_does_not_inherit_which_numbers_are_plain() -> None:
    class Own(Neurons):
        type: Literal["own neurons"] = "own neurons"

    keys = ["parameters", "I"]
    assert swept().layers["units"].plain(keys)
    assert not swept(layer=Own).layers["units"].plain(keys)
    assert not swept().layers["units"].plain(["parameters", "x"])


def test_a_copy_with_other_equations_has_their_step() -> None:
    units = swept().layers["units"]
    assert isinstance(units, Neurons)
    assert units.step.system.variables == ("x",)
    other = units.model_copy(update={"equations": "dy/dt = -y * I / tau + inside", "start": {}})
    assert other.step.system.variables == ("y",)
