"""Slices that differ in plain numbers alone: the program and tables of one, the bits of their own runs."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest

from petabatch.connections import Sparse
from petabatch.engine.engine import Engine
from petabatch.errors import ParamsError
from petabatch.layers import Neurons
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.network.slices import sliced
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network, Run
from petabatch.spec.sweep import Sweep
from petabatch.weights import Uniform

STRENGTH, CURRENT = "connections.tracts.strength", "layers.units.parameters.I"
POINTS = {STRENGTH: (0.5, 0.7, 0.0, 1.0, -1.0, -0.3, 0.9), CURRENT: (0.1, 0.2, 0.3, 0.0, 1.0, 0.4, 0.5)}


def swept(points: dict[str, tuple[float, ...]] = POINTS, layer: type[Neurons] = Neurons) -> Network:
    """Return units with delays between them, for each of the points."""
    units = layer(
        shape=(1, 1, 6),
        equations="dx/dt = (-x + tanh(1.5 * inside) + I / 2) / tau",
        parameters={"I": 0.3, "tau": 4.0},
        currents=("inside",),
        start={"x": 0.4},
    )
    weights = Uniform(low=-1.0, high=1.0)
    tracts = Sparse(
        pre="units", post="units", target="inside", probability=0.8, init=weights,
        delays=Uniform(low=0.0, high=5.0),
    )  # fmt: skip
    return Network(
        run=Run(batch=1, steps=30, display=30),
        layers={"units": units},
        connections={"tracts": tracts},
        sweep=Sweep(table=points),
    )


def final(network: Network) -> dict[str, np.ndarray]:
    """Return the state after the last step."""
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    for _ in engine.run():
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


def test_they_have_the_bits_of_their_own_runs() -> None:
    network = swept()
    together = final(network)
    for number in range(network.batch):
        for key, array in final(sliced(network, number)).items():
            mine = together[key][number] if len(together[key]) == network.batch else together[key][0]
            assert mine.tobytes() == array[0].tobytes(), (number, key)


def test_a_value_that_is_not_finite_is_named() -> None:
    points = POINTS | {CURRENT: (0.1, 0.2, 0.3, float("nan"), 1.0, 0.4, 0.5)}
    with pytest.raises(ParamsError, match="value 4 of the array is out of range"):
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
