"""Signals: the drive of a layer and the products of a connection, from activities of some steps before.

drive of a layer = sum over its connections of  factor * (weights of the connection, applied to the activity
of its pre layer some steps ago);  Hebbian product of a connection = pre activity times post activity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from itertools import chain
from typing import Any

from petabatch.engine.features import Features
from petabatch.engine.history import History
from petabatch.engine.lane_images import ImageMargin
from petabatch.engine.state import owned
from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.lazy_property import lazy_property
from petabatch.network.graph import ACTIVE, Edge, Graph
from petabatch.network.shares import ALL
from petabatch.spec.parts import Tile
from petabatch.spec.weights import Learning
from petabatch.variable import Array, Border
from petabatch.weight_mode import over_positions

KnownProduct = Callable[[int, str, str, str, Learning, Array, "Array | None"], bool]
"""`Stepper.products`: step, connection, pre layer, layer learned against, rule, and where the results go."""


class Signals:
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
        self._arrivals: dict[str, Callable[[int], Array]] = {}

    @lazy_property
    def histories(self) -> dict[str, History]:
        """The activities of each layer."""
        return {name: History(self.arrays[f"layers/{name}/A"]) for name in self.graph.network.layers}

    @lazy_property
    def learning(self) -> dict[str, Mapping[str, Array]]:
        """The arrays of connections that learn."""
        return {name: owned(self.arrays, f"connections/{name}") for name in self.graph.plastic}

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
        """Return what a connection would deliver of this activity, with its present weights."""
        via = self.graph.network.connections[connection]
        # This activity need not be an image's, so nothing is known beyond its edge.
        border = "zero" if via.pre in self.margins else self.graph.border(via.pre)
        return via.strength * self._delivered(connection, activity, border, self._weights(connection))

    def product(
        self, weights: str, step: int, update: int, slices: Sequence[int], known: KnownProduct
    ) -> None:
        """Compute what an update of `weights` sums over slices, wherever these weights are used and learn.

        They are written to the connection's arrays, of these `slices`: its Hebbian product, what its rule
        counts and measures, and how often features were active. `known` writes what the stepper knows
        already, and returns whether it did.
        """
        sums = {kind: self.learning[weights][kind] for kind in self.graph.summed[weights]}
        (owner, against), *clones = self.graph.learning_pairs[weights]
        self._write_terms(weights, owner, against, sums, step, known)
        self._measure(weights, against, sums, step, update, slices)
        for clone, against in clones:
            terms = {kind: self.kernels.xp.empty_like(array) for kind, array in sums.items()}
            self._write_terms(weights, clone, against, terms, step, known)
            for kind, values in terms.items():
                sums[kind] += values

    def arrival(self, edge: Edge) -> Callable[[int], Array]:
        """Return the function of the step that gives what an edge delivers; the same at each call."""
        if edge.name not in self._arrivals:
            self._arrivals[edge.name] = self._arrival(edge)
        return self._arrivals[edge.name]

    def _arrival(self, edge: Edge) -> Callable[[int], Array]:
        connection, wiring = edge.connection, edge.wiring
        history, pre = self.histories[connection.pre], connection.pre

        pending = wiring.synapses is not None and f"connections/{edge.name}/pending" in self.arrays

        @cache
        def weights() -> Any:  # from the first step on: the state is not there yet
            return self._weights(edge.name, pending)

        def arrival(step: int) -> Array:
            seen = step - edge.lookback
            if connection.carries != "A":
                carried = taken(self.arrays[f"layers/{pre}/{connection.carries}"])
                return given(connection.deliver(self.kernels, wiring, carried, "zero", None))
            patches = {**weights(), "step": step} if pending else weights()
            activity = taken(history.at(seen))
            return given(self._delivered(edge.name, activity, self._border(edge.name, seen), patches))

        taken, given = self._shared(edge)
        return arrival

    def _shared(self, edge: Edge) -> tuple[Callable[[Array], Array], Callable[[Array], Array]]:
        """Return what makes the parts that a connection takes, and what makes of those it gives the input.

        Collective, where layers are split.
        """
        graph, features, tag = self.graph, self.features, self.tag
        if not graph.shares and not graph.tiling.layers:
            return (lambda activity: activity,) * 2
        takes, post = graph.taken(edge.name), graph.network.layers[edge.connection.post].shape
        adds = graph.shares.get(edge.name, ALL).gives == "sum"

        def given(delivered: Array) -> Array:
            return features.fitted(features.add(delivered) if adds else delivered, post, tag)

        return lambda activity: features.fitted(activity, takes, tag), given

    def potential(self, layer: str) -> Callable[[int], Array | None]:
        """Return the function of the step of the potential to reset a layer to; None is the initial one.

        Collective, where it is of parts that other ranks have.
        """
        source, layers = self.graph.network.layers[layer].reset_to, self.graph.network.layers
        if source is None:
            return lambda step: None
        features, tag, own = self.features, self.tag, layers[layer].shape
        if f"layers/{source}/V" in self.arrays:
            return lambda step: features.fitted(self.arrays[f"layers/{source}/V"], own, tag)
        history = History(self.arrays[f"layers/{source}/A"])
        lookback = self.graph.reset_lookback(source, layer)
        return lambda step: features.fitted(history.at(step - lookback), own, tag)

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
        link, c = self.graph.wirings[connection].link, self.graph.network.connections[connection]
        assert link is not None
        activities = self.histories[c.pre].at(step - c.delay), self.histories[against].at(step)
        fitted = self.features.fitted
        pre, post = (fitted(a, shape, self.tag) for a, shape in zip(activities, link.shapes, strict=True))
        return pre, post

    def surrounded(self, connection: str, fine: Array, border: Border = "zero") -> tuple[Array, Patches]:
        """Return the finer layer of a connection with all that patches reach of it, and their geometry on it.

        Collective, where it is made by tiles; but of an image with its margin, `border`, all is here.
        """
        link = self.graph.wirings[connection].link
        assert link is not None
        if not self.graph.tiling.by_tiles(connection) or not isinstance(border, str | float | int):
            return fine, link.patches
        return self.features.surrounded(fine, link.patches, self.tag)

    def folded(self, edge: Edge) -> Patches | None:
        """Return the patches whose sum is all that an edge delivers, None where there is more to it."""
        connection, link = edge.connection, edge.wiring.link
        plain = connection.operation in ("forward", "transposed") and connection.carries == "A"
        if link is None or not link.scatter or not plain:
            return None
        split = edge.name in self.graph.shares or edge.name in self.graph.tiling.shares
        return None if split else link.patches

    def columns(self, edge: Edge, p: Patches) -> Callable[[int], Array]:
        """Return the function of the step that gives patches weighted by the pre layer, `[L, G, M, K]`."""
        kernels, weights = self.kernels, cache(partial(self._weights, edge.name))
        history = self.histories[edge.connection.pre]

        def columns(step: int) -> Array:
            seen = step - edge.lookback
            border = self._border(edge.name, seen)
            return kernels.mixtures(kernels.coarse(history.at(seen), p, border), weights())

        return columns

    def _delivered(self, name: str, activity: Array, border: Border, patches: Any) -> Array:
        """Return what a connection delivers of an activity to the post layer, as much as there is here."""
        connection, wiring = self.graph.network.connections[name], self.graph.wirings[name]
        link = wiring.link
        if link is None:
            return connection.deliver(self.kernels, wiring, activity, border, patches)
        p, tiled = link.patches, self.graph.tiling.by_tiles(name)
        if not link.scatter:
            activity, p = self.surrounded(name, activity, border)
        elif tiled:
            p = self.features.overlapping(p)
        if p is not link.patches:
            wiring = replace(wiring, link=replace(link, patches=p))
        found = connection.deliver(self.kernels, wiring, activity, border, patches)
        return self.features.own_rows(found, link.patches, self.tag) if link.scatter and tiled else found

    def _border(self, connection: str, step: int) -> Border:
        """Return what a connection sees beyond the edge of its pre layer, at the activity of `step`."""
        layer, tiling = self.graph.network.connections[connection].pre, self.graph.tiling
        margin = self.margins.get(layer)
        if margin is None:
            return self.graph.border(layer)
        if step < 0:
            return "zero"
        image, (rows, _, features) = margin.at(step), self.graph.network.layers[layer].shape
        share = self.graph.shares.get(connection)
        if share is not None and share.cuts:
            first = self.graph.part.first(features)
            image = image[..., first : first + self.graph.part.size(features)]
        if layer in tiling.layers or not tiling.by_tiles(connection):
            return image
        around = image.shape[1] - rows  # of all rows of the layer
        first, own = tiling.part.first(rows), tiling.part.size(rows)
        return image[:, first : first + own + around]

    def _weights(self, connection: str, delayed: bool = False) -> Any:
        return delivers_by(connection, self.graph, self.arrays, self.kernels, delayed)

    def _write_terms(
        self,
        weights: str,
        name: str,
        against: str,
        into: Mapping[str, Array],
        step: int,
        known: KnownProduct,
    ) -> None:
        """Write what connection `name` adds to an update of `weights`: their owner, or a clone of it."""
        graph, xp = self.graph, self.kernels.xp
        connection, rule, link = (
            graph.network.connections[name],
            graph.plastic[weights].learn,
            graph.wirings[name].link,
        )
        assert rule is not None
        assert link is not None
        known_already = known(step, name, connection.pre, against, rule, into["product"], into.get("counts"))
        if known_already and "active" not in into:
            self._count_once(weights, name, into)
            return
        pre, post = self.ends(name, against, step)
        beyond = self._border(name, step - connection.delay)
        if not known_already:
            fine, p = self.surrounded(name, *((post,) if link.scatter else (pre, beyond)))
            ends = (pre, fine) if link.scatter else (fine, post)

            def product(a: Array, b: Array, beyond: Border) -> Array:
                coarse, fine = (a, b) if link.scatter else (b, a)
                borders: tuple[Border, Border] = (beyond, "zero") if link.scatter else ("zero", beyond)
                full = self.kernels.outer(coarse, fine, p, *borders)
                return self.kernels.from_patches(full, link, into["product"].shape[1:])

            into["product"][...] = product(*ends, beyond)
            if rule.counted:
                # Units beyond the edge count as those of the layer do.
                if not isinstance(beyond, str):
                    tallied = rule.tally(xp.asarray(beyond))
                    beyond = tallied if tallied.ndim else float(tallied)
                into["counts"][...] = product(rule.tally(ends[0]), xp.ones_like(ends[1]), beyond)[..., :1]
        if "active" in into:
            into["active"][...] = (pre != 0).sum(axis=(1, 2))[:, None, None]
        self._count_once(weights, name, into)

    def _measure(
        self,
        weights: str,
        against: str,
        into: Mapping[str, Array],
        step: int,
        update: int,
        slices: Sequence[int],
    ) -> None:
        """Write what the rule of `weights` measures beside products, where it does: all is here then."""
        owner, link = self.graph.plastic[weights], self.graph.wirings[weights].link
        assert owner.learn is not None
        assert link is not None
        further = {one.name: into[one.name] for one in owner.learn.sums(owner.weights(link))}
        if not further:
            return
        pre, post = self.ends(weights, against, step)
        units = self.kernels.coarse(pre, link.patches, "zero")[:, 0]
        patches = self.kernels.windows(post, link.patches, "zero")[:, 0]
        owner.learn.measure(
            units, patches, self._weights(weights)[:, 0], further, update, slices,
            self.graph.network.batch, self.kernels.multiply,
        )  # fmt: skip

    def _count_once(self, weights: str, name: str, into: Mapping[str, Array]) -> None:
        """Leave what is summed over tiles to the first of those that have made a connection as a whole."""
        if not self.graph.tiling.repeated(name) or self.features.tiles.rank == 0:
            return
        shared = over_positions(self.graph.weighted[weights].mode)
        for kind in into if shared else into.keys() & {ACTIVE}:
            into[kind][...] = 0


def delivers_by(
    connection: str,
    graph: Graph,
    arrays: Mapping[str, Array],
    kernels: ArrayKernels,
    delayed: bool = False,
) -> Any:
    """Return what a connection delivers by: its synapses, which may be `delayed`, or patches, or None.

    Patches are the weights as the post layer sees them.
    """
    wiring = graph.wirings[connection]
    if wiring.synapses is not None:
        mine = owned(arrays, f"connections/{connection}")
        return kernels.synapses(mine, wiring.synapses.post_units, delayed)
    weights = wiring.weights
    if weights is None:
        return None
    derived, link = arrays.get(f"connections/{weights}/patches"), graph.wirings[weights].link
    assert link is not None
    return kernels.to_patches(arrays[f"connections/{weights}/weights"], link) if derived is None else derived
