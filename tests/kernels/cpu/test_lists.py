"""Lists of active and of due units against numpy's, up to all units at once."""

from __future__ import annotations

import numpy as np
import pytest

from petabatch.kernels.cpu.program.lazy.units import list_features
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
@pytest.mark.parametrize("most", [1, 40, 10_000])
def test_due_units_are_listed_feature_by_feature(share: float, most: int) -> None:
    positions, nf, base = 2 * WORD, 5, 256
    due = np.random.default_rng(4).random((nf, positions)) < share
    words = np.ascontiguousarray(bits_of(due).T).reshape(-1)
    places, units, ends = (np.zeros(nf * positions + AT_ONCE, "i8") for _ in range(3))
    n, stop = list_features(words, 1, nf, base, most, places, units, ends)
    counts = due[1:].sum(1).cumsum()
    np.testing.assert_array_equal(stop, 1 + min(nf - 1, 1 + np.searchsorted(counts, most)))
    np.testing.assert_array_equal(ends[1:stop], counts[: stop - 1])
    features, expected = np.nonzero(due[1:stop])
    np.testing.assert_array_equal(places[:n], expected)
    np.testing.assert_array_equal(units[:n], (base + expected) * nf + 1 + features)
