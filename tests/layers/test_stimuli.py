"""Stimuli of spikes: Poisson processes and given times."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import petabatch
from petabatch import in_memory
from petabatch.connections import Identity
from petabatch.errors import NonFiniteError, ParamsError, TableError
from petabatch.layers import Input, Neurons, Poisson, SpikeTimes
from petabatch.probes import SpikeStatistics
from petabatch.sources import ImageArray
from petabatch.spec.network import LayerOutput, Network, Output, Run
from petabatch.spec.parts import STEP, StepContext
from petabatch.spec.schedule import Every
from petabatch.weights import Constant, Uniform

STEPS, DT = 200, 0.1


def spikes(layer: Any, steps: int = STEPS, also: Any = None, **run: Any) -> np.ndarray:
    """Return the activity of a layer, `[step, slice, unit]`."""
    layers, connections = also or ({}, {})
    made = Run(**{"steps": steps, "display": steps, "dt": DT, "batch": 2, **run})
    network = Network(
        run=made, layers={"s": layer, **layers}, connections=connections,
        output=Output(layers={"s": LayerOutput(every=STEP)}),
    )  # fmt: skip
    return in_memory.run(network).recorded["layers/s/A"].reshape(steps, made.batch, -1)


def poisson(units: int = 500, **keys: Any) -> Poisson:
    return Poisson(shape=(1, 1, units), **keys)


@pytest.mark.parametrize("rate", [0.003, 3.0, 90.0, 410.0])
def test_counts_have_the_mean_and_the_variance_of_poissons_distribution(rate: float) -> None:
    found, mean = spikes(poisson(rate=rate), seed=3).astype(float), rate * DT
    std = np.sqrt(mean / found.size)
    assert abs(found.mean() - mean) < 4 * std
    assert abs(found.var() - mean) < 5 * np.sqrt((mean + 2 * mean**2) / found.size)
    assert (found == np.floor(found)).all()


def test_counts_have_poissons_distribution() -> None:
    stats = pytest.importorskip("scipy.stats")
    found = spikes(poisson(rate=20.0)).ravel().astype(int)
    seen, numbers = np.bincount(found, minlength=10), np.arange(10)
    expected = found.size * stats.poisson.pmf(numbers, 2.0)
    assert stats.chisquare(seen[:9], expected[:9] * seen[:9].sum() / expected[:9].sum()).pvalue > 0.001


def test_units_steps_and_slices_draw_independently() -> None:
    found = spikes(poisson(50, rate=5.0)).astype(float)
    series = found.reshape(STEPS, -1)
    related = np.corrcoef(series.T)
    assert abs(related[~np.eye(len(related), dtype=bool)]).max() < 0.4
    assert abs(np.corrcoef(series[1:].ravel(), series[:-1].ravel())[0, 1]) < 0.03


@pytest.mark.parametrize(
    "keys",
    [
        {"rate": 3.0},
        {"rate": 410.0},
        {"rate": "r * (1 + sin(2 * pi * t / 10)) + p", "parameters": {"r": 8.0, "p": Uniform(low=0, high=9)}},
    ],
)
def test_compiled_counts_are_those_of_the_reference(keys: Any) -> None:
    compiled, reference = spikes(poisson(60, **keys)), spikes(poisson(60, **keys), kernel="array")
    assert compiled.any()
    np.testing.assert_array_equal(compiled, reference)


def test_a_slice_of_a_batch_draws_what_it_draws_in_any_batch_and_on_threads() -> None:
    found = spikes(poisson(rate=3.0), batch=3)
    np.testing.assert_array_equal(found[:, :2], spikes(poisson(rate=3.0), batch=2))
    network = Network(
        run=Run(steps=STEPS, display=STEPS, dt=DT, batch=3),
        layers={"s": poisson(rate=3.0)},
        output=Output(layers={"s": LayerOutput(every=STEP)}),
    )
    on_threads = in_memory.run(network, threads=2).recorded["layers/s/A"]
    np.testing.assert_array_equal(found, on_threads.reshape(found.shape))
    assert (found[:, 0] != found[:, 1]).any()


def test_a_rate_follows_time() -> None:
    found = spikes(poisson(1000, rate="20 * int(t >= 4.95) * int(t < 9.95)")).mean(axis=(1, 2))
    assert not found[:50].any()
    assert not found[100:].any()
    np.testing.assert_allclose(found[50:100], 2.0, rtol=0.15)


def test_a_rate_follows_what_an_input_layer_shows() -> None:
    rates = np.zeros((4, 1, 1, 400))
    rates[1], rates[3] = 5.0, 30.0
    source = ImageArray(data=rates, order={"type": "specified", "start": (0, 0)})
    shown = Input(shape=(1, 1, 400), source=source, every=Every(50))
    found = spikes(poisson(400, rate=0.0), also=({"rates": shown}, {"c": Identity(pre="rates", post="s")}))
    each = found.reshape(4, 50, -1).mean(axis=(1, 2))
    np.testing.assert_allclose(each, [0, 0.5, 0, 3.0], rtol=0.05)


def test_a_rate_differs_among_slices_and_below_zero_there_are_no_spikes() -> None:
    tables = {
        "run": {"steps": STEPS, "display": STEPS, "dt": DT, "batch": 3},
        "layers": {"s": {"type": "poisson", "shape": [1, 1, 400], "rate": 1.0}},
        "slices": {"layers.s.rate": [-2.0, 1.0, 6.0]},
        "output": {"layers": {"s": {"every": 1}}},
    }
    found = in_memory.run(petabatch.Network.model_validate(tables)).recorded["layers/s/A"]
    means = found.mean(axis=(0, 2, 3, 4))
    assert means[0] == 0
    np.testing.assert_allclose(means[1:], [0.1, 0.6], rtol=0.05)


def test_a_rate_of_more_than_4096_spikes_a_step_ends_the_run() -> None:
    spikes(poisson(3, rate=40_000.0), steps=3)
    with pytest.raises(NonFiniteError, match=r"at most 4096: lower the rate or run\.dt"):
        spikes(poisson(3, rate=41_000.0), steps=3)


def test_a_rate_that_is_no_expression_is_refused_with_its_place() -> None:
    with pytest.raises(TableError, match=r"line 1, column 5: this name is not defined(.|\n)*rate0"):
        poisson(rate="2 * rate0", parameters={"rate1": 2.0})
    with pytest.raises(TableError, match="these are parameters of an expression"):
        poisson(rate=2.0, parameters={"r": 2.0})


ROWS = [[0.0, 1], [0.3, 2], [0.3, 2], [0.39995, 0], [19.95, 0], [900.0, 1]]


def given(**keys: Any) -> SpikeTimes:
    return SpikeTimes(shape=(1, 1, 3), **keys)


def events(activity: np.ndarray, number: int = 0) -> list[tuple[int, int, int]]:
    """Return step, unit and count of the spikes of a slice."""
    step, unit = np.nonzero(activity[:, number])
    return [(int(s) + 1, int(u), int(activity[s, number, u])) for s, u in zip(step, unit, strict=True)]


def test_given_spikes_are_in_the_steps_of_their_times_in_all_slices() -> None:
    found = spikes(given(spikes=ROWS))
    expected = [
        (1, 1, 1),
        (4, 2, 2),
        (5, 0, 1),
        (200, 0, 1),
    ]  # 0.39995 is less than a thousandth of a step early
    assert events(found) == events(found, 1) == expected


def test_slices_have_given_spikes_of_their_own() -> None:
    rows = np.array([[0.5, 1, 2], [0.1, 0, 0], [0.2, 2, 0]])
    found = spikes(given(spikes=rows), batch=4)
    assert [events(found, number) for number in range(4)] == [[(2, 0, 1), (3, 2, 1)], [], [(6, 1, 1)], []]


def test_compiled_given_spikes_are_those_of_the_reference() -> None:
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.uniform(0, 25, 500), rng.integers(0, 3, 500), rng.integers(0, 2, 500)])
    compiled, reference = spikes(given(spikes=rows)), spikes(given(spikes=rows), kernel="array")
    np.testing.assert_array_equal(compiled, reference)
    assert compiled.sum() == (np.floor(rows[:, 0] / DT + 1e-3) < STEPS).sum()


def test_spikes_are_read_from_files_and_a_file_that_changes_is_read_again(tmp_path: Path) -> None:
    rows, text, archive = np.array(ROWS), tmp_path / "s.csv", tmp_path / "s.npz"
    text.write_text("# time, unit\n" + "\n".join(f"{t}, {u}  # one" for t, u in ROWS))
    np.savez(archive, time=rows[:, 0], unit=rows[:, 1].astype(int))
    expected = events(spikes(given(spikes=ROWS)))
    assert events(spikes(given(path=str(text)))) == events(spikes(given(path=str(archive)))) == expected
    text.write_text("0.1 2")
    assert events(spikes(given(path=str(text)))) == [(2, 2, 1)]
    text.write_text("# nothing\n")
    assert events(spikes(given(path=str(text)))) == []


def test_a_step_takes_no_longer_where_there_are_more_spikes_in_others() -> None:
    def seconds(count: int) -> float:
        layer = SpikeTimes(shape=(1, 1, 1), spikes=tuple((DT * n, 0.0) for n in range(count)))
        activity = np.zeros((1, 1, 1, 1))
        begin = total = 0.0
        for step in range(1, 102):
            layer.update(StepContext(step, DT, (0,), 1), {}, [], activity, activity)
            total += activity.sum()
            begin = time.process_time() if step == 1 else begin  # the first one sorts them
        assert total == 101
        return time.process_time() - begin

    assert min(seconds(50_000) for _ in range(3)) < 5 * min(seconds(200) for _ in range(3))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "it is not clear which spikes there are"),
        ({"spikes": [[1, 2, 0], [1, 2]]}, "these rows differ in length"),
        ({"spikes": [[1.0, 3]]}, r"spike 1 has no such unit(.|\n)*units from 0 to 2"),
        ({"spikes": [[1.0, 0], [2.0, 0.5]]}, "spike 2 has no such unit"),
        ({"spikes": [[-1.0, 0]]}, "spike 1 has no such time"),
        ({"spikes": np.zeros(4)}, r"these are not spikes(.|\n)*float64 \[4\]"),
        ({"path": "nowhere.npz"}, "this file cannot be read"),
        ({"path": {"time": [0.1], "unit": [0], "slices": [1]}}, r"found: +slices(.|\n)*did you mean slice\?"),
        ({"path": {"time": [0.1]}}, "this file has no spikes"),
        ({"path": {"time": np.zeros((3, 2)), "unit": [0, 0, 0]}}, r"time float64 \[3, 2\], unit int64 \[3\]"),
        ({"path": {"time": [0.1, 0.2], "unit": [0]}}, "numbers, one of each for a spike"),
        ({"path": {"time": np.array([None]), "unit": [0]}}, "it holds objects of Python, not numbers"),
        ({"path": np.zeros((3, 2))}, r"these are no spikes(.|\n)*found: +a .npy file"),
    ],
)
def test_spikes_that_cannot_be_made_are_refused(tmp_path: Path, keys: Any, message: str) -> None:
    if isinstance(keys.get("path"), dict):
        np.savez(tmp_path / "s.npz", **keys["path"])
        keys = {"path": str(tmp_path / "s.npz")}
    elif "path" in keys and not isinstance(keys["path"], str):
        np.save(tmp_path / "s.npy", keys["path"])
        keys = {"path": str(tmp_path / "s.npy")}
    with pytest.raises(TableError, match=message):
        given(**keys)


def test_spikes_reach_neurons_in_the_next_step_and_counts_add_up() -> None:
    unit = Neurons(shape=(1, 1, 3), equations="dv/dt = 0 * v")
    wired = {"c": Identity(pre="s", post="n", target="v", strength=2.5)}
    network = Network(
        run=Run(steps=6, display=6, dt=DT), layers={"s": given(spikes=ROWS), "n": unit}, connections=wired,
        output=Output(layers={"n": LayerOutput(every=STEP)}),
    )  # fmt: skip
    v = in_memory.run(network).recorded["layers/n/A"].reshape(6, 3)
    np.testing.assert_array_equal(v[:, 1], [0, 2.5, 2.5, 2.5, 2.5, 2.5])
    np.testing.assert_array_equal(v[:, 2], [0, 0, 0, 0, 5, 5])


def test_a_connection_to_given_spikes_is_refused() -> None:
    with pytest.raises(ParamsError, match="channel"):
        spikes(given(spikes=ROWS), also=({"p": poisson(3)}, {"c": Identity(pre="p", post="s")}))


def test_stimuli_go_on_with_the_bits_of_one_run() -> None:
    def network(steps: int) -> Network:
        return Network(
            run=Run(steps=steps, display=50, dt=DT, batch=2),
            layers={"s": poisson(20, rate="9 * (1 + sin(t))"), "g": given(spikes=ROWS)},
            output=Output(layers={"s": LayerOutput(every=STEP), "g": LayerOutput(every=STEP)}),
        )

    whole, first = in_memory.run(network(200)), in_memory.run(network(100))
    second = in_memory.run(network(200), start=first.end)
    for name in ("layers/s/A", "layers/g/A"):
        np.testing.assert_array_equal(second.recorded[name], whole.recorded[name][100:])
        assert second.recorded[name].any()


@pytest.mark.parametrize("value", [-2.0, 0.5])
def test_what_spikes_starts_with_numbers_of_spikes(value: float) -> None:
    layer = Poisson(shape=(1, 2, 1), start={"A": Constant(value=value)})
    network = Network(run=Run(steps=2), layers={"poisson": layer})
    with pytest.raises(ParamsError, match="numbers of spikes") as raised:
        in_memory.run(network)
    assert raised.value.problems[0].key == "layers.poisson.start.A"
    assert f"found:    {value:g}" in str(raised.value)
    started = layer.model_copy(update={"start": {"A": Constant(value=2.0)}})
    in_memory.run(network.model_copy(update={"layers": {"poisson": started}}))


@pytest.mark.parametrize("kernel", ["array", "dense"])
def test_rates_that_are_too_large_end_a_run_whose_spikes_are_counted(kernel: Any) -> None:
    network = Network(
        run=Run(steps=4, dt=1.0, kernel=kernel),
        layers={"poisson": poisson(2, rate=5000.0)},
        probes={"spikes": SpikeStatistics(layer="poisson", every=STEP)},
    )
    with pytest.raises(NonFiniteError, match="at most 4096"):
        in_memory.run(network)
