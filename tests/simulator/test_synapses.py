"""Single synapses of a simulator: what can be assigned, and what is refused however it is written."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import petabatch
from petabatch import Network, Simulator, start_from
from petabatch.connections import Sparse
from petabatch.errors import ArgumentError, FormatError, InputFileError
from petabatch.layers import Neurons, SpikeTimes
from petabatch.parallel.comm import Serial
from petabatch.simulator import saved as file

DELAYS = np.array([3, 5, 8, 4])
LONGEST = 8


def network(delays: np.ndarray = DELAYS, **run: object) -> Network:
    """One unit that spikes in step 2 onto four, each later by a delay of its own."""
    edges = ([0] * 4, range(4), [1.0] * 4, delays * 0.1)
    return Network(
        run={"steps": 20, "dt": 0.1, **run},
        layers={
            "g": SpikeTimes(shape=(1, 1, 1), spikes=[[0.1, 0]]),
            "n": Neurons(shape=(1, 1, 4), equations="dv/dt = 0", spike="v > 0.5", reset="v = 0"),
        },
        connections={"c": Sparse(pre="g", post="n", target="v", matrix=edges)},
        output={"layers": {"n": {"variables": ["spikes"]}}},
    )


WRONG = [
    ("targets", 2_000_000_000),
    ("targets", 4),
    ("targets", -1),
    ("targets", 2**32 + 1),
    ("delays", LONGEST + 1),
    ("delays", -1),
    ("starts", 10**12),
    ("starts", -1),
]


def in_place(sim: Simulator, name: str, value: int) -> None:
    sim["c"][name] += np.int64(value)


WAYS: dict[str, Callable[[Simulator, str, int], None]] = {
    "all": lambda sim, name, value: sim["c"].__setitem__(name, value),
    "one": lambda sim, name, value: sim["c"][name].__setitem__((0, -1), value),
    "some": lambda sim, name, value: sim["c"][name].__setitem__(np.s_[:, -1:], [value]),
    "in place": in_place,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_is_no_unit_no_delay_and_no_range_is_refused(way: str, name: str, value: int) -> None:
    with Simulator(network()) as sim:
        before = np.array(sim["c"][name])
        value = value - int(before.flat[-1]) * (way == "in place")
        with pytest.raises(
            ArgumentError, match=rf"connections\.c\.{name}: .*\n    found: .*\n    expected: "
        ):
            WAYS[way](sim, name, value)
        np.testing.assert_array_equal(sim["c"][name], before)


def test_ranges_of_synapses_cover_all_and_do_not_decrease() -> None:
    pairs = Sparse(pre="n", post="n", target="v", matrix=([0, 1, 2], [1, 2, 3], [1.0] * 3))
    net = network().model_copy(update={"connections": {"c": pairs}})
    with Simulator(net) as sim:
        assert sim["c"]["starts"].tolist() == [[0, 1, 2, 3, 3]]
        sim["c"]["starts"] = [0, 0, 3, 3, 3]
        for wrong in ([0, 2, 1, 3, 3], [0, 1, 2, 2, 2], [1, 1, 2, 3, 3]):
            with pytest.raises(ArgumentError, match="0, then none below the one before, and last 3"):
                sim["c"]["starts"] = wrong


@pytest.mark.parametrize("kernel", ["auto", "array"])
def test_synapses_that_are_assigned_are_those_of_a_network_that_has_them(kernel: str) -> None:
    others = DELAYS[[2, 0, 3, 1]]
    want = petabatch.in_memory.run(network(others, kernel=kernel)).spikes("n")
    for begin in (0, 1):
        with Simulator(network(kernel=kernel)) as sim:
            sim.step(begin)
            sim["c"]["delays"] = others
            sim.run(quiet=True)
            found = sim.results.spikes("n")
        np.testing.assert_array_equal(found.steps, want.steps)
        np.testing.assert_array_equal(found.units, want.units)


def test_a_state_with_wrong_synapses_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    with Simulator(network()) as sim:
        sim.step(3)
        saved, path = sim.save(), tmp_path / "state.h5"
        key = "connections/c/targets"
        wrong = replace(saved, arrays={**saved.arrays, key: saved.arrays[key] + 1})
        file.write(path, wrong, wrong.arrays.keys() - {key}, Serial())
        sim.step(2)
        for other in (wrong, path):
            with pytest.raises(FormatError, match=f"{key}: a network cannot go on from these numbers"):
                sim.load(other)
        assert sim.n_steps == 5
        sim.load(saved)
        assert sim.n_steps == 3


def test_a_run_does_not_start_from_wrong_synapses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    net = network()
    petabatch.run(net, out=tmp_path / "first", quiet=True)
    load = start_from.load_checkpoint

    def damaged(*args: object) -> object:
        arrays, meta = load(*args)
        return {**arrays, "connections/c/delays": arrays["connections/c/delays"] - LONGEST}, meta

    monkeypatch.setattr(start_from, "load_checkpoint", damaged)
    run = net.run.model_copy(update={"steps": 30, "start_from": str(tmp_path / "first")})
    with pytest.raises(InputFileError, match=r"run\.start_from: .*connections/c/delays"):
        petabatch.run(net.model_copy(update={"run": run}), out=tmp_path / "second", quiet=True)


@pytest.mark.parametrize("name", ["A", "history"])
def test_spikes_are_whole_numbers(name: str) -> None:
    with Simulator(network()) as sim:
        for wrong in (0.5, -1.0):
            with pytest.raises(ArgumentError, match="numbers of spikes, whole numbers from 0 or more"):
                sim["n"][name] = wrong
        sim["n"][name] = 2.0
