"""The alpha-beta model of collective operations, against values computed by hand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petabatch.bench.prediction.collectives import (
    Collective,
    exchange,
    gather,
    halving_doubling,
    recursive_doubling,
    ring,
    tree,
)
from petabatch.bench.prediction.link import Link

RANKS = st.integers(2, 4096)
BYTES = st.integers(8, 10**9)


def test_a_ring_of_four() -> None:
    assert ring(1000, 4) == Collective(messages=6, path=1500, sent=1500, added=750)
    assert ring(1000, 4).seconds(Link(1e-3, 1e6), 1e-9) == pytest.approx(6e-3 + 1.5e-3 + 0.75e-6)


def test_trees_of_eight() -> None:
    assert recursive_doubling(1000, 8) == Collective(3, 3000, 3000, 3000)
    assert halving_doubling(1000, 8) == Collective(6, 1750, 1750, 875)


def test_trees_of_six_hand_over_to_four_and_back() -> None:
    # ranks 4 and 5 send 1000 bytes first, and receive 1000 at the end; a rank they use sends 1000 more
    assert recursive_doubling(1000, 6) == Collective(4, 4000, 3000, 3000)
    assert halving_doubling(1000, 6) == Collective(6, 1500 + 2000, 2500, 1750)


def test_short_sums_need_few_messages_and_long_ones_few_bytes() -> None:
    assert tree(2048, 16) == recursive_doubling(2048, 16)
    assert tree(2056, 16) == halving_doubling(2056, 16)
    assert tree(8 * 300, 512) == recursive_doubling(8 * 300, 512)  # fewer numbers than ranks


def test_gathering_to_all_and_to_one() -> None:
    assert exchange(1000, 8) == Collective(1, 7000, 7000)
    assert gather(10, 5) == Collective(3, 40, 10)


def test_one_rank_sends_nothing() -> None:
    for operation in (ring, tree, recursive_doubling, halving_doubling, exchange, gather):
        found = operation(1000, 1)
        assert (found.messages, found.path, found.added) == (0, 0, 0)


@given(BYTES, RANKS, st.floats(0, 1e-2), st.floats(1e5, 1e11))
def test_a_slower_link_never_takes_less(nbytes: int, ranks: int, latency: float, bandwidth: float) -> None:
    for operation in (ring, tree, exchange, gather):
        cost = operation(nbytes, ranks)
        seconds = cost.seconds(Link(latency, bandwidth))
        assert cost.seconds(Link(2 * latency, bandwidth)) >= seconds
        assert cost.seconds(Link(latency, bandwidth / 2)) > seconds


@given(BYTES, RANKS)
def test_no_all_reduce_sends_less_than_a_ring(nbytes: int, ranks: int) -> None:
    least = ring(nbytes, ranks).sent
    assert least == pytest.approx(2 * (ranks - 1) / ranks * nbytes)
    assert recursive_doubling(nbytes, ranks).sent >= least * (1 - 1e-12)
    if ranks & (ranks - 1) == 0:
        assert halving_doubling(nbytes, ranks).sent == pytest.approx(least)
