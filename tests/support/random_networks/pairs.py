"""Pairs of words that random networks have drawn together, and those that they can.

Pairs are counted apart by where they meet: in one part, in direct neighbours (layers that a connection joins,
a connection and its layers, a clone or a transpose and its owner, an observer and what it observes), or
elsewhere in a network.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        "in one part": frozenset(same.union(types_with())),
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
def types_with() -> Mapping[Pair, Sequence[type[Any]]]:
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
        return [((kind, one), (kind, other)) for kind in types_with().get(pair(one, other), ())]
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


def type_of(network: Network, part: str) -> str:
    """Return the word of the type of a layer, connection or probe; of other parts, their name."""
    kind, _, name = part.partition(".")
    return type_word(type(getattr(network, kind)[name])) if kind in KINDS else kind


def _together(one: Mapping[Keys, str], other: Mapping[Keys, str]) -> bool:
    """Return whether two words can be said of one part: no key has two values."""
    return all(other[path] == word or path[-1] in MANY for path, word in one.items() if path in other)
