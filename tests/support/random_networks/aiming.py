"""Networks that are drawn around pairs of words that have yet to meet."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path

from petabatch.connections import Clone, Conv, Potential, Transpose
from petabatch.layers import Linear, Neurons
from petabatch.layers.lca import LCA
from petabatch.spec.model import Model
from petabatch.spec.parts import Connection, Layer, Probe
from support.random_networks.drawing import Drawing
from support.random_networks.pairs import VARIED, Pair, Where, homes, hosts
from support.random_networks.tables import Wanted
from support.random_networks.varying import RUN, numbers_of

AROUND, JOINED, HUBS = (2, 4), 2, 2
"""Layers around the sparse code that no pair needs, most connections of that kind, and layers of pairs that
these layers are joined to.
"""
_TRIES = 20
"""How often a part is drawn until it has the words that it is to have."""


class Aimed(Drawing):
    """A network that is being drawn around pairs."""

    def __init__(
        self,
        seed: int,
        folder: Path,
        wanted: Wanted,
        pairs: Sequence[tuple[Where, Pair]],
        rich: bool = True,
    ) -> None:
        super().__init__(seed, folder, wanted, rich)
        self._pairs, words = pairs, {word for _, one in pairs for word in one}
        if pairs:
            self.around, self.most_joined = AROUND, JOINED
        self.early &= rich
        self.apart &= rich
        self.early |= any(word.startswith(("Until.", "Run.until")) for word in words)
        self.apart |= any(word.startswith(("sweep", "Sweep.", "Range.")) for word in words)

    def aim(self) -> None:
        """Have the pairs meet; other layers are joined to the layers of some."""
        for where, pair in self._pairs:
            of_run = {word for word in pair if word not in hosts()}
            self.beside.setdefault(RUN, set()).update(of_run)
            for word in sorted({*pair} - of_run) if of_run else ():
                self._part(self.one_of(*hosts()[word]), {word})
            if found := homes(where, *pair):
                (first, one), (second, other) = self.one_of(*found)
                if where == "in one part":
                    name = self._part(first, {one, other})
                elif (name := self._part(first, {one})) is not None:
                    near = {"apart": name} if where == "elsewhere" else {"beside": name}
                    self._part(second, {other}, **near)
                self.hubs += [name] if name in self.layers and name not in self.hubs else []
        self.hubs = self.hubs[:HUBS]

    def _part(
        self, kind: type[Model], words: set[str], beside: str | None = None, apart: str | None = None
    ) -> str | None:
        """Return a part with these words, drawn unless there is one; None where it cannot be drawn.

        It is a neighbour of the part `beside`, and is not `apart`.
        """
        later = {word for word in words if word in VARIED or word.startswith("OverTime.")}
        self.demanded = frozenset(words - later)
        varied, name = bool(later), beside or self.one_of(*self.layers)
        found: str | None
        if issubclass(kind, Layer):
            found = layer = self._layer(kind, varied, beside or apart)
            if beside is not None:
                self._join(beside, layer)
        elif issubclass(kind, Connection):
            found = self._connection(kind, varied, beside, apart)
        elif issubclass(kind, Probe):
            found = self._probe(kind, name)
        else:
            found, later = name, words
        self.demanded = frozenset()
        if found is not None:
            self.beside.setdefault(found, set()).update(later)
        return found

    def _has(self, name: str, varied: bool) -> bool:
        """Return whether a part has all words that are demanded, and a number that can vary if it is to."""
        part = (self.layers | self.connections | self.probes)[name]
        numbers = [path for path, _ in numbers_of("", part) if not path.startswith(".start.")]
        return self.demanded <= self.said(name) and (not varied or bool(numbers))

    def _layer(self, kind: type[Layer], varied: bool, other: str | None) -> str:
        """Return a layer that is not the other one."""
        for name, layer in self.layers.items():
            if type(layer) is kind and name != other and self._has(name, varied):
                return name
        name = f"{kind.model_fields['type'].default}{len(self.layers)}"
        shapes = self.shapes
        if "Layer.reset_to" in self.demanded:
            shapes = [layer.shape for layer in self.layers.values()]
        for number in range(_TRIES):
            self.layers.pop(name, None)
            if varied and number > _TRIES / 2:  # the number that all have
                self.demanded |= {"Layer.border"}
            self.layer(name, kind, self.one_of(*shapes))
            if self._has(name, varied):
                break
        self.demanded = frozenset()
        self.feed(name)
        return name

    def _join(self, one: str, other: str) -> None:
        """Join two layers, in a direction in which they can be, unless they are."""
        self.demanded = frozenset()
        if not any({one, other} == {found.pre, found.post} for found in self.connections.values()):
            ways = [(one, other), (other, one)]
            self.any_connection(*self.one_of(*([way for way in ways if self.receives(way[1])] or ways)))

    def _connection(
        self, kind: type[Connection], varied: bool, beside: str | None, apart: str | None
    ) -> str | None:
        """Return a connection; `beside` is a layer that it joins, or the owner of its weights."""
        for name, one in self.connections.items():
            ends = (one.pre, one.post, one.learns_against, one.borrows)
            if type(one) is kind and name != apart and beside in (None, *ends) and self._has(name, varied):
                return name
        what = kind.model_fields["type"].default
        name, places = f"{what}{len(self.connections)}", self._places(what, beside)
        targets = "Connection.target" in self.demanded
        places = [ends for ends in places if not targets or self.layers[ends[1]].targets]
        if not places and beside not in self.connections:
            self._room(kind, beside or self.one_of(*self.layers))
            name, places = f"{what}{len(self.connections)}", self._places(what, beside)
            places = [ends for ends in places if not targets or self.layers[ends[1]].targets] or places
        for _ in range(_TRIES if places else 0):
            self.connections.pop(name, None)
            pre, post = self.one_of(*places)
            given = self.fitting(pre, post)[what] | ({"of": beside} if beside in self.connections else {})
            self.connect(name, kind, pre, post, **given)
            if name in self.connections and self._has(name, varied):
                break
        return name if name in self.connections else None

    def _places(self, what: str, beside: str | None) -> list[tuple[str, str]]:
        """Return the layers that a connection of a type can join."""
        ends = {beside}
        if (owner := self.connections.get(str(beside))) is not None:
            ends = {owner.pre, owner.post}
        pairs = [(pre, post) for pre, post in product(self.layers, repeat=2) if self.receives(post)]
        near = [ends_of for ends_of in pairs if beside is None or ends <= set(ends_of)]
        return [(pre, post) for pre, post in near if what in self.fitting(pre, post)]

    def _room(self, kind: type[Connection], beside: str) -> None:
        """Add a layer, or an owner of weights, for a connection of this type to a layer."""
        demanded, self.demanded = self.demanded, frozenset()
        (ny, nx, nf), name = self.layers[beside].shape, f"room{len(self.layers)}"
        what = kind.model_fields["type"].default
        if "Connection.target" in demanded:
            self.layer(name, Neurons, (ny, nx, nf))
            self.feed(name)
        elif kind in (Clone, Transpose):
            self._connection(Conv, False, beside, None)
        elif kind is Potential:
            self.layer(name, LCA, (ny, nx, nf))
            self.layers = {name: self.layers.pop(name), **self.layers}  # in front of what it delivers to
            self.feed(name)
        else:
            self.layer(name, Linear, (ny, nx, {"largest": 1, "background": 2 * nf + 2}.get(what, nf)))
            self.feed(name)
        self.demanded = demanded

    def _probe(self, kind: type[Probe], layer: str) -> str | None:
        name = f"{kind.model_fields['type'].default}{len(self.probes)}"
        for _ in range(_TRIES):
            self.probe(name, layer, kind)
            if name in self.probes and self._has(name, False):
                break
        return name if name in self.probes else None
