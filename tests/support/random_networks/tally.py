"""The tally of pairs that campaigns have drawn: a compact file in the repository to which each campaign adds.

It has the words, and for each place where pairs meet a bit for each two words, whichever stepper drew them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from support.random_networks.coverage import Coverage
from support.random_networks.pairs import WHERE, Pair, Where, pair, possible

FILE = Path(__file__).parents[2] / "data" / "pairs_drawn.npz"
Drawn = dict[Where, set[Pair]]


def read(file: Path = FILE) -> Drawn:
    """Return the pairs of a tally that there still are, none where there is no tally."""
    if not file.exists():
        return {where: set() for where in WHERE}
    with np.load(file) as stored:
        words, count = stored["words"].tolist(), len(stored["words"])
        found: Drawn = {}
        for number, where in enumerate(WHERE):
            bits = np.unpackbits(stored[f"bits_{number}"], count=count * count).reshape(count, count)
            pairs = {pair(words[one], words[other]) for one, other in np.argwhere(bits).tolist()}
            found[where] = pairs & possible()[where]
    return found


def write(drawn: Drawn, file: Path = FILE) -> None:
    """Write a tally."""
    words = sorted({word for pairs in drawn.values() for one in pairs for word in one})
    place = {word: number for number, word in enumerate(words)}
    bits = {}
    for number, where in enumerate(WHERE):
        table = np.zeros((len(words), len(words)), bool)
        for one, other in drawn[where]:
            table[place[one], place[other]] = True
        bits[f"bits_{number}"] = np.packbits(table)
    np.savez_compressed(file, words=np.array(words), **bits)


def add(coverage: Coverage, file: Path = FILE) -> Iterator[str]:
    """Add the pairs of a campaign, and yield how many there are now."""
    before = read(file)
    after: Drawn = {
        where: before[where].union(*(drawn[where] & possible()[where] for drawn in coverage.drawn.values()))
        for where in WHERE
    }
    write(after, file)
    for where in WHERE:
        now, there = len(after[where]), len(possible()[where])
        yield f"{where}: {now} of {there} pairs in {file.name}, {now - len(before[where])} of them new"
