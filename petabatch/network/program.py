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

from petabatch.kernels.operations.base import ALWAYS, Operation, When
from petabatch.kernels.operations.fields import Source
from petabatch.kernels.operations.patches import Carry
from petabatch.kernels.operations.synapses import List
from petabatch.kernels.operations.transport import Copy, Fill, FillDouble, Join
from petabatch.network.arrivals import Arrivals, active_units, with_margin
from petabatch.network.events import spiking, synaptic_events
from petabatch.network.graph import Edge, Graph
from petabatch.network.lazy_codes import MOST_ACTIVE, NAME, lazy_edges
from petabatch.network.looks import find_look
from petabatch.network.operations import Call, Control, Drive, LazyUpdate, Program, Update
from petabatch.network.readers import windows
from petabatch.spec.compiled import CompiledRule, NotSuitable, Term
from petabatch.spec.parts import Layer


def find_program(
    graph: Graph,
    measured: Collection[str] = (),
    codes: Mapping[str, str] = MappingProxyType({}),
) -> Program:
    """Return the program of a step.

    A layer without a rule, or with a connection without an operation, is a `Call` to the layer itself.
    `measured` are layers of which a norm is wanted in the middle of a run. `codes` says which codes are to be
    lazily evaluated, as `lazy_codes` returns it; none by default.
    """
    return _Maker(graph, measured, codes).make()


class _Maker:
    def __init__(
        self,
        graph: Graph,
        measured: Collection[str],
        codes: Mapping[str, str],
    ) -> None:
        self.graph, self.layers, self.run = graph, graph.network.layers, graph.network.run
        self.shared = bool(graph.shares or graph.tiling.layers)
        self.codes, self.arrivals = codes, Arrivals(graph)
        self.listed = {
            edge.connection.pre
            for edges in graph.edges.values()
            for edge in edges
            if edge.connection.operation == "sparse"
            and not _gathers(graph, edge)
            and edge.name not in graph.learning_synapses
        } | {
            name
            for name, output in graph.network.output.layers.items()
            if self.layers[name].spiking and "A" in output.variables
        }
        self.listed |= spiking(graph)
        """Layers whose active units are listed in each step."""
        self.constants: dict[str, tuple[tuple[float, ...], int]] = {}
        self.margins: dict[str, tuple[int, int, int]] = {}
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
        inside = not self.calls and all(
            layer.controller is None or name in self.controlled for name, layer in self.layers.items()
        )
        self.look = find_look(graph) if inside and not self.shared else None
        """Where it ends a run of steps early, those that only later steps would need are made too."""
        every = self.look is not None or self.shared
        self.windows = dict.fromkeys(self.layers, 0) if every else windows(graph, self.rules, measured)

    def make(self) -> Program:
        operations: list[Operation] = [
            Control(f"layers/{name}/time_scale", name, terms, self.rules[name].scale)
            for name, terms in self.controlled.items()
        ]
        for level in self.graph.order:
            for name in level:
                padded = self.arrivals.padded.copy()
                try:
                    operations += list(self._layer(name))
                except NotSuitable as reason:
                    self.arrivals.padded = padded
                    operations += self._call(name, str(reason))
                if name in self.listed:
                    operations.append(List(active_units(name), Source(f"layers/{name}/A"), name))
        operations += synaptic_events(self.graph)
        look = None if any(isinstance(one, Call) for one in operations) else self.look
        arrays = (self.arrivals.scratch, self.margins, self.constants)
        return Program(tuple(operations), *arrays, look, self.codes)

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
            self.margins[name] = with_margin(self.graph, name)
        if layer.static:
            return
        rule, sources, drives = self.rules[name], [], []
        lazily = lazy_edges(self.graph, name) if self.codes.get(name) == "" else []
        for edge in self.graph.edges[name]:
            arrival, operations = self.arrivals.of(edge, when)
            carry = operations[-1] if operations else None
            if isinstance(carry, Carry) and edge in lazily:
                del operations[-1], self.arrivals.scratch[carry.out]
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
            yield Update(key, rule, tuple(sources), name, sums=self._sums(name, rule, when), when=when)
            return
        kept = f"{NAME}/{name}"
        # Whether all units are computed is decided by the active ones of a whole layer, which no rank has.
        always = self.run.kernel == "lazy" or self.shared
        yield LazyUpdate(
            key, rule, tuple(sources), name, tuple(drives),
            f"{kept}/history", f"{kept}/decay", f"{kept}/awake",
            display=self.run.display, most=1.0 if always else MOST_ACTIVE, when=when,
        )  # fmt: skip

    def _sums(self, name: str, rule: CompiledRule, when: When) -> Join | None:
        """Return the sums over tiles that a rule makes: two numbers of float64 at a time."""
        if rule.adaptive is None or name not in self.graph.tiling.layers:
            return None
        return Join(f"scratch/sums of {name}", Source(f"scratch/{name}"), 4, tiles=True, when=when)

    def _call(self, name: str, reason: str) -> list[Operation]:
        """Return the update in the interpreter, and what comes before it of what its connections deliver."""
        key, when, padded = f"layers/{name}/A", self._when(name), self.arrivals.padded.copy()
        sources, operations = [], []
        try:
            for edge in self.graph.edges[name]:
                arrival, before = self.arrivals.of(edge, when)
                sources.append(arrival)
                operations += before
        except NotSuitable:
            self.arrivals.padded = padded
            return [Call(key, name, reason, when=when)]
        buffers = self.layers[name].buffers
        return [*operations, Call(key, name, reason, tuple(sources), buffers, when=when)]

    def _restart(self, name: str, layer: Layer, when: When, drives: Sequence[Drive]) -> Iterator[Operation]:
        period = layer.restarts.steps(self.run.display)
        if not period or not when.period:
            return
        at = When(math.lcm(period, when.period), 1 + layer.offset)
        variables = {variable.name: variable for variable in layer.variables()}
        if layer.reset_to is None:
            for variable in variables.values():
                key = f"layers/{name}/{variable.name}"
                fill = FillDouble if variable.dtype == "float64" else Fill
                yield fill(key, variable.initial, when=at)
        elif "V" in variables:
            lookback = self.graph.reset_lookback(layer.reset_to, name)
            potential = f"layers/{layer.reset_to}/V"
            seen = Source(potential)
            if potential not in self.graph.variables:
                seen = Source(f"layers/{layer.reset_to}/A", lookback)
            own, other = layer.shape, self.layers[layer.reset_to].shape
            out = f"layers/{name}/V"
            if own == other:
                yield Copy(out, seen, when=at)
            yield from self.arrivals.fitted(out, seen, other, own, at)
        else:
            raise NotSuitable("it has no potential to be reset")
        if drives:
            yield FillDouble(f"{NAME}/{name}/decay", 0.0, when=at)
        rule = self.rules[name]
        if rule.rests:
            yield Copy(f"layers/{name}/{rule.previous}", Source(f"layers/{name}/{rule.potential}"), when=at)
        elif type(layer).restart is not Layer.restart:
            raise NotSuitable("it is reset in a way of its own")

    def _followed(self, name: str) -> tuple[Term, ...]:
        """Return the norms that a time scale follows, nothing if it follows more than those of this rank."""
        controller = self.layers[name].controller
        if controller is None or name not in self.rules or self.shared:
            return ()
        energy = self.graph.network.probes[controller.energy]
        try:
            return energy.norms(self.layers)[energy.followed]
        except NotSuitable:
            return ()


def _gathers(graph: Graph, edge: Edge) -> bool:
    share = graph.shares.get(edge.name)
    return share is not None and share.gathers
