"""Pairs of words that random networks have drawn together, and those that they can.

Pairs are counted apart by where they meet: in one part, in direct neighbours (layers that a connection joins,
a connection and its layers, a clone or a transpose and its owner, an observer and what it observes), or
elsewhere in a network.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import combinations, product
from typing import Any, Literal, NamedTuple

import numpy as np

from petabatch.connections import Clone, Conv, Transpose
from petabatch.errors import Problem
from petabatch.spec.network import ConnectionOutput, LayerOutput, Network, Run
from petabatch.spec.over_time import OverTime
from petabatch.spec.parts import Connection, Layer, Probe
from petabatch.spec.sweep import Sweep
from support.random_networks.values import drawn
from support.random_networks.words import MANY, Keys, Said, type_word, types, vocabulary, words

Where = Literal["in one part", "in neighbours", "elsewhere"]
WHERE: tuple[Where, ...] = ("in one part", "in neighbours", "elsewhere")
Pair = tuple[str, str]
KINDS = ("layers", "connections", "probes")
REFUSALS = 3
"""Refusals after which a word is no longer given to a type, or a pair to a part, that was never accepted."""
LAST = 12
"""Networks that are drawn around a pair, at most."""
TOGETHER, TARGETS = 8, 12
"""Words, and pairs of these, that a network is drawn around, at most."""
VARIED = ("slices", "over_time", "sweep")
"""Words of a part of which a number varies."""


class Spoken(NamedTuple):
    """A word of a part of a network."""

    part: str
    said: Said


def spoken(network: Network) -> Iterator[Spoken]:
    """Yield the words of a network by part: "layers.V1", "connections.c", ..., "output.layers.V1", "run"."""
    for kind in KINDS:
        for name, part in getattr(network, kind).items():
            yield from (Spoken(f"{kind}.{name}", one) for one in words(part))
    for kind in ("layers", "connections"):
        for name, output in getattr(network.output, kind).items():
            place = f"output.{kind}.{name}"
            yield Spoken(place, Said(type(output).__name__, (), True))
            yield from (Spoken(place, one) for one in words(output))
    for way in VARIED[:2]:
        for path, found in getattr(network, way).items():
            part = ".".join(path.split(".")[:2])
            yield Spoken(part, Said(way, (way, path), False))
            if isinstance(found, OverTime):
                yield from (
                    Spoken(part, Said(one.word, (way, path, *one.path), False)) for one in words(found)
                )
    if network.sweep is not None:
        yield Spoken("run", Said("sweep", ("sweep",), False))
        yield from (
            Spoken("run", Said(one.word, ("sweep", *one.path), False)) for one in words(network.sweep)
        )
        for path in network.sweep.columns:
            if not path.startswith("run."):
                yield Spoken(".".join(path.split(".")[:2]), Said("sweep", ("sweep",), False))
    yield from (Spoken("run", one) for one in words(network.run))
    if network.output.flush is not None:
        yield Spoken("run", Said("Output.flush", (), False))


def neighbours(network: Network) -> set[frozenset[str]]:
    """Return the pairs of parts that are direct neighbours."""
    found: set[frozenset[str]] = set()
    for name, one in network.connections.items():
        ends = {f"layers.{end}" for end in (one.pre, one.post, one.learns_against) if end is not None}
        found |= {frozenset({f"connections.{name}", end}) for end in ends}
        found |= {frozenset(pair) for pair in combinations(sorted(ends), 2)}
        if one.borrows is not None:
            found.add(frozenset({f"connections.{name}", f"connections.{one.borrows}"}))
    for name, probe in network.probes.items():
        found |= {frozenset({f"probes.{name}", f"layers.{layer}"}) for layer in probe.layers()}
    for kind in ("layers", "connections"):
        found |= {
            frozenset({f"output.{kind}.{name}", f"{kind}.{name}"}) for name in getattr(network.output, kind)
        }
    for name, layer in network.layers.items():
        if layer.reset_to is not None:
            found.add(frozenset({f"layers.{name}", f"layers.{layer.reset_to}"}))
    return found


def met(network: Network, acting: Iterable[Spoken]) -> Mapping[Where, set[Pair]]:
    """Return the pairs of words of a network, of those that act."""
    by_part: dict[str, list[Said]] = {}
    for part, said in acting:
        if drawn(said.word):
            by_part.setdefault(part, []).append(said)
    near, found = neighbours(network), {where: set[Pair]() for where in WHERE}
    for said in by_part.values():
        found["in one part"] |= {pair(a.word, b.word) for a, b in combinations(said, 2)}
    for a, b in combinations(by_part, 2):
        where: Where = "in neighbours" if frozenset({a, b}) in near else "elsewhere"
        mine, theirs = ({one.word for one in by_part[name]} for name in (a, b))
        found[where] |= {pair(one, other) for one, other in product(mine, theirs)}
    return {where: pairs & possible()[where] for where, pairs in found.items()}


def pair(one: str, other: str) -> Pair:
    """Return a pair in its order."""
    return (one, other) if one <= other else (other, one)


@cache
def possible() -> Mapping[Where, frozenset[Pair]]:
    """Return the pairs that the tables have room for, whether `check` refuses them or not."""
    run = _choices(Run) + _choices(Sweep) + [("sweep", {}), ("Output.flush", {})]
    same = {pair(a, b) for (a, on), (b, other) in combinations(run, 2) if _together(on, other)}
    everywhere, runs = frozenset(hosts()), {word for word, _ in run}
    of = {kind: frozenset(word for word, _ in _choices(kind)) for kind in _parts()}
    beside = {(of[a], of[b]) for a, b in product(of, of) if _beside(a, b)}
    return {
        "in one part": frozenset(same.union(_in_one_part())),
        "in neighbours": frozenset(pair(a, b) for some, others in beside for a, b in product(some, others)),
        "elsewhere": frozenset(pair(a, b) for a, b in product(everywhere, everywhere | runs)),
    }


@cache
def _parts() -> Sequence[type[Any]]:
    """Return the types of layers, connections and probes, and what is said of their output."""
    return [
        *(one for base in (Layer, Connection, Probe) for one in types(base)),
        LayerOutput,
        ConnectionOutput,
    ]


def _beside(one: type[Any], other: type[Any]) -> bool:
    """Return whether the second type of part can be drawn beside the first one."""
    if issubclass(one, Layer):
        return issubclass(other, Layer | Connection | Probe | LayerOutput)
    return issubclass(one, Conv) and issubclass(other, Clone | Transpose | ConnectionOutput)


@cache
def hosts() -> Mapping[str, Sequence[type[Any]]]:
    """Return the types of parts that can have a word."""
    found: dict[str, list[type[Any]]] = {}
    for kind in _parts():
        for word in dict.fromkeys(word for word, _ in _choices(kind)):
            found.setdefault(word, []).append(kind)
    return found


@cache
def _in_one_part() -> Mapping[Pair, Sequence[type[Any]]]:
    """Return the types of parts that can have both words of a pair."""
    found: dict[Pair, list[type[Any]]] = {}
    for kind in _parts():
        for both in {
            pair(a, b) for (a, on), (b, other) in combinations(_choices(kind), 2) if _together(on, other)
        }:
            found.setdefault(both, []).append(kind)
    return found


def homes(where: Where, one: str, other: str) -> list[tuple[tuple[type[Any], str], ...]]:
    """Return the types of parts in which two words can meet, with the words of each.

    The second part is drawn beside, or apart from, the first one; in one part, it is the same.
    """
    if where == "in one part":
        return [((kind, one), (kind, other)) for kind in _in_one_part().get(pair(one, other), ())]
    ways = [(a, b) for a, b in ((one, other), (other, one)) if a in hosts() and b in hosts()]
    return [
        ((first, a), (second, b))
        for a, b in ways
        for first, second in product(hosts()[a], hosts()[b])
        if where == "elsewhere" or _beside(first, second)
    ]


Choice = tuple[str, Mapping[Keys, str]]


def _choices(model: type[Any]) -> list[Choice]:
    """Return the words that a part of a class can have, with what they rest on."""
    found: list[Choice] = [(word, on) for word, on in vocabulary(model) if drawn(word)]
    if issubclass(model, Layer | Connection):
        found += [(way, {}) for way in VARIED] + [
            (word, {("by",): word}) for word, _ in vocabulary(OverTime)
            if word != "OverTime.by=update" or "learn" in model.model_fields
        ]  # fmt: skip
    return found if model in (Run, Sweep) else [(own_word(model), {}), *found]


def own_word(model: type[Any]) -> str:
    """Return the word of a type of part."""
    return type_word(model) if issubclass(model, Layer | Connection | Probe) else model.__name__


def _by_part(network: Network) -> dict[str, set[str]]:
    """Return the words of layers, connections and probes."""
    found: dict[str, set[str]] = {}
    for part, said in spoken(network):
        if part.partition(".")[0] in KINDS and drawn(said.word):
            found.setdefault(part, set()).add(said.word)
    return found


def type_of(network: Network, part: str) -> str:
    """Return the word of the type of a layer, connection or probe; of other parts, their name."""
    kind, _, name = part.partition(".")
    return type_word(type(getattr(network, kind)[name])) if kind in KINDS else kind


def _together(one: Mapping[Keys, str], other: Mapping[Keys, str]) -> bool:
    """Return whether two words can be said of one part: no key has two values."""
    return all(other[path] == word or path[-1] in MANY for path, word in one.items() if path in other)


class Coverage:
    """The pairs that have been drawn under each stepper, and what is wanted of further networks."""

    def __init__(self, steppers: Iterable[str], patience: int = 8) -> None:
        """Begin with nothing; a pair that did not act in `patience` networks is no longer wanted."""
        self.drawn = {stepper: {where: set[Pair]() for where in WHERE} for stepper in steppers}
        self._patience, self.tries = patience, Counter[tuple[Where, Pair]]()
        """How often a pair has been drawn without counting."""
        self._aims = Counter[tuple[Where, Pair]]()
        """How often a network has been drawn around a pair."""
        self.refusals: dict[tuple[Where, Pair], str] = {}
        """What `check` has said of a part, or of neighbours, that had a pair."""
        self._refused = Counter[Pair]()
        """How often a table has been refused because of a pair alone."""
        self._of_types, self._why = Counter[Pair](), dict[Pair, str]()
        """How often, and why, types of parts have been refused words."""
        self._accepted = set[Pair]()
        self._open: dict[Where, dict[str, set[str]]] = {where: {} for where in WHERE}
        for where, pairs in possible().items():
            for a, b in pairs:
                self._open[where].setdefault(a, set()).add(b)
                self._open[where].setdefault(b, set()).add(a)

    def weight(self, word: str, same: set[str], near: set[str]) -> float:
        """Return how much a word is wanted; see `tables.Wanted`."""
        here, beside, far = (self._open[where].get(word, set()) for where in WHERE)
        return 20.0 * (len(here & same) + len(beside & near)) + 0.2 * (len(here) + len(beside) + len(far))

    def best(self, words: Collection[str], near: set[str]) -> float:
        """Return how much the most wanted word of a new part is wanted; see `tables.Wanted`."""
        return max((self.weight(word, set(), near) for word in words if drawn(word)), default=0.0)

    def between(self, some: set[str], others: set[str]) -> float:
        """Return how much it is wanted that two parts are neighbours."""
        beside = self._open["in neighbours"]
        return 2.0 * sum(len(beside.get(word, set()) & others) for word in some)

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
        """Return pairs that have never been drawn, of few words, those around which fewest networks were.

        A pair that `check` refuses is no longer among them after some attempts.
        """
        left = [
            (where, (a, b))
            for where, by_word in self._open.items() for a, others in by_word.items() for b in others
            if a <= b and not self.tries[where, (a, b)] and not self._given_up(where, (a, b))
        ]  # fmt: skip
        if not left:
            return []
        some = [left[number] for number in rng.permutation(len(left))]
        beside: dict[str, dict[str, float]] = {}
        for where, (a, b) in some:
            value = 1 / (1 + self._aims[where, (a, b)]) ** 2
            for one, other in {(a, b), (b, a)}:
                values = beside.setdefault(one, {})
                values[other] = values.get(other, 0.0) + value
        words = list(min(some, key=self._aims.__getitem__)[1])
        while len(words) < TOGETHER:
            score = Counter[str]()
            for word in words:
                score.update(beside[word])  # type: ignore[arg-type]
            more = [word for word, _ in score.most_common() if word not in words]
            if not more:
                break
            words.append(more[0])
        found = sorted((one for one in some if {*one[1]} <= {*words}), key=self._aims.__getitem__)[:TARGETS]
        self._aims.update(found)
        return found

    def _given_up(self, where: Where, one: Pair) -> bool:
        aims = self._aims[where, one]
        return aims >= LAST or (aims >= REFUSALS and self.reason(where, one) != "not drawn")

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
        self._why.setdefault((own, word), message)
        for other in beside:
            self.refusals.setdefault(("in one part", pair(word, other)), message)

    def refuse_words(self, network: Network, less: Network, problem: Problem) -> None:
        """Take note of why `check` refuses words of a network: those that `less` has no more.

        Where it has the part no more, those are the words at the key of the problem.
        """
        message = problem.message.partition("\n")[0]
        had, left = _by_part(network), _by_part(less)
        at_fault = {
            one.said.word
            for one in spoken(network)
            if ".".join(map(str, (one.part, *one.said.path, ""))).startswith(f"{problem.key}.")
        }
        for part, said in had.items():
            kept = left.get(part, said - at_fault if problem.key.startswith(f"{part}.") else said)
            for word in said - kept:
                self.refuse_in(type_of(network, part), word, said - {word}, message)
        before, after = (met(one, spoken(one)) for one in (network, less))
        for where in WHERE[1:]:
            for one in before[where] - after[where]:
                self.refusals.setdefault((where, one), message)

    def useless(self, own: str, word: str) -> bool:
        """Return whether a type of part is refused a word time and again, and never accepted with it."""
        return self._of_types[own, word] >= REFUSALS and (own, word) not in self._accepted

    def reason(self, where: Where, one: Pair) -> str:
        """Return why a pair has not been drawn."""
        if tries := self.tries[where, one]:
            return f"did not act in {tries} networks"
        if where == "in one part":
            whys = [
                next((self._why[own, word] for word in one if self.useless(own, word)), "")
                for own in map(own_word, _in_one_part().get(one, ()))
            ]
            if whys and all(whys):
                return f"refused: {whys[0]}"
        if (where, one) in self.refusals:
            return f"refused: {self.refusals[where, one]}"
        return "not drawn"

    def _close(self, where: Where, one: Pair) -> None:
        a, b = one
        self._open[where].get(a, set()).discard(b)
        self._open[where].get(b, set()).discard(a)
