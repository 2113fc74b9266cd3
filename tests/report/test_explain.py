"""What `petabatch check` prints of a plan."""

from __future__ import annotations

import pytest

from petabatch.report import explain


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 FLOP"),
        (999, "999 FLOP"),
        (5120, "5.1 kFLOP"),
        (25.2e6, "25.2 MFLOP"),
        (24.16e12, "24.2 TFLOP"),
        (3e18, "3,000.0 PFLOP"),
    ],
)
def test_operations_are_counted_in_units_that_suit(count: float, text: str) -> None:
    assert explain._flop(count) == text
