"""Which words of a network count, of those that are wanted: parts and tables that act, and their keys.

Layers, connections and the tables in them are taken back in each network. A key is taken back alone until
that has changed bits once in a part of its type; from then on it counts wherever its part and its table act.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from petabatch.spec.network import Network
from support.random_networks.acting import Acting, changes_nothing
from support.random_networks.pairs import VARIED, Spoken, spoken, type_of

_SECONDS = 2.0
"""Processor time in which words of a network are taken back."""
_KEYS = 15
"""Most keys of a network that are taken back, those that have been taken back least."""


class Proofs:
    """The keys that have been seen to act, by type of part."""

    def __init__(self) -> None:
        self.seen = set[tuple[str, str]]()
        self.idle = Counter[tuple[str, str]]()
        """How often a key has changed no bit."""
        self.tested = set[Spoken]()
        """The words of the latest network of which it is known whether they count."""

    def counted(self, network: Network, wanted: Mapping[str, int]) -> Iterator[Spoken]:
        """Yield the words of a network that act, of those that are wanted, the most wanted ones first."""
        acts = Acting(network, "array", _SECONDS)
        there = sorted(spoken(network), key=lambda one: -wanted.get(one.said.word, 0))
        keys: dict[tuple[str, str], list[Spoken]] = {}
        self.tested = set()
        for one in there:
            if one.said.word in wanted and self._tested(one, acts, list(_around(one, there))):
                if not (one.said.of_table or one.said.word in VARIED or changes_nothing(one)):
                    keys.setdefault((type_of(network, one.part), one.said.word), []).append(one)
                elif self._tested(one, acts, [one]):
                    yield one
        unknown = sorted(keys.keys() - self.seen, key=lambda key: (self.idle[key], key))
        for key in unknown[:_KEYS]:
            if any(map(acts, keys[key])):
                self.seen.add(key)
            elif all(map(acts.knows, keys[key])):
                self.idle[key] += 1
        yield from (one for key in keys.keys() & self.seen for one in keys[key])

    def _tested(self, one: Spoken, acts: Acting, needed: Sequence[Spoken]) -> bool:
        """Return whether what a word needs acts; take note of the word if that is known."""
        found = all(map(acts, needed))
        if found or any(acts.knows(other) and not acts(other) for other in needed):
            self.tested.add(one)
        else:
            self.tested.discard(one)
        return found


def _around(one: Spoken, there: list[Spoken]) -> Iterator[Spoken]:
    """Yield the part, and the tables, that a word is in."""
    path = one.said.path
    for other in there:
        inside = other.part == one.part and path[: len(other.said.path)] == other.said.path
        if inside and len(other.said.path) < len(path) and (other.said.of_table or other.said.word in VARIED):
            yield other
