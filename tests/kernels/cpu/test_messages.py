"""Rows of neighbouring tiles and sums over ranks in compiled steps, with what others have sent in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from petabatch.kernels.cpu.program.messages import exchange_rows, join_parts
from petabatch.kernels.cpu.program.records import stored_in
from petabatch.kernels.cpu.program.views import Arrays
from petabatch.kernels.messages import PLACES
from petabatch.kernels.operations.base import Operation
from petabatch.kernels.operations.fields import Source, encoded
from petabatch.kernels.operations.transport import Exchange, Join

SLICES, BEFORE, ROWS, AFTER, LENGTH = 2, 1, 4, 2, 3
STEP = 7


@pytest.fixture(params=["float32", "float64"])
def real(request: pytest.FixtureRequest) -> str:
    """The precision of the run."""
    return str(request.param)


def tables(arrays: list[np.ndarray], depths: list[int]) -> np.ndarray:
    """Return the table of arrays `[slices, places, size]`, after that of nothing."""
    found = np.zeros((SLICES, 1 + len(arrays), 3), np.int64)
    for number, (array, depth) in enumerate(zip(arrays, depths, strict=True), 1):
        for w in range(SLICES):
            found[w, number] = array[w].ctypes.data, array[w].size // depth, depth
    return found


def link(*arrays: np.ndarray | None) -> np.ndarray:
    """Return a link without messages."""
    none = np.zeros(PLACES, np.int64)
    LINKS.append(none)
    return np.array([none.ctypes.data, *(0 if one is None else one.ctypes.data for one in arrays)])


LINKS: list[np.ndarray] = []


class Numbered:
    """Arrays by number: as they are called, and the last one for a link."""

    def __init__(self, link: int) -> None:
        self.link = link

    def array(self, key: str) -> int:
        return self.link if key.startswith("links/") else int(key)

    def none(self, _: Any) -> Any:
        raise NotImplementedError

    geometry = summed = driven = none


def record(one: Operation, link: int) -> Any:
    """Return what compiled code reads of an operation."""
    return stored_in(type(one))(np.array(encoded(one, Numbered(link))[0]))


def random(real: str, *shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape)).standard_normal(shape).astype(real)


@pytest.mark.parametrize("above", [True, False])
@pytest.mark.parametrize("below", [True, False])
@pytest.mark.parametrize("adds", [True, False])
def test_rows_are_sent_and_taken_where_there_are_tiles(
    adds: bool, above: bool, below: bool, real: str
) -> None:
    wide = random(real, SLICES, BEFORE + ROWS + AFTER, LENGTH)
    before, mine = wide.copy(), slice(BEFORE, BEFORE + ROWS)
    up, down = (BEFORE, AFTER) if adds else (AFTER, BEFORE)
    sizes: list[Any] = [up if above else None, down if below else None]
    sizes += [down if above else None, up if below else None]
    sent_up, sent_down, from_above, from_below = buffers = [
        None if rows is None else random(real, SLICES, rows, LENGTH) for rows in sizes
    ]
    given = [None if one is None else one.copy() for one in buffers]
    own = link(*buffers)
    arrays = tables([wide, np.stack([own] * SLICES)], [1, 1])
    arrays[:, 2, 0] = own.ctypes.data
    one = Exchange("0", Source("1"), ROWS, BEFORE, AFTER, LENGTH, adds)
    exchange_rows(record(one, 2), Arrays(arrays, np.dtype(real).type), STEP)
    tile, expected = before[:, mine], before.copy()
    if adds:
        expected = tile.copy()
        if given[2] is not None:
            expected[:, :AFTER] += given[2]
        if given[3] is not None:
            expected[:, ROWS - BEFORE :] += given[3]
    else:
        if given[2] is not None:
            expected[:, :BEFORE] = given[2]
        if given[3] is not None:
            expected[:, BEFORE + ROWS :] = given[3]
    np.testing.assert_array_equal(wide[:, mine] if adds else wide, expected)
    edges = (before[:, :BEFORE], before[:, BEFORE + ROWS :])
    if not adds:
        edges = (tile[:, :AFTER], tile[:, ROWS - BEFORE :])
    for sent, rows in zip((sent_up, sent_down), edges, strict=True):
        assert sent is None or np.array_equal(sent, rows)
    for taken, was in zip((from_above, from_below), given[2:], strict=True):
        assert taken is None or np.array_equal(taken, was)


@pytest.mark.parametrize("rank", range(3))
@pytest.mark.parametrize("packed", [True, False])
def test_parts_are_added_in_the_order_of_ranks_on_all_of_them(rank: int, packed: bool, real: str) -> None:
    large = 2 / np.finfo(real).eps
    values = [large, 1.0, -large]  # whose sum depends on the order
    parts = [np.full((SLICES, 5), value, real) for value in values]
    mine, out = parts[rank], np.full((SLICES, 8), -1, real)
    if packed:  # from an activity, of the step before
        mine, parts[rank] = random(real, SLICES, 3, 5), np.zeros((SLICES, 5), real)
        mine[:, (STEP - 1) % 3] = values[rank]
    own = link(parts[rank] if packed else None, *parts)
    arrays = tables([mine, out, np.stack([own] * SLICES)], [3 if packed else 1, 1, 1])
    arrays[:, 3, 0] = own.ctypes.data
    arrays[:, 3, 1] = own.size
    join_parts(record(Join("2", Source("1", 1), 5), 3), Arrays(arrays, np.dtype(real).type), STEP)
    assert np.all(out[:, :5] == 0.0)  # and not 1, which other orders give
    assert np.all(out[:, 5:] == -1)


@pytest.mark.parametrize("rank", range(3))
def test_features_of_parts_are_put_side_by_side_in_the_order_of_ranks(rank: int, real: str) -> None:
    positions, features = 4, 2
    parts = [random(real, SLICES, positions * features) for _ in range(3)]
    out = np.full((SLICES, positions * features * 3 + 1), -1, real)
    arrays = tables([parts[rank], out, np.stack([own := link(None, *parts)] * SLICES)], [1, 1, 1])
    arrays[:, 3, 0] = own.ctypes.data
    arrays[:, 3, 1] = own.size
    join_parts(
        record(Join("2", Source("1"), positions * features, features), 3),
        Arrays(arrays, np.dtype(real).type),
        STEP,
    )
    expected = np.concatenate([one.reshape(SLICES, positions, features) for one in parts], axis=-1)
    np.testing.assert_array_equal(out[:, :-1].reshape(expected.shape), expected)
    assert np.all(out[:, -1] == -1)
