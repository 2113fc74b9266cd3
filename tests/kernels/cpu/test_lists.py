"""Lists of active and of due units against numpy's, up to all units at once."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch.kernels.cpu.program.lazy.units import list_feature
from petabatch.kernels.cpu.program.transport import list_marked
from petabatch.kernels.cpu.sizes import AT_ONCE, WORD


def bits_of(units: np.ndarray) -> np.ndarray:
    """Return a bit for each unit of the last axis, in words."""
    return np.packbits(units, axis=-1, bitorder="little").view(np.uint64)


@pytest.mark.parametrize("share", [0, 0.02, 0.3, 1])
def test_marked_units_are_listed_in_order(share: float) -> None:
    rng = np.random.default_rng(3)
    code = (rng.random((5, 2 * WORD)) < share) * rng.random((5, 2 * WORD), "f4")
    marks, start = bits_of(code != 0), 3 * 2 * WORD
    active, values = np.zeros(2 * WORD + AT_ONCE, "i4"), np.zeros(2 * WORD + AT_ONCE, "f4")
    found = list_marked(code.reshape(-1), marks[3], start, 0, active, values)
    np.testing.assert_array_equal(active[:found], np.flatnonzero(code[3]))
    np.testing.assert_array_equal(values[:found], code[3][code[3] != 0])


@pytest.mark.parametrize("share", [0, 0.02, 0.3, 1])
def test_due_units_of_a_feature_are_listed_in_order(share: float) -> None:
    positions, nf, base = 2 * WORD, 3, 256
    due = np.random.default_rng(4).random((nf, positions)) < share
    words = np.ascontiguousarray(bits_of(due).T).reshape(-1)
    places, units = (np.zeros(positions + AT_ONCE + 1, "i8") for _ in range(2))
    found = list_feature(words, 1, nf, base, 1, places, units)
    np.testing.assert_array_equal(places[1:found], np.flatnonzero(due[1]))
    np.testing.assert_array_equal(units[1:found], (base + np.flatnonzero(due[1])) * nf + 1)
