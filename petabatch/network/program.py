"""A step as a program: the list of operations on the arrays of one slice, derived from the graph alone.

Layers are updated level by level. What a connection with patches delivers is an operation of its own and
arrives in scratch; a layer's update adds up what arrived and one-to-one inputs, and applies its rule.
`kernels/cpu/program` runs it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from petabatch.network.graph import Edge, Graph
from petabatch.network.lazy_codes import MOST_ACTIVE, NAME, lazy_edges
from petabatch.network.operations import (
    ALWAYS,
    Call,
    Carry,
    Control,
    Copy,
    Crop,
    Drive,
    Extend,
    Fill,
    LazyUpdate,
    Operation,
    Program,
    Scatter,
    Source,
    Update,
    When,
)
from petabatch.spec.compiled import CompiledRule, NotSuitable, Term
from petabatch.spec.parts import Layer, Probe
from petabatch.variable import Border

_SELDOM = 8
"""Steps between measurements of a layer that nothing else reads, from which on it is made for those alone: a
run is then cut at them, which takes about as long as a step of a small network."""


def find_program(
    graph: Graph, measured: Collection[str] = (), codes: Mapping[str, str] = MappingProxyType({})
) -> Program:
    """Return the program of a step.

    A layer without a rule, or with a connection without an operation, is a `Call` to the layer itself.
    `measured` are layers of which a norm is wanted in the middle of a run. `codes` says which codes are to be
    lazily evaluated, as `lazy_codes` returns it; none by default.
    """
    return _Maker(graph, measured, codes).make()


def measured_layers(graph: Graph) -> set[str]:
    """Return the layers of which probes measure norms so often that programs make them in every step."""
    found: set[str] = set()
    for probe in graph.network.probes.values():
        if not 0 < probe.every.steps(graph.network.run.display) < _SELDOM:
            continue
        try:
            norms = probe.norms(graph.network.layers)
        except NotSuitable:
            continue
        found |= {term.layer for terms in norms.values() for term in terms}
    return found


class _Maker:
    def __init__(self, graph: Graph, measured: Collection[str], codes: Mapping[str, str]) -> None:
        self.measured, self.codes = measured, codes
        self.graph, self.layers, self.run = graph, graph.network.layers, graph.network.run
        self.scratch: dict[str, int] = {}
        self.constants: dict[str, tuple[tuple[float, ...], int]] = {}
        self.margins: dict[str, tuple[int, int, int]] = {}
        self.extended: set[tuple[str, When]] = set()
        self.rules: dict[str, CompiledRule] = {}
        self.calls: dict[str, str] = {}
        """Layers without a rule, and why."""
        for name, layer in self.layers.items():
            if not layer.static:
                try:
                    self.rules[name] = layer.compiled_rule()
                except NotSuitable as reason:
                    self.calls[name] = str(reason)
        self.controlled = {name: terms for name in self.layers if (terms := self._followed(name))}
        self.windows = self._windows()

    def make(self) -> Program:
        operations: list[Operation] = [
            Control(f"layers/{name}/time_scale", name, terms, self.rules[name].scale)
            for name, terms in self.controlled.items()
        ]
        for level in self.graph.order:
            for name in level:
                extended = self.extended.copy()
                try:
                    operations += list(self._layer(name))
                except NotSuitable as reason:
                    self.extended = extended
                    operations += self._call(name, str(reason))
        return Program(tuple(operations), self.scratch, self.margins, self.constants, self.codes)

    def _windows(self) -> dict[str, int]:
        """Return in how many of the last steps of a run each reader is needed; 0 for other layers: in all.

        A reader has no state, and only readers read it.
        """
        kept = {layer.reset_to for layer in self.layers.values()}
        kept |= set(self.measured)
        kept |= {read for layer in self.layers.values() for read in self._energy_layers(layer)}
        followers: dict[str, list[tuple[str, int]]] = {name: [] for name in self.layers}
        for post, edges in self.graph.edges.items():
            for edge in edges:
                followers[edge.connection.pre].append((post, edge.lookback))
        found: dict[str, int] = {}
        for name in (name for level in reversed(self.graph.order) for name in level):
            rule, layer = self.rules.get(name), self.layers[name]
            plain = rule is not None and not rule.memory and name not in kept
            if not plain or any(not found.get(post) for post, _ in followers[name]):
                continue
            reach = [found[post] + lookback for post, lookback in followers[name]]
            # A layer that stands shows what it made up to a period ago.
            period = layer.every.steps(self.run.display)
            if period:
                found[name] = max(self.graph.depth[name], *reach, 1) + period - 1
        return {name: found.get(name, 0) for name in self.layers}

    def _when(self, name: str) -> When:
        layer = self.layers[name]
        period = layer.every.steps(self.run.display)
        return When(period, 0 if period == 1 else 1 + layer.offset, window=self.windows[name])

    def _layer(self, name: str) -> Iterator[Operation]:
        if name in self.calls:
            raise NotSuitable(self.calls[name])
        layer, when, key = self.layers[name], self._when(name), f"layers/{name}/A"
        constant = layer.static and layer.images is None
        if self.graph.depth[name] > 1 and (constant or when.period != 1):
            stands = ALWAYS if constant else replace(when, stands=True)
            yield Copy(key, Source(key, 1), when=stands)
            if layer.border == "image":
                yield Copy(f"margins/{name}", Source(f"margins/{name}", 1), when=stands)
        if layer.border == "image":
            self.margins[name] = self._with_margin(name)
        if layer.static:
            return
        rule, sources, drives = self.rules[name], [], []
        lazily = lazy_edges(self.graph, name) if self.codes.get(name) == "" else []
        for edge in self.graph.edges[name]:
            arrival, operations = self._arrival(edge, when)
            carry = operations[-1] if operations else None
            if isinstance(carry, Carry) and edge in lazily:
                del operations[-1], self.scratch[carry.out]
                seen = replace(carry.source, factor=arrival.factor)
                drives.append(
                    Drive(f"{NAME}/{name}/filtered/{edge.name}", seen, carry.weights, carry.patches)
                )
            else:
                sources.append(arrival)
            yield from operations
        yield from self._restart(name, layer, when, drives)
        if rule.gates:
            gates = f"scratch/{name} gates"
            self.constants[gates] = (rule.gates, layer.shape[0] * layer.shape[1])
            sources = [s for s in sources if s.buffer != 1] + [Source(gates, buffer=1)]
        if not drives:
            yield Update(key, rule, tuple(sources), name, when=when)
            return
        kept = f"{NAME}/{name}"
        yield LazyUpdate(
            key, rule, tuple(sources), name, tuple(drives),
            f"{kept}/history", f"{kept}/current", f"{kept}/awake",
            display=self.run.display, most=1.0 if self.run.kernel == "lazy" else MOST_ACTIVE, when=when,
        )  # fmt: skip

    def _call(self, name: str, reason: str) -> list[Operation]:
        """Return the update in the interpreter, and what comes before it of what its connections deliver."""
        key, when, extended = f"layers/{name}/A", self._when(name), self.extended.copy()
        sources, operations = [], []
        try:
            for edge in self.graph.edges[name]:
                arrival, before = self._arrival(edge, when)
                sources.append(arrival)
                operations += before
        except NotSuitable:
            self.extended = extended
            return [Call(key, name, reason, when=when)]
        buffers = 1 + max((buffer for buffer, _ in self.layers[name].channels.values()), default=0)
        return [*operations, Call(key, name, reason, tuple(sources), buffers, when=when)]

    def _restart(self, name: str, layer: Layer, when: When, drives: Sequence[Drive]) -> Iterator[Operation]:
        period = layer.reset.steps(self.run.display)
        if not period or not when.period:
            return
        at = When(math.lcm(period, when.period), 1 + layer.offset)
        variables = {variable.name: variable for variable in layer.variables()}
        if layer.reset_to is None:
            for variable in variables.values():
                key = f"layers/{name}/{variable.name}"
                yield Fill(key, variable.initial, variable.dtype == "float64", when=at)
        elif "V" in variables:
            lookback = self.graph.reset_lookback(layer.reset_to, name)
            potential = f"layers/{layer.reset_to}/V"
            seen = Source(potential)
            if potential not in self.graph.variables:
                seen = Source(f"layers/{layer.reset_to}/A", lookback)
            yield Copy(f"layers/{name}/V", seen, when=at)
        else:
            raise NotSuitable("it has no potential to be reset")
        for drive in drives:
            yield Fill(drive.key, 0.0, when=at)
        if drives:
            yield Copy(f"{NAME}/{name}/history", Source(f"layers/{name}/V"), when=at)
        rule = self.rules[name]
        if rule.rests:
            yield Copy(f"layers/{name}/{rule.previous}", Source(f"layers/{name}/{rule.potential}"), when=at)
        elif type(layer).restart is not Layer.restart:
            raise NotSuitable("it is reset in a way of its own")

    def _arrival(self, edge: Edge, when: When) -> tuple[Source, list[Operation]]:
        """Return what an update reads of an edge, and the operations that must come before it."""
        c, pre = edge.connection, self.layers[edge.connection.pre]
        seen = Source(f"layers/{c.pre}/A", edge.lookback)
        place = f"connections.{edge.name}"
        if c.operation == "copy":
            return replace(seen, factor=edge.factor, buffer=edge.buffer), []
        if c.operation == "sparse" and edge.wiring.synapses is not None:
            out = f"scratch/{edge.name}"
            self.scratch[out] = math.prod(self.layers[c.post].shape)
            scatter = Scatter(out, seen, edge.name, edge.wiring.synapses.positions, when=when)
            return Source(out, 0, edge.factor, edge.buffer), [scatter]
        link = edge.wiring.link
        if c.operation == "other" or link is None:
            raise NotSuitable(f"{place}: a connection of type {c.type} has no operation")
        p, weights, method, factor = link.patches, "", "sum", 1.0
        border: Border = pre.border
        if c.operation.startswith("pool"):
            method = "max" if c.operation == "pool_max" else "sum"
            border = -math.inf if method == "max" and border == "zero" else border
            reach = p.y.size * p.x.size
            if c.operation == "pool_average":
                factor = p.y.stride * p.x.stride / reach if link.scatter else 1 / reach
        else:
            weights = f"connections/{edge.wiring.weights}/patches"
            if weights not in self.graph.variables:
                weights = f"connections/{edge.wiring.weights}/weights"
        if link.scatter:
            rows, columns = (p.y.margin,) * 2, (p.x.margin,) * 2
        else:
            rows, columns = (p.y.before, p.y.after), (p.x.before, p.x.after)
        seen, operations = self._extended(c.pre, seen, rows, columns, border, when)
        out = f"scratch/{edge.name}"
        shape = self.layers[c.post].shape
        self.scratch[out] = math.prod(shape)
        arrived = out
        if not link.scatter and (p.y.margin or p.x.margin):
            # Units beyond the edge have patches of their own, which deliver nothing this way.
            arrived = f"scratch/{edge.name} and beyond"
            self.scratch[arrived] = p.positions * p.features
        operations.append(Carry(arrived, seen, weights, p, link.scatter, method, factor, when=when))
        if arrived != out:
            start = (p.y.margin, p.x.margin)
            operations.append(Crop(out, Source(arrived), shape, start, p.x.units, when=when))
        return Source(out, 0, edge.factor, edge.buffer), operations

    def _with_margin(self, name: str) -> tuple[int, int, int]:
        (rows, columns), (ny, nx, nf) = self.graph.margins(name), self.layers[name].shape
        return ny + 2 * rows, nx + 2 * columns, nf

    def _extended(
        self,
        pre: str,
        seen: Source,
        rows: tuple[int, int],
        columns: tuple[int, int],
        border: Border,
        when: When,
    ) -> tuple[Source, list[Operation]]:
        """Return the padded layer, and the operation that pads it if no other edge has asked for it."""
        if not any((*rows, *columns)):
            return seen, []
        ny, nx, nf = self.layers[pre].shape
        out = f"scratch/{pre}[-{seen.lookback}] in {rows} {columns} {border}"
        self.scratch[out] = (ny + sum(rows)) * (nx + sum(columns)) * nf
        if (out, when) in self.extended:
            return Source(out), []
        self.extended.add((out, when))
        if border == "image":
            whole, margin = self._with_margin(pre), self.graph.margins(pre)
            part = (ny + sum(rows), nx + sum(columns), nf)
            start = (margin[0] - rows[0], margin[1] - columns[0])
            image = replace(seen, key=f"margins/{pre}")
            return Source(out), [Crop(out, image, part, start, whole[1], when=when)]
        return Source(out), [Extend(out, seen, (ny, nx, nf), rows, columns, border, when=when)]

    def _followed(self, name: str) -> tuple[Term, ...]:
        """Return the norms that the time scale of a layer follows, nothing if it follows more than those."""
        layer = self.layers[name]
        if layer.controller is None or name not in self.rules:
            return ()
        try:
            return self._energy(layer).norms(self.layers)["total"]
        except NotSuitable:
            return ()

    def _energy_layers(self, layer: Layer) -> Sequence[str]:
        return () if layer.controller is None else self._energy(layer).layers()

    def _energy(self, layer: Layer) -> Probe:
        assert layer.controller is not None
        return self.graph.network.probes[layer.controller.energy]
