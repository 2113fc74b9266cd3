"""Compiled random numbers are those of numpy's generators, bit for bit."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import numpy as np
import pytest

from petabatch.kernels.cpu.program.random import WORDS, add_noise, add_shots, drop
from petabatch.random import stream, stream_pool

KEYS = [(1, 0, 1), (2**100 + 5, 3, 77), (0, 2**32 - 1, 2**32 - 1)]
"""Seed, slice and step."""


def op(**fields: Any) -> Any:
    """Return a record with these fields, and room for words."""
    rooms = {name: np.zeros(WORDS + 4, np.uint64) for name in ("words", "more")}
    return namedtuple("Op", [*fields, *rooms])(**fields, **rooms)


@pytest.mark.parametrize("key", KEYS)
def test_normal_numbers_with_the_tail_of_their_ziggurat(key: tuple[int, int, int]) -> None:
    seed, number, step = key
    out = np.zeros(200_001, np.float32)
    pool = stream_pool(seed, "layers/x", number)
    add_noise(op(pool=pool, mean=0.3, std=0.7, first=0, out=out), step)
    drawn = stream(seed, "layers/x", number, step).standard_normal(out.size)
    assert abs(drawn).max() > 3.7  # the tail
    np.testing.assert_array_equal(out, (np.float32(0.3) + 0.7 * drawn).astype(np.float32))
    part = np.zeros(1000, np.float32)
    add_noise(op(pool=pool, mean=0.3, std=0.7, first=1234, out=part), step)
    np.testing.assert_array_equal(part, out[1234:2234])


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("units", [1, 5, WORDS, 3 * WORDS + 2])
def test_uniform_numbers_from_any_place_of_a_stream(key: tuple[int, int, int], units: int) -> None:
    seed, number, step = key
    pool = stream_pool(seed, "layers/x", number)
    dropped = np.ones(units, np.float32)
    drop(op(pool=pool, probability=0.4, first=0, out=dropped), step)
    chances = stream(seed, "layers/x", number, step).random(units + 77)
    np.testing.assert_array_equal(dropped, chances[:units] >= 0.4)
    dropped[:] = 1
    drop(op(pool=pool, probability=0.4, first=77, out=dropped), step)
    np.testing.assert_array_equal(dropped, chances[77:] >= 0.4)
    hits, sizes = stream(seed, "layers/x", number, step).random((2, 3, units))
    for channel in range(3):
        shots = np.zeros(units, np.float32)
        add_shots(op(pool=pool, size=2.0, probability=0.3, channel=channel, out=shots), step)
        np.testing.assert_array_equal(
            shots, (2.0 * sizes[channel] * (hits[channel] < 0.3)).astype(np.float32)
        )
