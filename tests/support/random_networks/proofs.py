"""Which words of a network count, of those that are wanted: parts and tables that act, and their keys.

Layers, connections and the tables in them are taken back in each network. A key is taken back alone until
that has changed bits once in a part of its type; from then on it counts wherever its part and its table act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer
from support.random_networks.acting import Acting, changes_nothing
from support.random_networks.pairs import VARIED, Spoken, hosts, own_word, spoken, type_of
from support.random_networks.values import drawn

_SECONDS = 4.0
"""Processor time in which words of a network are taken back."""
_KEYS = 6
"""Most keys of a network that are taken back alone, those that have been taken back least."""

Key = tuple[str, str]
"""A type of part, and a key of it."""


class Proofs:
    """The keys that have been seen to act, by type of part."""

    def __init__(self) -> None:
        self.seen = set[Key]()
        self.idle = Counter[Key]()
        """How often a key has changed no bit."""
        self.aims = Counter[Key]()
        """How often a network has been drawn to see whether a key acts."""
        self.tested = set[Spoken]()
        """The words of the latest network of which it is known whether they count."""

    def missing(self) -> list[Key]:
        """Return keys that are not known to act, those first that act in no type, and the least tried."""
        known = {word for _, word in self.seen}
        found = [
            (own_word(kind), word)
            for word, kinds in hosts().items()
            for kind in kinds
            if issubclass(kind, Layer | Connection) and " " not in word.partition("=")[0]
        ]
        left = [key for key in found if key not in self.seen and key[1] not in VARIED]
        return sorted(left, key=lambda key: (self.aims[key], key[1] in known, key))

    def prove(self, network: Network) -> None:
        """See which keys of a network act."""
        there, acts = list(spoken(network)), Acting(network, "array", _SECONDS)
        for key, ones in _keys(network, there).items():
            if key not in self.seen:
                self._prove(key, ones, acts, there)

    def counted(self, network: Network, wanted: Mapping[str, int]) -> Iterator[Spoken]:
        """Yield the words of a network that act, of those that are wanted, the most wanted ones first."""
        acts = Acting(network, "array", _SECONDS)
        there = sorted(spoken(network), key=lambda one: -wanted.get(one.said.word, 0))
        keys = _keys(network, [one for one in there if one.said.word in wanted])
        unknown = sorted(keys.keys() - self.seen, key=lambda key: (self.idle[key], -wanted[key[1]], key))
        for key in unknown[:_KEYS]:
            self._prove(key, keys[key], acts, there)
        unknown = [one for key in keys.keys() - self.seen for one in keys[key]]
        alone = {one for ones in keys.values() for one in ones}
        self.tested = set()
        for one in there:
            if one.said.word in wanted and one not in unknown:
                needed = [*_around(one, there), *([] if one in alone else [one])]
                if self._tested(one, acts, needed):
                    yield one

    def _prove(self, key: Key, ones: Sequence[Spoken], acts: Acting, there: Sequence[Spoken]) -> None:
        """Take note of whether a key acts, unless the time is over."""
        if any(all(map(acts, _around(one, there))) and acts(one) for one in ones):
            self.seen.add(key)
        elif all(map(acts.knows, ones)):
            self.idle[key] += 1

    def _tested(self, one: Spoken, acts: Acting, needed: Sequence[Spoken]) -> bool:
        """Return whether what a word needs acts; take note of the word if that is known."""
        found = all(map(acts, needed))
        if found or any(acts.knows(other) and not acts(other) for other in needed):
            self.tested.add(one)
        return found


def _keys(network: Network, there: Sequence[Spoken]) -> dict[Key, list[Spoken]]:
    """Return the words that are keys, by type of part: of no table, of nothing that must change no bit."""
    found: dict[Key, list[Spoken]] = {}
    for one in there:
        alone = one.said.of_table or one.said.word in VARIED or changes_nothing(one)
        if drawn(one.said.word) and not alone:
            found.setdefault((type_of(network, one.part), one.said.word), []).append(one)
    return found


def _around(one: Spoken, there: Sequence[Spoken]) -> Iterator[Spoken]:
    """Yield the part, and the tables, that a word is in."""
    path = one.said.path
    for other in there:
        inside = other.part == one.part and path[: len(other.said.path)] == other.said.path
        if inside and len(other.said.path) < len(path) and (other.said.of_table or other.said.word in VARIED):
            yield other
