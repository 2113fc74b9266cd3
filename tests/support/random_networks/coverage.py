"""The pairs of words that have been drawn under each stepper, and which are wanted of further networks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from petabatch.errors import Problem
from petabatch.spec.network import Network
from support.random_networks.pairs import (
    KINDS,
    WHERE,
    Pair,
    Spoken,
    Where,
    homes,
    met,
    own_word,
    pair,
    possible,
    spoken,
    type_of,
)
from support.random_networks.values import drawn
from support.random_networks.words import Said, words

_FAR, _LATER = 0.3, 0.02
"""Weight of a pair elsewhere, and of one that a network may have later, relative to one that it has now."""
_ALLOWED = 5.0
"""How much more than others a pair is wanted that `check` has accepted."""
_NONE = frozenset[str]()
REFUSALS = 3
"""Refusals after which a word is no longer given to a type, or a pair to a part, that was never accepted."""
ATTEMPTS, LAST = 5, 12
"""Networks that are drawn around a pair that `check` refuses, and around any, at most."""
ACCEPTED = 4
"""Pairs around which a network is drawn that has nothing else."""
AMPLE = 60_000
"""Pairs that have never been drawn of which any network has many."""
TOGETHER, TARGETS = 3, 6
"""Words, and pairs of these, that a network is drawn around, at most."""


class Coverage:
    """The pairs that have been drawn under each stepper, and what is wanted of further networks."""

    def __init__(self, steppers: Iterable[str], patience: int = 30) -> None:
        """Begin with nothing; a pair that did not act in `patience` networks is no longer wanted."""
        self.drawn = {stepper: {where: set[Pair]() for where in WHERE} for stepper in steppers}
        self._patience, self.tries = patience, Counter[tuple[Where, Pair]]()
        """How often a pair has been drawn without counting."""
        self._aims = Counter[tuple[Where, Pair]]()
        """How often a network has been drawn around a pair."""
        self._targets: list[tuple[Where, Pair]] = []
        """Pairs around which the present network is drawn."""
        self.refusals: dict[tuple[Where, Pair], str] = {}
        """What `check` has said of a part, or of neighbours, that had a pair."""
        self.allowed = set[tuple[Where, Pair]]()
        """Pairs that `check` has accepted, of those that are missing."""
        self._refused = Counter[Pair]()
        """How often a table has been refused because of a pair alone."""
        self._of_types, self._why = Counter[Pair](), dict[Pair, str]()
        """How often, and why, types of parts have been refused words."""
        self._accepted, self._troubled = set[Pair](), set[str]()
        """Words that types have been seen with, and words that types are refused."""
        self._open: dict[Where, dict[str, set[str]]] = {where: {} for where in WHERE}
        for where, pairs in possible().items():
            for a, b in pairs:
                self._open[where].setdefault(a, set()).add(b)
                self._open[where].setdefault(b, set()).add(a)

    def weight(self, word: str, same: set[str], near: set[str], far: set[str]) -> float:
        """Return how much a word is wanted, the square of pairs that it adds; see `tables.Wanted`."""
        here, beside, apart = (self._open[where].get(word, _NONE) for where in WHERE)
        now = len(here & same) + len(beside & near) + _FAR * len(apart & far)
        return (now + _LATER * (len(here) + len(beside) + _FAR * len(apart))) ** 2

    def best(self, words: Collection[str], near: set[str], far: set[str]) -> float:
        """Return how much the most wanted word of a new part is wanted; see `tables.Wanted`."""
        return max((self.weight(word, _NONE, near, far) for word in words if drawn(word)), default=0.0)

    def between(self, some: set[str], others: set[str]) -> float:
        """Return how much it is wanted that two parts are neighbours."""
        beside = self._open["in neighbours"]
        return float(sum(len(beside.get(word, _NONE) & others) for word in some)) ** 2

    def wanted_twice(self, word: str) -> bool:
        """Return whether a part is to have a word twice."""
        return word in self._open["in one part"].get(word, set())

    def new(self, network: Network, said: Iterable[Spoken]) -> dict[Where, set[Pair]]:
        """Return the pairs of a network that are missing."""
        return {
            where: {(a, b) for a, b in pairs if b in self._open[where].get(a, set())}
            for where, pairs in met(network, said).items()
        }

    def add(self, found: Mapping[Where, set[Pair]], steppers: Iterable[str]) -> None:
        """Count the pairs of a network that has been run and compared under these steppers."""
        for stepper in steppers:
            for where, pairs in found.items():
                self.drawn[stepper][where] |= pairs
        for where, pairs in found.items():
            for one in pairs:
                self._close(where, one)

    def targets(self, rng: np.random.Generator) -> list[tuple[Where, Pair]]:
        """Return missing pairs of few words, those around which fewest networks have been drawn.

        There are none while any network has many such pairs. A pair that `check` refuses is no longer among
        them after some attempts.
        """
        left = Counter[str]()
        for by_word in self._open.values():
            left.update({word: len(others) for word, others in by_word.items()})
        self._targets = []
        if not left.total() or left.total() > 2 * AMPLE:
            return []
        names = sorted(left)
        shares = np.array([left[word] for word in names], float)
        words = [str(rng.choice(names, p=shares / shares.sum()))]
        while len(words) < TOGETHER:
            score = Counter[str]()
            for word in words:
                for where, by_word in self._open.items():
                    for other in by_word.get(word, ()):
                        score[other] += self._value(where, pair(word, other))  # type: ignore[assignment]
            more = [word for word in sorted(score) if word not in words and score[word] > 0]
            if not more:
                break
            chances = rng.uniform(0.5, 1, len(more))
            words.append(max(zip(more, chances, strict=True), key=lambda one: score[one[0]] * one[1])[0])
        both = [
            (where, pair(*one))
            for one in combinations_with_replacement(words, 2)
            for where in WHERE
            if one[1] in self._open[where].get(one[0], ())
        ]
        found = sorted((one for one in both if self._value(*one)), key=self._aims.__getitem__)[:TARGETS]
        self._aims.update(found)
        self._targets = found
        return found

    def accepted(self, rng: np.random.Generator) -> list[tuple[Where, Pair]]:
        """Return some missing pairs that `check` has accepted, those with fewest networks around them."""
        left = [
            (where, (a, b))
            for where, (a, b) in sorted(self.allowed)
            if b in self._open[where].get(a, _NONE) and self._aims[where, (a, b)] < LAST
        ]
        some = [left[number] for number in rng.permutation(len(left))]
        found = sorted(some, key=self._aims.__getitem__)[:ACCEPTED]
        self._aims.update(found)
        self._targets = found
        return found

    def _value(self, where: Where, one: Pair) -> float:
        """Return how much it is wanted that a network is drawn around a pair."""
        if self._given_up(where, one):
            return 0.0
        surely = _ALLOWED if (where, one) in self.allowed else 1.0
        return surely / (1 + self._aims[where, one]) ** 2

    def unexplained(self) -> Iterator[tuple[Where, Pair]]:
        """Yield missing pairs that no network has had, and of which `check` has accepted none."""
        for where, by_word in self._open.items():
            for a, others in by_word.items():
                for b in others:
                    one = where, (a, b)
                    if a <= b and not self.tries[one] and one not in self.allowed:
                        yield one

    def aim(self, one: tuple[Where, Pair]) -> None:
        """Take note of what is refused as of one pair."""
        self._targets = [one]

    def _given_up(self, where: Where, one: Pair) -> bool:
        aims = self._aims[where, one]
        return aims >= LAST or (aims >= ATTEMPTS and (where, one) in self.refusals)

    def tried(self, found: Mapping[Where, set[Pair]]) -> None:
        """Count the pairs that a network had, whether they act or not."""
        for where, pairs in found.items():
            for a, b in pairs:
                if b in self._open[where].get(a, set()):
                    self.tries[where, (a, b)] += 1
                    if self.tries[where, (a, b)] >= self._patience:
                        self._close(where, (a, b))

    def accept(self, network: Network) -> None:
        """Take note of what `check` accepts: words of types of parts."""
        for part, said in _by_part(network).items():
            self._accepted |= {(type_of(network, part), word) for word in said}

    def refuse(self, one: str, others: set[str], message: str) -> None:
        """Take note of why a table cannot have a word beside others."""
        for both in (pair(one, other) for other in filter(drawn, others if drawn(one) else ())):
            self.refusals.setdefault(("in one part", both), message)
            self._refused[both] += 1
            if self._refused[both] >= REFUSALS and not self.tries["in one part", both]:
                self._close("in one part", both)

    def refuse_in(self, own: str, word: str, beside: set[str], message: str) -> None:
        """Take note of why a type of part cannot have a word."""
        self._of_types[own, word] += 1
        if self._of_types[own, word] >= REFUSALS:
            self._troubled.add(word)
        self._why.setdefault((own, word), message)
        for other in beside:
            self.refusals.setdefault(("in one part", pair(word, other)), message)

    def refuse_words(self, network: Network, less: Network, problem: Problem) -> None:
        """Take note of why `check` refuses words of a network: those that `less` has no more.

        Where `less` lacks the whole part, the words at the key of the problem are refused in it.
        """
        message = problem.message.partition("\n")[0]
        gone = set[str]()
        for part, before, after in _changed(network, less):
            left = {one.word for one in after}
            lost = {one.word for one in before if drawn(one.word)} - left
            gone |= lost
            if not after:
                at = [".".join(map(str, (part, *one.path, ""))) for one in before]
                lost &= {
                    one.word
                    for one, path in zip(before, at, strict=True)
                    if path.startswith(f"{problem.key}.")
                }
            for word in lost:
                self.refuse_in(type_of(network, part), word, {one.word for one in before} - {word}, message)
        for where, one in self._targets:
            if not gone.isdisjoint(one):
                self.refusals.setdefault((where, one), message)

    def useless(self, own: str, word: str) -> bool:
        """Return whether a type of part is refused a word time and again, and never accepted with it."""
        return self._of_types[own, word] >= REFUSALS and (own, word) not in self._accepted

    def reason(self, where: Where, one: Pair) -> str:
        """Return why a pair has not been drawn."""
        if tries := self.tries[where, one]:
            return f"did not act in {tries} networks"
        if (where, one) in self.allowed:
            return "accepted by check"
        free = where == "elsewhere" or self._troubled.isdisjoint(one)
        whys = [] if free else [self._refused_in(home) for home in homes(where, *one)]
        if whys and all(whys):
            return f"refused: {whys[0]}"
        if (where, one) in self.refusals:
            return f"refused: {self.refusals[where, one]}"
        return "not drawn"

    def _refused_in(self, home: Iterable[tuple[type[Any], str]]) -> str:
        """Return why types of parts are never accepted with words, "" where they are."""
        of_types = ((own_word(kind), word) for kind, word in home)
        return next((self._why[one] for one in of_types if self.useless(*one)), "")

    def _close(self, where: Where, one: Pair) -> None:
        a, b = one
        self._open[where].get(a, set()).discard(b)
        self._open[where].get(b, set()).discard(a)


def _by_part(network: Network) -> dict[str, set[str]]:
    """Return the words of layers, connections and probes."""
    found: dict[str, set[str]] = {}
    for part, said in spoken(network):
        if part.partition(".")[0] in KINDS and drawn(said.word):
            found.setdefault(part, set()).add(said.word)
    return found


def _changed(network: Network, less: Network) -> Iterator[tuple[str, list[Said], list[Said]]]:
    """Yield the parts that are others, or vary in others of their numbers, with what is said of them."""
    for kind in KINDS:
        for name, part in getattr(network, kind).items():
            other = getattr(less, kind).get(name)
            both = [_varied(one, f"{kind}.{name}") for one in (network, less)]
            if other is not part or both[0] != both[1]:
                after = [] if other is None else [*words(other), *both[1]]
                yield f"{kind}.{name}", [*words(part), *both[0]], after


def _varied(network: Network, part: str) -> list[Said]:
    """Return the ways in which numbers of a part vary."""
    sweep = {} if network.sweep is None else network.sweep.columns
    ways = {"slices": network.slices, "over_time": network.over_time, "sweep": sweep}
    return [
        Said(way, (), False)
        for way, paths in ways.items()
        if any(one.startswith(f"{part}.") for one in paths)
    ]
