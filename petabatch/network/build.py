"""Checks of a network and the derivation of its graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from petabatch.errors import ParamsError, Problem
from petabatch.frozen import changed
from petabatch.network.capacity import check_synapses_fit
from petabatch.network.checks import (
    check_borders,
    check_learning,
    check_names,
    check_normalisers,
    check_observers,
    check_resets,
    check_rules,
    check_starts,
    reporter,
    unknown,
)
from petabatch.network.common import check_common, check_common_depths
from petabatch.network.constant_input import check_constant_input
from petabatch.network.evaluation import check_evaluate
from petabatch.network.exact import check_exact
from petabatch.network.features import check_features
from petabatch.network.gpu_rows import check_rows
from petabatch.network.graph import Edge, Graph
from petabatch.network.levels import delivers, delivers_later, find_levels
from petabatch.network.method import check_kernel
from petabatch.network.over_time import check_over_time
from petabatch.network.pool import check_pool
from petabatch.network.shares import Part, shares, split_layers
from petabatch.network.slices import (
    check_fits,
    check_slices,
    first_of_seeds,
    own_values,
    sliced,
    synaptic_values,
)
from petabatch.network.synaptic_rules import check_synaptic_rules
from petabatch.network.tiles import check_tiles, find_tiling, of_tile
from petabatch.network.until import check_until
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, Layer, Wiring
from petabatch.spec.synapses import LONGEST
from petabatch.weight_mode import for_each_slice, over_slices


def build(network: Network) -> Graph:
    """Check a network and derive its graph.

    Raises ParamsError with every problem found: dangling names, geometry, channels, cycles.
    """
    problems: list[Problem] = []
    check_names(network, problems)
    wirings = _wire(network, problems)
    check_borders(network, problems)
    check_starts(network, problems)
    check_learning(network, problems)
    check_rules(network, wirings, problems)
    check_synaptic_rules(network, problems)
    check_normalisers(network, problems)
    check_observers(network, problems)
    check_resets(network, problems)
    check_until(network, problems)
    check_exact(network, wirings, problems)
    check_pool(network, problems)
    check_common(network, problems)
    check_evaluate(network, problems)
    check_slices(network, problems)
    check_over_time(network, problems)
    check_features(network, problems)
    check_tiles(network, wirings, problems)
    levels = find_levels(network, problems)
    problems = problems or check_fits(network) or check_synapses_fit(network, wirings)
    if problems:
        raise ParamsError(problems)
    edges = {name: _edges(network, name, wirings, levels) for name in network.layers}
    depths = _depths(network, edges, levels)
    graph = Graph(
        network, levels, edges, wirings, depths, shares=shares(network), tiling=find_tiling(network, wirings)
    )
    problems = check_synapses(graph) or check_potentials(graph) or check_common_depths(graph)
    graph = _with_depths_of_synapses(graph)
    if problems := problems or _number_problems(graph):
        raise ParamsError(problems)
    return graph


def part_of_features(whole: Graph, network: Network, part: Part) -> Graph:
    """Return the graph of a rank that has a part of the features, with its network; the whole is checked."""
    wirings = dict(whole.wirings)
    for name, share in whole.shares.items():
        link = wirings[name].link
        if link is None:
            continue
        pre, post = link.shapes[0][2], link.shapes[1][2]
        takes = part.size(pre) if share.takes == "own" else pre
        gives = part.size(post) if share.gives == "own" else post
        wirings[name] = replace(wirings[name], link=link.with_features(takes, gives))
    return replace(_of_part(whole, network, wirings), part=part, parted=split_layers(whole.network))


def tile_of_rows(whole: Graph, network: Network, part: Part) -> Graph:
    """Return the graph of a rank that has a tile of the rows, with its network; the whole is checked."""
    wirings = dict(whole.wirings)
    for name in filter(whole.tiling.by_tiles, wirings):
        link = wirings[name].link
        if link is not None:
            wirings[name] = replace(wirings[name], link=replace(link, patches=of_tile(link.patches, part)))
    return replace(_of_part(whole, network, wirings), tiling=replace(whole.tiling, part=part))


def _of_part(whole: Graph, network: Network, wirings: Mapping[str, Wiring]) -> Graph:
    edges = {name: _edges(network, name, wirings, whole.levels) for name in network.layers}
    return replace(whole, network=network, wirings=wirings, edges=edges, known_synapses=whole.synapses)


def check_potentials(graph: Graph) -> list[Problem]:
    """Check that variables other than the activity are delivered in the step in which they were made."""
    return [
        Problem(
            f"connections.{edge.name}",
            f"{edge.connection.pre} is updated no earlier than {post}, which is to have its "
            f"{edge.connection.carries} of the present step",
            found=f"phases {graph.levels[edge.connection.pre]} and {graph.levels[post]}",
            hint="without phases, the order follows from the connections",
        )
        for post, edges in graph.edges.items()
        for edge in edges
        if edge.connection.carries != "A" and edge.lookback
    ]


def check_synapses(graph: Graph) -> list[Problem]:
    """Check that the synapses of all slices have one seed and rule, and their delays."""
    problems = []
    for name, synapses in graph.synapses.items():
        if synapses.longest > LONGEST:
            text, found = "the delays are too long", f"{synapses.longest:,} steps or more"
            problems.append(Problem(f"connections.{name}", text, found, f"at most {LONGEST:,} steps"))
        if over_slices(synapses.mode) and len(values := synaptic_values(graph.network, name)) > 1:
            path = next(path for path, value in values[0].items() if value != values[1][path])
            problems.append(
                Problem(
                    path if path in graph.network.slices else f"sweep.{path}",
                    f"the synapses of connection {name} are those of all slices",
                    found=f'connections.{name}.mode = "{synapses.mode}"',
                    expected=f'mode = "{for_each_slice(synapses.mode)}", or one run for each value',
                    hint=""
                    if path in graph.network.slices
                    else "`sweep.wave` holds points of one value at once",
                )
            )
        if synapses.delayed and "run.dt" in own_values(graph.network, 0):
            text = "the delays of synapses are whole steps of one length"
            problems.append(Problem(f"connections.{name}", text, "values of run.dt", "one value of run.dt"))
    if problems:
        return problems
    if len(seeds := first_of_seeds(graph.network)) == 1:
        return []
    return [
        Problem(
            "sweep.run.seed" if graph.network.sweep is not None else "run.seed",
            f"the synapses of connection {name} are those of all slices, and drawn from one seed",
            found=f'{len(seeds)} seeds, and connections.{name}.mode = "{synapses.mode}"',
            expected=f'mode = "{for_each_slice(synapses.mode)}", or one run for each seed',
        )
        for name, synapses in graph.synapses.items()
        if synapses.drawn and not synapses.apart
    ]


def with_numbers(graph: Graph, network: Network) -> Graph:
    """Return the graph of a network that differs in numbers alone."""
    edges = {name: _edges(network, name, graph.wirings, graph.levels) for name in network.layers}
    return replace(graph, network=network, edges=edges)


def with_numbers_of_slice(graph: Graph, number: int) -> Graph:
    """Return the graph of a slice, with what does not depend on its values taken over.

    The values are valid each by itself, see `check_slices`. Raises ParamsError when the network is not.
    """
    network = sliced(graph.network, number)
    whole = graph.part.parts == graph.tiling.part.parts == 1
    if whole and any(map(_draws, own_values(graph.network, number))):
        return replace(build(network), known_synapses=graph.synapses, depth=graph.depth)
    found = replace(with_numbers(graph, network), known_synapses=graph.synapses)
    if problems := _number_problems(found):
        raise ParamsError(problems)
    return found


def with_plain_numbers(graph: Graph, network: Network) -> Graph:
    """Return the graph of a network that differs from that of `graph` in plain numbers alone."""
    connections, edges = network.connections, graph.edges
    if connections is not graph.network.connections:
        edges = {post: _through(own, connections) for post, own in edges.items()}
    return changed(graph, network=network, edges=edges, known_synapses=graph.synapses)


def _through(edges: tuple[Edge, ...], connections: Mapping[str, Connection]) -> tuple[Edge, ...]:
    """Return edges with connections that differ in their strength; the same where none does."""
    if all(edge.connection is connections[edge.name] for edge in edges):
        return edges
    return tuple(edge.through(connections[edge.name]) for edge in edges)


def _draws(path: str) -> bool:
    """Return whether wirings and synapses may depend on the value of a key path."""
    kind, *keys = path.split(".")
    return kind == "run" or (kind == "connections" and keys[1] not in ("strength", "learn"))


def _number_problems(graph: Graph) -> list[Problem]:
    """Return what is wrong with the numbers of a network as a whole."""
    return check_constant_input(graph) or check_kernel(graph) or check_rows(graph)


def _wire(network: Network, problems: list[Problem]) -> dict[str, Wiring]:
    wirings: dict[str, Wiring] = {}
    for name, connection in network.connections.items():
        place = f"connections.{name}"
        dangling = [end for end in ("pre", "post") if getattr(connection, end) not in network.layers]
        problems += [
            unknown(f"{place}.{end}", "layer", getattr(connection, end), network.layers) for end in dangling
        ]
        if dangling:
            continue
        problems += _delivery_problems(place, connection, network.layers[connection.post])
        wiring = connection.wire(network.layers, network.connections, reporter(place, problems))
        if wiring is not None:
            wirings[name] = wiring
    return wirings


def _delivery_problems(place: str, connection: Connection, post: Layer) -> Iterator[Problem]:
    """Yield what is wrong with the channel or the target that a connection delivers to."""
    what = "target" if post.targets else "channel"
    known = list(post.channels)
    if what == "target" and connection.target is None and connection.channel != "none":
        yield Problem(
            f"{place}.target",
            f"it is not said to which variable or current of {connection.post} it delivers",
            expected=f"one of {', '.join(known)}",
        )
    elif what == "channel" and connection.target is not None:
        yield Problem(
            f"{place}.target",
            f"layer {connection.post} is of type {post.type}, which has channels",
            found=connection.target,
            expected=f"channel, one of {', '.join((*known, 'none'))}",
        )
    elif connection.into not in (*known, "none"):
        yield unknown(
            f"{place}.{what}", what, connection.into, (*known, "none") if what == "channel" else known
        )


def _edges(
    network: Network, post: str, wirings: Mapping[str, Wiring], levels: Mapping[str, int]
) -> tuple[Edge, ...]:
    found = []
    for name, connection in network.connections.items():
        if connection.post != post or not delivers(connection):
            continue
        buffer, sign = network.layers[post].channels[connection.into]
        pre = network.layers[connection.pre]
        before = connection.feedback or delivers_later(connection, pre)
        before = before or levels[connection.pre] >= levels[post]
        found.append(
            Edge(
                name,
                connection,
                wirings[name],
                connection.delay_steps + before,
                buffer,
                sign,
                sign * connection.strength,
            )
        )
    return tuple(found)


def _depths(
    network: Network, edges: Mapping[str, tuple[Edge, ...]], levels: Mapping[str, int]
) -> dict[str, int]:
    """Return how many steps of activity each layer must keep so that every edge finds its own."""
    depth = dict.fromkeys(network.layers, 1)
    for post, incoming in edges.items():
        for edge in incoming:
            pre = edge.connection.pre
            # A layer updated later in the step (or this very one) has not yet overwritten its last activity.
            later = (levels[pre] > levels[post] or pre == post) and network.layers[pre].images is None
            depth[pre] = max(depth[pre], edge.lookback + (0 if later else 1))
    for name, layer in network.layers.items():
        if layer.reset_to is not None and levels[layer.reset_to] == levels[name]:
            depth[layer.reset_to] = max(depth[layer.reset_to], 2)
    for connection in network.connections.values():
        learns = (owner := connection.patch_owner) is not None and owner.learn is not None
        if learns or connection.learns_against is not None:
            depth[connection.pre] = max(depth[connection.pre], connection.delay_steps + 1)
    return depth


def _with_depths_of_synapses(graph: Graph) -> Graph:
    """Return the graph whose layers keep the spikes that are on their way to synapses that learn."""
    depth = dict(graph.depth)
    for name, synapses in graph.learning_synapses.items():
        connection = graph.network.connections[name]
        steps = connection.delay_steps + synapses.longest + 1
        depth[connection.pre] = max(depth[connection.pre], steps)
    return replace(graph, depth=depth, known_synapses=graph.synapses) if depth != graph.depth else graph
