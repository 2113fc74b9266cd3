"""Pseudorandom permutations whose elements are computed one by one, for shuffled epochs."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from petabatch.random import stream

_WORD = 1 << 64
_ROUNDS_PER_BIT = 6
"""Rounds for each bit of the number of items, after which the distribution is close to uniform (Hoang et al.,
section 3)."""


class Permutation:
    """The permutation of `range(count)` of (seed, purpose, epoch): `permutation[i]`, with nothing stored.

    Swap-or-not shuffle (Hoang, Morris and Rogaway, CRYPTO 2012): in each round, i and K - i mod n are swapped
    or not, as decided by a hash of the larger one. The hash is the finaliser of SplitMix64 (Steele et al.
    2014), whose keys are drawn from `petabatch.random.stream`.
    """

    def __init__(self, count: int, seed: int, purpose: str, epoch: int) -> None:
        rng, rounds = stream(seed, purpose, epoch), _ROUNDS_PER_BIT * (count.bit_length() + 1)
        self._count = count
        self._centres = rng.integers(count, size=rounds).tolist()
        self._keys = rng.integers(_WORD - 1, size=rounds, dtype=np.uint64, endpoint=True).tolist()

    def __getitem__(self, index: int) -> int:
        for centre, key in zip(self._centres, self._keys, strict=True):
            partner = (centre - index) % self._count
            if _mixed(key + max(index, partner)) >> 63:
                index = partner
        return index


@lru_cache(maxsize=64)
def permutation(count: int, seed: int, purpose: str, epoch: int) -> Permutation:
    """Return the permutation of an epoch; those in use are kept, a few hundred numbers each."""
    return Permutation(count, seed, purpose, epoch)


def _mixed(word: int) -> int:
    """Return the hash of a word of 64 bits."""
    word = (word * 0x9E3779B97F4A7C15) % _WORD
    word = ((word ^ word >> 30) * 0xBF58476D1CE4E5B9) % _WORD
    word = ((word ^ word >> 27) * 0x94D049BB133111EB) % _WORD
    return word ^ word >> 31
