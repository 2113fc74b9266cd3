"""The points of a sweep: combinations of arrays, ranges, drawn values and tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from petabatch.errors import ParamsError
from petabatch.simulation import plan, read
from petabatch.spec.sweep import Sweep

V1 = "layers.V1.threshold"


def points_of(sweep: Sweep) -> list[tuple[float, ...]]:
    """Return all points one by one, as tuples of their values."""
    return [tuple(sweep.point(number).values()) for number in range(sweep.points)]


def assert_the_same_together(sweep: Sweep) -> None:
    """Compare the points taken one by one with those taken together, and with those of a part."""
    numbers = np.arange(sweep.points)
    together = sweep.at(numbers)
    assert list(together) == list(sweep.point(0))
    assert [tuple(row) for row in np.stack(list(together.values()), axis=1).tolist()] == points_of(sweep)
    some = numbers[::3][::-1]
    assert points_of(sweep.only(some)) == [points_of(sweep)[number] for number in some]
    assert Sweep(**sweep.model_dump()) == sweep


@pytest.mark.parametrize("method", ["random", "latin_hypercube", "sobol"])
def test_drawn_values_fill_their_intervals_together_and_cross_with_seeds(method: str) -> None:
    tau = {"low": 1.0, "high": 100.0, "spacing": "log"}
    sweep = Sweep(
        draw=method,
        draws=32,
        seed=5,
        **{"run.seed": [3, 4], V1: {"low": 0.2, "high": 0.6}, "layers.V1.tau": tau},
    )
    assert sweep.points == 64
    assert_the_same_together(sweep)
    found = np.array(points_of(sweep))
    assert np.array_equal(found[:32, 1:], found[32:, 1:])
    assert found[:32, 0].tolist() == [3.0] * 32
    places = np.stack([(found[:32, 1] - 0.2) / 0.4, np.log(found[:32, 2]) / np.log(100)], axis=1)
    assert len(np.unique(places[:, 0])) == 32
    if method != "random":  # as many in each part of an axis
        for column in places.T:
            assert sorted((column * 32).astype(int)) == list(range(32))


@pytest.mark.parametrize("method", ["random", "sobol"])
def test_more_draws_begin_with_the_same_points(method: str) -> None:
    few, many = (
        Sweep(draw=method, draws=draws, **{V1: {"low": 0, "high": 1}, "layers.V1.tau": {"low": 1, "high": 2}})
        for draws in (5, 13)
    )
    assert points_of(many)[:5] == points_of(few)


def test_another_seed_draws_other_points() -> None:
    one, other = (Sweep(draws=4, seed=seed, **{V1: {"low": 0.0, "high": 1.0}}) for seed in (1, 2))
    assert not set(points_of(one)) & set(points_of(other))


def test_zips_of_drawn_values() -> None:
    sweep = Sweep(combine="zip", draws=3, **{V1: {"low": 0.0, "high": 1.0}, "run.seed": [7, 8, 9]})
    assert [point[1] for point in points_of(sweep)] == [7, 8, 9]
    assert_the_same_together(sweep)


def test_tables_of_csv_hdf5_and_arrays_are_the_same_points(tmp_path: Path) -> None:
    rows = np.random.default_rng(0).random((6, 2))
    text = "\n".join([f"{V1}, layers.V1.tau", *(f"{a!r},{b!r}" for a, b in rows.tolist())])
    (tmp_path / "points.csv").write_text(text + "\n")
    with h5py.File(tmp_path / "points.h5", "w") as file:
        for name, column in zip((V1, "layers.V1.tau"), rows.T, strict=True):
            file[f"fit/{name}"] = column
    arrays = Sweep(table={V1: rows[:, 0], "layers.V1.tau": rows[:, 1]})
    assert_the_same_together(arrays)
    assert Sweep(table=tmp_path / "points.csv") == arrays
    assert Sweep(table=f"{tmp_path / 'points.h5'}:fit") == arrays
    crossed = Sweep(table=tmp_path / "points.csv", **{"run.seed": [1, 2]})
    assert crossed.points == 12
    assert_the_same_together(crossed)


def test_a_table_is_found_beside_its_params_file(small: Path) -> None:
    (small.parent / "points.csv").write_text(f"{V1}\n0.2\n0.4\n")
    loaded = read(small, ["sweep.table=points.csv"])
    assert loaded.network.sweep is not None
    assert loaded.network.sweep.table == {V1: (0.2, 0.4)}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "does not name the columns"),
        (f"{V1},{V1}\n1,2\n", "does not name the columns"),
        (f"{V1},layers.V1.tau\n1,2\n3\n", "line 3 has 1 values, of 2 columns"),
        (f"{V1}\n0.5\nhigh\n", "line 3: could not convert"),
    ],
)
def test_tables_that_cannot_be_read_name_their_line(small: Path, text: str, message: str) -> None:
    (small.parent / "points.csv").write_text(text)
    with pytest.raises(ParamsError) as raised:
        read(small, ["sweep.table=points.csv"])
    (problem,) = raised.value.problems
    assert problem.key == "sweep.table"
    assert message in problem.found


INTERVAL = "low, high, spacing"
VALUES = f"an array or {{ start, stop, count, spacing }} or {{ {INTERVAL} }}"


def test_a_parameter_of_equations_is_told_its_whole_path(tmp_path: Path) -> None:
    file = tmp_path / "net.toml"
    file.write_text(
        '[run]\nbatch = 1\nsteps = 1\n[layers.exc]\ntype = "neurons"\nshape = [1, 1, 2]\n'
        'equations = "dv/dt = -v / tau"\nparameters = { tau = 20.0 }\n'
    )
    with pytest.raises(ParamsError, match=r"did you mean parameters\.tau\?"):
        plan(read(file, ['sweep."layers.exc.tau"=[1, 2]']))


def test_a_column_without_the_kind_of_its_key_is_told_the_whole_path(small: Path) -> None:
    (small.parent / "points.csv").write_text("V1.threshold\n0.3\n0.4\n")
    with pytest.raises(ParamsError, match=r"did you mean layers\.V1\.threshold\?"):
        plan(read(small, ["sweep.table=points.csv", "connections.dictionary.mode=shared"]))


@pytest.mark.parametrize(
    ("values", "key", "message", "expected"),
    [
        ("{low=0.1}", "high", "this key is missing", "a number: upper bound"),
        ("{high=0.1}", "low", "this key is missing", "a number: lower bound"),
        ("{low=0.1, high='one'}", "high", "the value has the wrong type", "a number"),
        ("{low=0.1, high=nan}", "high", "the value is out of range", "a finite number"),
        ("{low=0.1, high=1.0, count=3}", "count", "there is no such key", INTERVAL),
        ("{start=0.1, count=3}", "stop", "this key is missing", "a number: last value"),
        ("'many'", "", "the value has the wrong type", VALUES),
        ("{from=0.1}", "from", "the value has the wrong type", VALUES),
    ],
)
def test_what_is_wrong_in_an_interval_is_named(
    small: Path, values: str, key: str, message: str, expected: str
) -> None:
    with pytest.raises(ParamsError) as raised:
        read(small, [f"sweep.{V1}={values}", "sweep.draws=3"])
    problem = raised.value.problems[0]
    assert problem.key == f"sweep.{V1}.{key}".rstrip(".")
    assert problem.message.startswith(message)
    assert problem.expected == expected


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"draws": 4, V1: [0.2]}, "says how many points"),
        ({V1: {"low": 0.1, "high": 0.2}}, "says how many points"),
        ({"draws": 4, V1: {"low": 0.0, "high": 0.2, "spacing": "log"}}, "cannot include 0"),
        ({"draws": 4, V1: {"low": 0.3, "high": 0.2}}, "lower bound is above the upper one"),
        ({"table": {V1: [0.1, 0.2], "layers.V1.tau": [1.0]}}, "columns of the table have different"),
        ({"table": {V1: [0.1, 0.2]}, V1: [1.0]}, "given twice"),
        ({"table": "points.csv"}, "there is no such file"),
        ({"draw": "sobol", V1: [0.1, 0.2]}, "draw: nothing is drawn from intervals"),
        ({"draw": "random", V1: [0.1, 0.2]}, "draw: nothing is drawn from intervals"),
        ({"seed": 2, "table": {V1: [0.1, 0.2]}}, "seed: nothing is drawn from intervals"),
    ],
)
def test_wrong_draws_and_tables_are_errors(table: dict[str, Any], message: str) -> None:
    with pytest.raises(ParamsError, match=message):
        Sweep(**table)
