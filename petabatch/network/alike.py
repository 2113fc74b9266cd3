"""Slices that differ in plain numbers alone: the program of one, with the numbers of another.

A number is plain where its part says so: whatever its value is, only numbers of the steps follow from it. So
thousands of points have one program, which is not derived for each.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator, Mapping
from dataclasses import replace

from petabatch.frozen import changed
from petabatch.network.graph import Graph
from petabatch.network.numbers import is_plain, is_source
from petabatch.network.operations import Program, Update
from petabatch.network.slices import own_values
from petabatch.spec.network import Network

_SPECIAL = (0.0, 1.0, -1.0)
"""Strengths that are left out of a sum, or of a product."""


def kind_of_slice(values: Mapping[str, float], plain: Collection[str]) -> Hashable:
    """Return what slices have in common that differ in `plain` numbers alone, given the values of one."""
    return tuple(None if path in plain and value not in _SPECIAL else value for path, value in values.items())


def plain_numbers(network: Network) -> set[str]:
    """Return the key paths of plain numbers among those that slices differ in, and of their images."""
    return {path for path in own_values(network, 0) if is_source(network, path) or is_plain(network, path)}


def renumbered(program: Program, graph: Graph, model: Graph) -> Program:
    """Return the program of `graph`, which differs from `model`, whose program it is, in plain numbers."""
    operations = list(program.operations)
    for place, one in changes(program, graph, model):
        operations[place] = one
    return replace(program, operations=tuple(operations))


def changes(program: Program, graph: Graph, model: Graph) -> Iterator[tuple[int, Update]]:
    """Yield the operations that differ, and their places."""
    layers, known = graph.network.layers, model.network.layers
    factors = {
        (post, f"{room}/{edge.name}{end}"): edge.factor
        for post, edges in graph.edges.items()
        if edges is not model.edges[post]
        for edge in edges
        for room, end in (("connections", "/pending"), ("scratch", ""))
    }
    for place, one in enumerate(program.operations):
        if not isinstance(one, Update):
            continue
        name, sources = one.layer, one.sources
        rule = one.rule if layers[name] is known[name] else layers[name].compiled_rule()
        if any(factors.get((name, s.key), s.factor) != s.factor for s in sources):
            sources = tuple(changed(s, factor=factors.get((name, s.key), s.factor)) for s in sources)
        if rule is not one.rule or sources is not one.sources:
            yield place, changed(one, rule=rule, sources=sources)
