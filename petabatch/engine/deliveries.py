"""Deliveries: what arrives at the layers of a lane, by the operations of a program on arrays.

drive of a layer = sum over its connections of  factor * (what the operations of the connection make of the
activity of its pre layer some steps ago).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from petabatch.engine.features import Features
from petabatch.engine.history import History
from petabatch.engine.lane_images import ImageMargin
from petabatch.engine.state import owned
from petabatch.geometry import Axis, Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.operations.base import ALWAYS, Operation
from petabatch.kernels.operations.fields import Source
from petabatch.kernels.operations.patches import Synthesize
from petabatch.kernels.operations.synapses import Scatter
from petabatch.lazy_property import lazy_property
from petabatch.network.arrivals import Arrivals, Shape, with_margin
from petabatch.network.events import synaptic_events
from petabatch.network.graph import Edge, Graph
from petabatch.network.operations import Deliver, SynapticEvents
from petabatch.parallel.cut import Cut, whole_of
from petabatch.parallel.neighbours import added, renewed, surrounded
from petabatch.spec.parts import Tile
from petabatch.variable import Array, Border, host, module_of

GIVEN = "scratch/given"
"""An array that is not one of the lane."""


class Deliveries:
    """The connections of a lane, on its arrays."""

    def __init__(
        self,
        graph: Graph,
        kernels: ArrayKernels,
        arrays: Mapping[str, Array],
        margins: Mapping[str, ImageMargin],
        features: Features,
        tag: int = 0,
    ) -> None:
        """Wire `arrays`, a lane's views; `margins` are the images beyond the edges of its inputs.

        Messages to ranks that share its slices have the `tag`, which is the lane's own.
        """
        self.tag = tag
        self.graph, self.kernels, self.arrays = graph, kernels, arrays
        self.margins, self.features = margins, features
        self._arrivals: dict[str, Arrival] = {}
        self._carried: dict[tuple[str, Border], Arrival] = {}
        self._synapses: dict[tuple[str, bool], Mapping[str, Any]] = {}
        self._ends: dict[tuple[str, str], tuple[Arrival, Arrival]] = {}

    @lazy_property
    def histories(self) -> dict[str, History]:
        """The activities of each layer."""
        return {name: History(self.arrays[f"layers/{name}/A"]) for name in self.graph.network.layers}

    def drive(self, layer: str) -> Callable[[int], list[Array]]:
        """Return the function of the step that gives a layer's drive: its buffers `[lanes, ny, nx, nf]`."""
        like, buffers = self.histories[layer].at(0), self.graph.network.layers[layer].buffers
        drive = [self.kernels.xp.zeros(like.shape, like.dtype) for _ in range(buffers)]
        incoming = [(edge, self.arrival(edge)) for edge in self.graph.edges[layer]]

        def gather(step: int) -> list[Array]:
            for buffer in drive:
                buffer[...] = 0
            for edge, arrival in incoming:
                arrived = arrival(step)
                plain = isinstance(edge.factor, float | int) and edge.factor == 1
                drive[edge.buffer] += arrived if plain else edge.factor * arrived
            return drive

        return gather

    def skip(self, layer: str) -> Callable[[int], None]:
        """Return the function of the step that advances synapses with delays where the layer is not due."""
        delayed = [self.arrival(edge) for edge in self.graph.edges[layer] if edge.name in self.graph.delayed]

        def skip(step: int) -> None:
            for arrival in delayed:
                arrival(step)

        return skip

    def events(self) -> list[Callable[[int], None]]:
        """Return the functions of the step that make the events of synapses that learn, in their order."""

        def made(one: SynapticEvents) -> Callable[[int], None]:
            def make(step: int) -> None:
                one.on(_View(self, step))

            return make

        return [made(one) for one in synaptic_events(self.graph)]

    def rest(self, first: int, last: int) -> None:
        """Let the activity of steps first+1 .. last be that of `first`; synapses with delays deliver it."""
        histories, graph = self.histories.values(), self.graph
        late = [
            (self.arrival(edge), graph.synapses[edge.name].longest + 1)
            for edges in graph.edges.values()
            for edge in edges
            if edge.name in graph.delayed
        ]
        depth, longest = max(one.length for one in histories), max((length for _, length in late), default=0)
        # Between these all places stand, and what synapses deliver arrives before the end.
        head = range(first + 1, min(first + depth, last) + 1)
        tail = range(max(head.stop, last - longest + 1), last + 1)
        for step in chain(head, tail):
            for history in histories:
                if step <= first + history.length:
                    history.stand(step)
            for arrival, length in late:
                if step > last - length:
                    arrival(step)

    def through(self, connection: str, activity: Array) -> Array:
        """Return what a connection would deliver of this activity of a whole layer, with its present weights.

        Collective, where layers are split.
        """
        via = self.graph.network.connections[connection]
        # This activity need not be an image's, so nothing is known beyond its edge.
        border = self.graph.border(via.pre)
        return via.strength * self.carried(connection, activity, "zero" if border == "image" else border)

    def carried(self, connection: str, activity: Array, border: Border) -> Array:
        """Return what a connection makes of a whole layer, and of what is beyond its edge, without delay."""
        arrival = self._carried.get((connection, border))
        if arrival is None:
            c, wiring = self.graph.network.connections[connection], self.graph.wirings[connection]
            edge = Edge(connection, c, wiring, 0, 0, 1.0, c.strength)
            arrivals = Arrivals(self.graph, on_arrays=True)
            made, operations, shape = arrivals.whole(edge, Source(GIVEN), border)
            at_once = [
                replace(one, delayed=False) if isinstance(one, Scatter | Deliver) else one
                for one in operations
            ]
            arrival = Arrival(self, at_once, made, shape)
            self._carried[connection, border] = arrival
        return arrival(0, activity)

    def arrival(self, edge: Edge) -> Callable[[int], Array]:
        """Return the function of the step that gives what an edge delivers; the same at each call."""
        return self._arrival(edge)

    def by_type(self, edge: Edge) -> Callable[[int], Array]:
        """Return the function of the step that gives what the type of an edge delivers by its `deliver`."""
        arrivals = Arrivals(self.graph, on_arrays=True)
        c = edge.connection
        seen = Source(f"layers/{c.pre}/{c.carries}", edge.lookback)
        one = arrivals.delivered(edge, seen, self.graph.border(c.pre), ALWAYS)
        return Arrival(self, [one], Source(one.out), self.graph.given(edge.name))

    def columns(self, edge: Edge) -> tuple[Patches, Callable[[int], Array]] | None:
        """Return patches whose sum is all that an edge delivers, None where there is more to it.

        With the function of the step that gives them weighted by the pre layer, `[lanes, G, M, K]`.
        """
        arrival = self._arrival(edge)
        last = arrival.operations[-1] if arrival.operations else None
        return (last.geometry, arrival.columns) if isinstance(last, Synthesize) else None

    def fitted(self, source: Source, shape: Shape, to: Shape) -> Arrival:
        """Return the function of the step that gives a layer with the parts of all ranks, or of this one.

        `shape` is that of its part here. Collective, where other ranks have parts of it.
        """
        made = list(Arrivals(self.graph).fitted("scratch/fitted", source, shape, to, ALWAYS))
        return Arrival(self, made, Source("scratch/fitted") if made else source, to)

    def potential(self, layer: str) -> Callable[[int], Array | None]:
        """Return the function of the step of the potential to reset a layer to; None is the initial one.

        Collective, where it is of parts that other ranks have.
        """
        source, layers = self.graph.network.layers[layer].reset_to, self.graph.network.layers
        if source is None:
            return lambda step: None
        seen = Source(f"layers/{source}/V")
        if seen.key not in self.arrays:
            seen = Source(f"layers/{source}/A", self.graph.reset_lookback(source, layer))
        return self.fitted(seen, layers[source].shape, layers[layer].shape)

    def tile(self, layer: str) -> Tile:
        """Return the rows that there are here of a layer."""
        if layer not in self.graph.tiling.layers:
            return Tile()

        def total(values: Array) -> Array:
            found = self.kernels.xp.array(values)
            self.features.add_tiles(found, self.tag)
            return found

        return Tile(*self.graph.tiling.part, total)

    def ends(self, connection: str, against: str, step: int) -> tuple[Array, Array]:
        """Return the activities whose product the weights of a connection learn from: of their parts.

        Collective, where layers are split.
        """
        if (connection, against) not in self._ends:
            link, c = self.graph.wirings[connection].link, self.graph.network.connections[connection]
            assert link is not None
            layers, (pre, post) = self.graph.network.layers, link.shapes
            self._ends[connection, against] = (
                self.fitted(Source(f"layers/{c.pre}/A", c.delay_steps), layers[c.pre].shape, pre),
                self.fitted(Source(f"layers/{against}/A"), layers[against].shape, post),
            )
        before, after = self._ends[connection, against]
        return before(step), after(step)

    def surrounded(self, connection: str, fine: Array, border: Border = "zero") -> tuple[Array, Patches]:
        """Return the finer layer of a connection with all that patches reach of it, and their geometry on it.

        Collective, where it is made by tiles; but of an image with its margin, `border`, all is here.
        """
        link, tiles = self.graph.wirings[connection].link, self.features.tiles
        assert link is not None
        p, y = link.patches, link.patches.y
        by_tiles = self.graph.tiling.by_tiles(connection) and (y.before or y.after)
        if not by_tiles or not isinstance(border, str | float | int):
            return fine, p
        wide = module_of(fine).asarray(surrounded(tiles, host(fine), y.before, y.after, self.tag))
        before = y.before if tiles.rank > 0 else 0  # beyond the edge of the image is no row of any tile
        return wide, replace(p, y=Axis(y.coarse, wide.shape[1], y.stride, y.size, lead=before + y.lead))

    def patches(self, weights: str) -> Array:
        """Return the weights of a connection as the post layer sees them."""
        link = self.graph.wirings[weights].link
        assert link is not None
        return self.weights(self.graph.patches_of(weights), link.patches)

    def at(self, key: str, step: int) -> Array:
        """Return an array of the lane as it is at the end of a step."""
        name = key.partition("/")[2]
        if key.startswith("margins/"):
            if step >= 0:
                return self.margins[name].at(step)
            like = self.arrays[f"layers/{name}/A"]
            return self.kernels.xp.zeros((len(like), *with_margin(self.graph, name)), like.dtype)
        held = self.arrays[key]
        return held[:, step % held.shape[1]] if name.endswith("/A") else held

    def weights(self, key: str, p: Patches) -> Array:
        """Return weights as patches `[lanes or 1, G, nf, K]`."""
        held = self.arrays[key]
        return held.reshape(len(held), p.groups, p.features, p.length)

    def synapses(self, connection: str, delayed: bool) -> Mapping[str, Any]:
        """Return the synapses of a connection as `ArrayKernels.scatter` takes them."""
        if (connection, delayed) not in self._synapses:
            ends = self.graph.wirings[connection].synapses
            assert ends is not None
            mine = owned(self.arrays, f"connections/{connection}")
            self._synapses[connection, delayed] = self.kernels.synapses(mine, ends.post_units, delayed)
        return self._synapses[connection, delayed]

    def _arrival(self, edge: Edge) -> Arrival:
        if edge.name not in self._arrivals:
            source, operations = Arrivals(self.graph, on_arrays=True).of(edge, ALWAYS)
            shape = self.graph.network.layers[edge.connection.post].shape
            self._arrivals[edge.name] = Arrival(self, operations, source, shape)
        return self._arrivals[edge.name]


class Arrival:
    """What operations make of the arrays of a lane, step by step."""

    def __init__(
        self, lane: Deliveries, operations: Sequence[Operation], source: Source, shape: Shape
    ) -> None:
        """`source` is what is asked for, of this shape in each slice, when all operations have been made."""
        self.operations, self._lane, self._source, self._shape = operations, lane, source, shape

    def __call__(self, step: int, given: Array | None = None) -> Array:
        """Return it at a step, `[lanes, ny, nx, nf]`."""
        made = self._made(self.operations, step, given).see(self._source)
        return made.reshape(len(made), *self._shape)

    def columns(self, step: int) -> Array:
        """Return the patches that the last operation adds up."""
        *before, last = self.operations
        assert isinstance(last, Synthesize)
        return last.columns(self._made(before, step))

    def _made(self, operations: Sequence[Operation], step: int, given: Array | None = None) -> _View:
        view = _View(self._lane, step)
        if given is not None:
            view.made[GIVEN] = given
        for one in operations:
            view.made[one.out] = one.on(view)
        return view


class _View:
    """A lane in a step, and what operations have made in it."""

    def __init__(self, lane: Deliveries, step: int) -> None:
        self._lane, self.kernels, self.step = lane, lane.kernels, step
        self.made: dict[str, Any] = {}
        self.patches, self.synapses = lane.weights, lane.synapses

    def see(self, source: Source) -> Any:
        found = self.made.get(source.key)
        return self._lane.at(source.key, self.step - source.lookback) if found is None else found

    def added(self, part: Array) -> Array:
        mine = np.ascontiguousarray(host(part))
        self._lane.features.adders.add_parts(mine, total := np.empty_like(mine), self._lane.tag)
        return module_of(part).asarray(total)

    def gathered(self, part: Array, tiles: bool) -> Array:
        features, block = self._lane.features, part.shape[2]
        ranks = features.tiles if tiles else features.adders
        return whole_of(ranks, part, Cut(1, block, block), self._lane.tag)

    def exchanged(self, wide: Array, before: int, after: int, adds: bool) -> Array:
        exchange, tiles = added if adds else renewed, self._lane.features.tiles
        return module_of(wide).asarray(exchange(tiles, host(wide), before, after, self._lane.tag))
