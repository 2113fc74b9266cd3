"""Rules by which synapses are drawn: degrees, numbers, distances, delays, seeds."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from petabatch.connections import Sparse, wirings
from petabatch.connections.wirings import Profile, distances
from petabatch.errors import ParamsError
from petabatch.layers import Linear
from petabatch.network.build import build
from petabatch.spec.load import Loaded
from petabatch.spec.network import Network, Run
from petabatch.spec.sweep import Sweep
from petabatch.spec.synapses import Ends, Synapses
from petabatch.weights import TruncatedNormal, Uniform
from petabatch.weights.random import Constant

PRE, POST = (6, 10, 2), (3, 5, 4)
UNITS = math.prod(PRE)


def network(post: str = "a", **keys: Any) -> Network:
    """Return two layers of several units at each place, and synapses from the first."""
    if not keys.keys() & {"in_degree", "out_degree", "number", "matrix"}:
        keys = {"probability": 0.3, **keys}
    keys = {"init": Constant(value=1.0), "feedback": post == "a", **keys}
    layers = {"a": Linear(shape=PRE), "b": Linear(shape=POST)}
    connection = Sparse(pre="a", post=post, **keys)
    return Network(run=Run(steps=2, dt=0.1), layers=layers, connections={"ab": connection})


def drawn(**keys: Any) -> tuple[Synapses, np.ndarray]:
    """Return synapses, and their pre unit."""
    found = build(network(**keys)).synapses["ab"]
    return found, np.repeat(np.arange(UNITS), np.diff(found.starts))


def wrong(**keys: Any) -> str:
    with pytest.raises(Exception) as raised:  # noqa: PT011
        build(network(**keys))
    return str(raised.value)


@pytest.mark.parametrize("selfless", [False, True])
def test_degrees_and_numbers_are_as_they_are_given(selfless: bool) -> None:
    own = {"self_connections": False} if selfless else {}
    for key, ends in (("in_degree", 1), ("out_degree", 0)):
        synapses, pre = drawn(**{key: 7}, **own)
        pairs = np.array([pre, synapses.targets])
        assert (np.bincount(pairs[ends], minlength=UNITS) == 7).all()
        assert len(np.unique(pairs, axis=1).T) == 7 * UNITS
        assert bool((pairs[0] == pairs[1]).any()) is not selfless
    synapses, pre = drawn(number=20_000, **own)
    pairs = np.array([pre, synapses.targets])
    assert pairs.shape == (2, 20_000)
    assert len(np.unique(pairs, axis=1).T) < 15_000  # several synapses of a pair
    assert bool((pairs[0] == pairs[1]).any()) is not selfless
    assert abs(np.bincount(pairs[1], minlength=UNITS) - 20_000 / UNITS).max() < 6 * (20_000 / UNITS) ** 0.5


def test_distances_are_those_of_places_in_layers_of_one_size() -> None:
    ends = Ends(1, UNITS, POST, PRE)
    a = np.array([0, 1, 2 * 9, 2 * 10 * 5])  # two features at one place; the right and the lower edge
    np.testing.assert_allclose(
        distances(ends, a, np.array([0]), False), np.hypot([0.5, 0.5, 0.5, 4.5], [0.5, 0.5, 8.5, 0.5])
    )
    np.testing.assert_allclose(
        distances(ends, a, np.array([0]), True), np.hypot([0.5, 0.5, 0.5, 1.5], [0.5, 0.5, 1.5, 0.5])
    )


@pytest.mark.parametrize("kind", ["gaussian", "exponential", "disc"])
def test_synapses_become_fewer_with_distance_by_the_profile(kind: Any) -> None:
    profile = Profile(type=kind, width=2.0)
    synapses, pre = drawn(probability=0.9, profile=profile, periodic=True)
    apart = distances(synapses.ends, pre, synapses.targets, True)
    every = distances(synapses.ends, *(one.ravel() for one in np.indices((UNITS, UNITS))), True)
    for low, high in ((0, 1), (1, 2.01), (2.01, 9)):
        there, expected = ((one >= low) & (one < high) for one in (apart, every))
        mean = 0.9 * profile(every[expected]).sum()
        assert abs(there.sum() - mean) <= 5 * math.sqrt(mean)
    near, pre = drawn(in_degree=5, profile=Profile(type="disc", width=1.0))
    assert (np.bincount(near.targets) == 5).all()
    assert distances(near.ends, pre, near.targets, False).max() <= 1


def test_delays_are_rounded_to_steps_and_grow_with_distance() -> None:
    assert set(drawn(delays=1.449)[0].first.delays) == {14}
    uniform = drawn(delays=Uniform(low=0.5, high=0.7))[0].first.delays
    assert set(uniform) == {5, 6, 7}
    assert 0.4 < (uniform == 6).mean() < 0.6
    normal = drawn(delays=TruncatedNormal(mean=2.0, std=1.0, low=1.0, high=2.5), number=9000)[0]
    assert (normal.first.delays.min(), normal.first.delays.max(), normal.longest) == (10, 25, 25)
    assert normal.first.delays.mean() == pytest.approx(17.93, abs=0.2)
    synapses, pre = drawn(speed=4.0, delays=0.3)
    late = distances(synapses.ends, pre, synapses.targets, False) / 4 + 0.3
    assert abs(synapses.first.delays * 0.1 - late).max() < 0.0501
    given = build(network(matrix=([5, 0, 0], [1, 3, 2], [1.0, 2, 3], [0.1, 0.2, 0.3]), init=None)).synapses[
        "ab"
    ]
    assert list(given.targets) == [2, 3, 1]
    assert list(given.first.delays) == [3, 2, 1]
    assert list(given.first.given) == [3, 2, 1]


def test_no_more_synapses_are_drawn_than_there_is_room_for() -> None:
    for keys in ({}, {"probability": 1.0}, {"probability": 1e-3}, {"profile": Profile(width=1.0)}):
        synapses, sparse = drawn(**keys)[0], network(**keys).connections["ab"]
        counts = [
            len(sparse.synapses(synapses.ends, np.random.default_rng(seed), 0.1).targets)
            for seed in range(20)
        ]
        mean = np.mean(counts)
        most, _ = sparse.room(synapses.ends, 0.1)
        assert max(counts) <= most <= mean + 9 * math.sqrt(mean) + 40
        assert abs(sparse.expected(synapses.ends) - mean) < 8 * math.sqrt(mean / 20)


@pytest.mark.parametrize("selfless", [False, True])
def test_few_of_very_many_pairs_are_drawn_as_each_on_its_own(
    monkeypatch: pytest.MonkeyPatch, selfless: bool
) -> None:
    monkeypatch.setattr(wirings, "_ONE_BY_ONE", 0)
    counts = np.zeros((UNITS, UNITS), int)
    ends = build(network()).synapses["ab"].ends
    for seed in range(200):
        rule = wirings.Rule(0.1, None, None, None, None, False, selfless)
        pre, post = rule.draw(ends, np.random.default_rng(seed))
        np.add.at(counts, (pre, post), 1)  # one that is drawn twice would show in the variance
    assert (np.diag(counts) == 0).all() == selfless
    others = counts[~np.eye(UNITS, dtype=bool)]
    assert abs(others.mean() - 20) < 6 * math.sqrt(18 / others.size)
    assert abs(others.var() / 18 - 1) < 6 * math.sqrt(2 / others.size)  # of a binomial distribution
    assert others.max() <= 50


def test_synapses_of_seeds_are_drawn_apart_in_modes_in_which_slices_have_their_own() -> None:
    net = network(mode="non_shared").model_copy(update={"sweep": Sweep(run={"seed": [1, 2]})})
    assert build(net).synapses["ab"].apart
    with pytest.raises(ParamsError, match="drawn from one seed") as raised:
        build(network().model_copy(update={"sweep": net.sweep}))
    assert raised.value.problems[0].expected == 'mode = "non_shared", or one run for each seed'


def test_a_network_with_given_synapses_can_be_read_again() -> None:
    given = network(matrix=([5, 0], [1, 3], [1.0, 2.0]), init=None)
    assert Loaded.from_network(given).network.connections["ab"] == given.connections["ab"]
    assert "`per_slice` is not for synapses like these" in wrong(matrix=([0], [1], [1.0]), per_slice=True)
    assert "`self_connections` is not for" in wrong(matrix=([0], [1], [1.0]), self_connections=False)


def test_mistakes_are_explained() -> None:
    assert "at most 119" in wrong(in_degree=120, self_connections=False)
    assert "those within the profile of each unit" in wrong(
        out_degree=40, profile=Profile(type="disc", width=1.0)
    )
    assert "no unit is in both layers" in wrong(post="b", self_connections=False)
    assert "have no length" in wrong(mode="shared", speed=1.0)
    assert "belong to all slices" in wrong(per_slice=True)
    assert "`profile` is not for synapses like these" in wrong(number=3, profile=Profile(width=1.0))
    assert "no delays with a limit" in wrong(delays=Uniform(low=-1.0, high=1.0))
    assert "no delays with a limit" in wrong(delays=Constant(value=1.0, same_feature=True))
    assert "too rare" in wrong(delays={"type": "truncated_normal", "mean": 0.0, "low": 7.0, "high": 8.0})
    for longer in ({"delays": 1e9}, {"speed": 1e-12}, {"speed": 1e-308}):
        assert "at most 2,147,483,646 steps" in wrong(**longer)
    assert "at most 2,147,483,646 steps" in wrong(matrix=([0], [1], [1.0], [1e300]), init=None)
    assert "expected: a value of at least 0" in wrong(delays=-1)
    assert "expected: a number or an initialiser table" in wrong(delays=[1.0, 2.0])
    assert "some delays are negative" in wrong(matrix=([0], [1], [1.0], [-1.0]), init=None)
