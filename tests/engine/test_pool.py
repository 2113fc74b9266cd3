"""A pool: slices have the bits of a run of all at once, whatever slots they come into and in which order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from petabatch.connections import Conv
from petabatch.engine.engine import Engine
from petabatch.engine.pool import Pool
from petabatch.network.build import build
from petabatch.network.plan import schedule
from petabatch.parallel.comm import Serial
from petabatch.spec.network import Network
from support.networks import collect
from support.pools import pooled
from support.processes import PATIENCE
from support.random_runs import Arrays
from support.recurrent import recurrent_network


def whole(network: Network) -> Arrays:
    """Return what a run of all slices records."""
    engine = Engine(schedule(build(network)), Serial(), 1)
    engine.start()
    return collect(engine)


def frozen(network: Network) -> Network:
    """Return a network without learning."""
    connections = {
        name: one.model_copy(update={"learn": None}) if isinstance(one, Conv) else one
        for name, one in network.connections.items()
    }
    return network.model_copy(update={"connections": connections})


@settings(
    max_examples=10,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    phases=(Phase.explicit, Phase.reuse, Phase.generate),  # seeds do not shrink
)
@given(seed=st.integers(0, 2**32), batch=st.integers(1, 9), size=st.integers(1, 4), threads=st.integers(1, 3))
def test_bits_depend_on_no_order_slot_or_thread(seed: int, batch: int, size: int, threads: int) -> None:
    network = frozen(recurrent_network(seed, batch))
    expected, (found, failures) = whole(network), pooled(network, size, threads, seed)
    assert failures == [None] * batch
    assert found.keys() == expected.keys()
    for path, values in expected.items():
        assert found[path].tobytes() == values.tobytes(), path


def test_errors_that_are_not_of_a_slice_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(Pool, "_together", broken)
    with pytest.raises(RuntimeError, match="a bug"):
        pooled(frozen(recurrent_network(1, 4)), 1, 2, 1)


@pytest.mark.parametrize("held", [2, 3, 4])
def test_a_slot_takes_the_next_slices_without_waiting(monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    made: Callable[..., object] = Pool._together
    size = -(-held // 2)
    ended, others = list[int](), threading.Event()

    def slow(self: Pool, slot: range, numbers: list[int]) -> object:
        if 0 in numbers:
            assert others.wait(PATIENCE), "the other slot waits for this one"
        done = made(self, slot, numbers)
        ended.extend(numbers)
        if len(ended) >= 10 - size:
            others.set()
        return done

    monkeypatch.setattr(Pool, "_together", slow)
    network = frozen(recurrent_network(1, 10))
    plan = schedule(build(network))
    engine = Engine(replace(plan, flush=plan.length), Serial(), 2, slices=range(held))
    engine.start()
    list(Pool(engine, size).run(iter([list(range(n, min(n + size, 10))) for n in range(0, 10, size)])))
    assert sorted(ended) == list(range(10))
    assert 0 in ended[-size:]
