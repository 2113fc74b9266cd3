"""Which words of a network count, of those that are wanted: parts and tables that act, and their keys.

Layers, connections and the tables in them are taken back in each network. A key is taken back alone until
that has changed bits once in a part of its type; from then on it counts wherever its part and its table act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from petabatch.spec.network import Network
from support.random_networks.acting import Acting, changes_nothing
from support.random_networks.pairs import VARIED, Spoken, spoken, type_of

_KEYS = 15
"""Most keys of a network that are taken back, those that have been taken back least."""


class Proofs:
    """The keys that have been seen to act, by type of part."""

    def __init__(self) -> None:
        self.seen = set[tuple[str, str]]()
        self.idle = Counter[tuple[str, str]]()
        """How often a key has changed no bit."""

    def counted(self, network: Network, wanted: Collection[str]) -> Iterator[Spoken]:
        """Yield the words of a network that act, of those that are wanted."""
        acts, there = Acting(network, "array"), list(spoken(network))
        keys: dict[tuple[str, str], list[Spoken]] = {}
        for one in there:
            if one.said.word in wanted and all(acts(table) for table in _around(one, there)):
                if not (one.said.of_table or one.said.word in VARIED or changes_nothing(one)):
                    keys.setdefault((type_of(network, one.part), one.said.word), []).append(one)
                elif acts(one):
                    yield one
        unknown = sorted(keys.keys() - self.seen, key=lambda key: (self.idle[key], key))
        for key in unknown[:_KEYS]:
            if any(map(acts, keys[key])):
                self.seen.add(key)
            else:
                self.idle[key] += 1
        yield from (one for key in keys.keys() & self.seen for one in keys[key])


def _around(one: Spoken, there: list[Spoken]) -> Iterator[Spoken]:
    """Yield the part, and the tables, that a word is in."""
    path = one.said.path
    for other in there:
        inside = other.part == one.part and path[: len(other.said.path)] == other.said.path
        if inside and len(other.said.path) < len(path) and (other.said.of_table or other.said.word in VARIED):
            yield other
