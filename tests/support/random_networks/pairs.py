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

from petabatch.connections import Clone, Conv, Transpose
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
    layer, connection, probe = (
        {one: _choices(one) for one in types(base)} for base in (Layer, Connection, Probe)
    )
    tables: list[Mapping[type[Any], list[Choice]]] = [layer, connection, probe]
    tables += [{kind: _choices(kind)} for kind in (LayerOutput, ConnectionOutput)]
    run = _choices(Run) + _choices(Sweep) + [("sweep", {}), ("Output.flush", {})]
    same = {
        pair(a, b)
        for table in [*tables, {Run: run}]
        for choices in table.values()
        for (a, on), (b, other) in combinations(choices, 2)
        if _together(on, other)
    }
    of = [{word for choices in table.values() for word, _ in choices} for table in tables]
    layers, connections, probes, layer_outputs, connection_outputs = of
    views, owners = (
        {w for kind in kinds for w, _ in connection[kind]} for kinds in ((Clone, Transpose), (Conv,))
    )
    beside = [(layers, layers), (layers, connections), (views, owners), (probes, layers),
              (layer_outputs, layers), (connection_outputs, owners)]  # fmt: skip
    everywhere, runs = set().union(*of), {word for word, _ in run}
    return {
        "in one part": frozenset(same),
        "in neighbours": frozenset(pair(a, b) for some, others in beside for a, b in product(some, others)),
        "elsewhere": frozenset(pair(a, b) for a, b in product(everywhere, everywhere | runs)),
    }


Choice = tuple[str, Mapping[Keys, str]]


def _choices(model: type[Any]) -> list[Choice]:
    """Return the words that a part of a class can have, with what they rest on."""
    found: list[Choice] = [(word, on) for word, on in vocabulary(model) if drawn(word)]
    if issubclass(model, Layer | Connection):
        found += [(way, {}) for way in VARIED] + [
            (word, {("by",): word}) for word, _ in vocabulary(OverTime)
            if word != "OverTime.by=update" or "learn" in model.model_fields
        ]  # fmt: skip
    own = type_word(model) if issubclass(model, Layer | Connection | Probe) else model.__name__
    return found if model in (Run, Sweep) else [(own, {}), *found]


@cache
def hosts() -> Mapping[Pair, Sequence[str]]:
    """Return the types of parts that can have both words of a pair."""
    found: dict[Pair, list[str]] = {}
    for base in (Layer, Connection, Probe):
        for kind in types(base):
            for (a, on), (b, other) in combinations(_choices(kind), 2):
                if _together(on, other):
                    found.setdefault(pair(a, b), []).append(type_word(kind))
    return found


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

    def refuse_words(self, network: Network, less: Network, message: str) -> None:
        """Take note of why `check` refuses words of a network: those that `less` has no more."""
        had, left = _by_part(network), _by_part(less)
        for part, said in had.items():
            for word in said - left.get(part, said):
                self.refuse_in(type_of(network, part), word, said - {word}, message)
        near = met(network, spoken(network))["in neighbours"] - met(less, spoken(less))["in neighbours"]
        for one in near:
            self.refusals.setdefault(("in neighbours", one), message)

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
                for own in hosts().get(one, ())
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
