"""Which words of a network count, of those that are wanted: parts and tables that act, and their keys.

Layers, connections and the tables in them are taken back in each network. A key is taken back alone until
that has changed bits once in a part of its type; from then on it counts wherever its part and its table act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator

from petabatch.spec.network import Network
from support.random_networks.acting import Acting
from support.random_networks.pairs import VARIED, Spoken, spoken, type_of

_ATTEMPTS, _RARELY = 8, 4
"""Networks in which a key may change no bit before it is tried in one of `_RARELY` networks only."""


class Proofs:
    """The keys that have been seen to act, by type of part."""

    def __init__(self) -> None:
        self.seen = set[tuple[str, str]]()
        self.idle = Counter[tuple[str, str]]()
        """How often a key has changed no bit."""

    def counted(self, network: Network, wanted: Collection[str]) -> Iterator[Spoken]:
        """Yield the words of a network that act, of those that are wanted."""
        acts, there = Acting(network, "array"), list(spoken(network))
        for one in there:
            if one.said.word in wanted and all(acts(table) for table in _around(one, there)):
                alone = one.said.of_table or one.said.word in VARIED
                if acts(one) if alone else self._key(network, one, acts):
                    yield one

    def _key(self, network: Network, one: Spoken, acts: Acting) -> bool:
        key = (type_of(network, one.part), one.said.word)
        if key in self.seen:
            return True
        tries = self.idle[key]
        if (tries < _ATTEMPTS or tries % _RARELY == 0) and acts(one):
            self.seen.add(key)
            return True
        self.idle[key] += 1
        return False


def _around(one: Spoken, there: list[Spoken]) -> Iterator[Spoken]:
    """Yield the part, and the tables, that a word is in."""
    path = one.said.path
    for other in there:
        inside = other.part == one.part and path[: len(other.said.path)] == other.said.path
        if inside and len(other.said.path) < len(path) and (other.said.of_table or other.said.word in VARIED):
            yield other
