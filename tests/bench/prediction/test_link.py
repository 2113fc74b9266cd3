"""Networks between ranks, as written on the command line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from petabatch.bench.prediction.link import NAMED, Link, link
from petabatch.errors import ArgumentError


@pytest.mark.parametrize(
    ("text", "latency", "bandwidth"),
    [
        ("25us,117MB/s", 25e-6, 117e6),
        (" 2.5 µs , 46 GB/s ", 2.5e-6, 46e9),
        ("800ns,100Gbit/s", 8e-7, 12.5e9),
        ("1ms,100Mbit/s", 1e-3, 12.5e6),
        ("1MS,9600kb/s", 1e-3, 9.6e6),
    ],
)
def test_latency_and_bandwidth_have_units(text: str, latency: float, bandwidth: float) -> None:
    assert link(text).latency == pytest.approx(latency)
    assert link(text).bandwidth == pytest.approx(bandwidth)


def test_usual_networks_have_names() -> None:
    assert link("1gbe") == link("1GbE") == NAMED["1GbE"]
    assert link("1GbE").bandwidth < link("10GbE").bandwidth < link("NDR").bandwidth


@given(st.floats(1e-7, 1e-2), st.floats(1e6, 1e11))
def test_a_link_is_printed_as_it_is_read(latency: float, bandwidth: float) -> None:
    found = link(str(Link(latency, bandwidth)))
    assert found.latency == pytest.approx(latency, rel=1e-4)
    assert found.bandwidth == pytest.approx(bandwidth, rel=1e-4)


@pytest.mark.parametrize(
    "text", ["", "25,117", "25us", "25us,117", "-1us,1GB/s", "1us,0GB/s", "1us,1furlong/s"]
)
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ArgumentError, match=r"(?s)--network: .*found: .*expected: .*25us,117MB/s"):
        link(text)


def test_a_misspelt_name_is_recognised() -> None:
    with pytest.raises(ArgumentError, match="did you mean 10GbE"):
        link("10Gbe-T")
