"""The graph of a network: levels, edges with their delays, and the declaration of all arrays."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from petabatch.equations.synapses import CHANGE
from petabatch.frozen import changed
from petabatch.geometry import Patches
from petabatch.network.numbers import with_values
from petabatch.network.shares import ALL, WHOLE, Part, Share
from petabatch.network.slices import first_of_seeds, seed_of, synaptic_values
from petabatch.network.tiles import UNTILED, Tiling
from petabatch.network.until import variables
from petabatch.random import stream
from petabatch.spec.network import Network
from petabatch.spec.parts import Connection, PatchOwner, WeightOwner, Wiring
from petabatch.spec.synapses import Synapses
from petabatch.variable import Border, Variable, Whole

ACTIVE = "active"
"""The sum over slices of how often features were active."""


@dataclass(frozen=True)
class Edge:
    """A connection in its place: what it delivers, from when, into which buffer."""

    name: str
    connection: Connection
    wiring: Wiring
    lookback: int
    """The pre layer's activity of this many steps before is delivered."""
    buffer: int
    sign: float
    """Of the channel."""
    factor: float
    """Strength times the sign of the channel."""

    @property
    def plain_patches(self) -> Patches | None:
        """The patches by whose plain products it delivers; None if it delivers otherwise."""
        link = self.wiring.link
        if link is None or link.scatter or self.connection.operation not in ("forward", "transposed"):
            return None
        return None if link.patches.y.margin or link.patches.x.margin else link.patches

    def through(self, connection: Connection) -> Edge:
        """Return the edge with a connection that differs in its strength."""
        return changed(self, connection=connection, factor=self.sign * connection.strength)


@dataclass(frozen=True)
class Graph:
    """A checked network. Levels are updated in order; layers of one level do not wait for each other."""

    network: Network
    levels: Mapping[str, int]
    edges: Mapping[str, tuple[Edge, ...]]
    """Delivering connections by post layer, in the order of the params file."""
    wirings: Mapping[str, Wiring]
    """Of every connection, delivering or not."""
    depth: Mapping[str, int]
    """Steps of activity each layer keeps."""
    known_synapses: Mapping[str, Synapses] | None = None
    """Those of a graph that differs in other numbers."""
    shares: Mapping[str, Share] = field(default_factory=dict)
    """By connection, what a rank does with the features at its ends, where layers are split by features."""
    parted: frozenset[str] = frozenset()
    """Layers of whose features a rank has a part."""
    part: Part = WHOLE
    """Of the features that a rank has."""
    tiling: Tiling = UNTILED
    """The rows that a rank has, where layers are split by rows."""

    @cached_property
    def order(self) -> list[list[str]]:
        """Layer names, level by level."""
        numbers = sorted(set(self.levels.values()))
        return [[name for name in self.network.layers if self.levels[name] == number] for number in numbers]

    @cached_property
    def shows(self) -> bool:
        """Whether a layer shows images; if none does, nothing happens when a display ends."""
        return any(layer.images is not None for layer in self.network.layers.values())

    @cached_property
    def plastic(self) -> dict[str, PatchOwner]:
        """Connections whose patches learn, by updates at the ends of steps."""
        return {name: c for name, c in self.patched.items() if c.learn is not None}

    @cached_property
    def settled(self) -> frozenset[str]:
        """Keys of arrays of connections that neither steps nor updates change: those of fixed weights."""
        found: set[str] = set()
        changing = set(self.plastic)
        for name, owner in self.patched.items():  # what is normalised with weights that learn
            members = (name, *owner.normalize.together) if owner.normalize is not None else ()
            changing.update(members if not changing.isdisjoint(members) else ())
        for name in self.weighted.keys() - changing:
            prefix = f"connections/{name}/"
            found |= {
                key for key in self.variables if key.startswith(prefix) and not key.endswith("/pending")
            }
        return frozenset(found - self.learned)

    @cached_property
    def learning_synapses(self) -> dict[str, Synapses]:
        """Single synapses that change at spikes, by connection."""
        return {name: synapses for name, synapses in self.synapses.items() if synapses.learn is not None}

    @cached_property
    def learned(self) -> frozenset[str]:
        """Keys of the arrays of connections that spikes change: weights and variables of synapses."""
        return frozenset(
            f"connections/{name}/{variable.name}"
            for name, synapses in self.learning_synapses.items()
            for variable in (synapses.weights, *synapses.learned)
        )

    @cached_property
    def makes_weights(self) -> tuple[str, ...]:
        """Keys of the arrays that say what weights there are, from which patches follow."""
        found = [f"connections/{name}/weights" for name in self.weighted]
        for name, synapses in self.synapses.items():
            found += [f"connections/{name}/{one.name}" for one in synapses.structure]
        return tuple(found)

    @cached_property
    def learning_pairs(self) -> dict[str, list[tuple[str, str]]]:
        """By plastic connection, where its weights learn: itself and clones, each with its error layer."""
        found = {}
        for name, owner in self.plastic.items():
            assert owner.learn is not None
            found[name] = [
                (name, owner.learn.against or owner.post),
                *(
                    (other, clone.learns_against)
                    for other, clone in self.network.connections.items()
                    if clone.borrows == name and clone.learns_against is not None
                ),
            ]
        return found

    @cached_property
    def upstream_of_controlled(self) -> frozenset[str] | None:
        """Layers from which something reaches a layer with a time scale; None without any such layer."""
        found = {name for name, layer in self.network.layers.items() if layer.controller is not None}
        if not found:
            return None
        waiting = list(found)
        while waiting:
            before = {edge.connection.pre for edge in self.edges[waiting.pop()]} - found
            found |= before
            waiting += before
        return frozenset(found)

    @cached_property
    def weighted(self) -> dict[str, WeightOwner]:
        """Connections with weights of their own: patches or single synapses."""
        return {name: c.owner for name, c in self.network.connections.items() if c.owner is not None}

    @cached_property
    def patched(self) -> dict[str, PatchOwner]:
        """Those of which the weights are patches."""
        return {name: c for name, one in self.weighted.items() if (c := one.as_patches) is not None}

    @cached_property
    def synapses(self) -> Mapping[str, Synapses]:
        """Single synapses by connection."""
        if self.known_synapses is not None:
            return self.known_synapses
        run, found = self.network.run, {}
        first_slice, *others_of_seeds = first_of_seeds(self.network)
        seed, several = seed_of(self.network, first_slice), bool(others_of_seeds)
        for name, wiring in self.wirings.items():
            if wiring.synapses is None:
                continue
            first, *others = synaptic_values(self.network, name)
            connection = with_values(self.network, first).connections[name]
            one = connection.synapses(wiring.synapses, stream(seed, f"synapses/{name}"), run.dt)
            seeds = several and one.drawn and one.per == "slice"
            apart = one.per_slice or seeds or bool(others)
            most, longest = len(one.targets), one.longest
            if apart:
                most, _ = connection.room(wiring.synapses, run.dt)
                for values in others:
                    room = with_values(self.network, values).connections[name].room(wiring.synapses, run.dt)
                    most, longest = max(most, room[0]), max(longest, room[1])
            found[name] = replace(one, apart=apart, most=most, longest=longest)
        return found

    @cached_property
    def delayed(self) -> frozenset[str]:
        """Connections whose synapses have delays; they are advanced in steps that the post layer skips, too.

        Without those to layers that are never updated or take no input, and those that learn, whose events
        are made in each step.
        """
        takes = {name for name, one in self.network.layers.items() if one.every.count and not one.static}
        late = {name for name, one in self.synapses.items() if one.delayed and one.learn is None}
        return frozenset(edge.name for post in takes for edge in self.edges[post] if edge.name in late)

    @cached_property
    def variables(self) -> dict[str, Variable]:
        """Every array of the network, by its key, as `layers/V1/V`; a plan adds those of its stepper."""
        layers = self.network.layers
        found: dict[str, Variable] = variables(self.network)
        for name, layer in layers.items():
            found[f"layers/{name}/A"] = Variable(
                "A",
                (self.depth[name], *layer.shape),
                ("lag", "y", "x", "feature"),
                "activity of the last steps, step t in place t modulo the length",
                per="slice" if layer.batch is None else "network",
                whole=Whole("numbers of spikes", 0) if layer.spiking else None,
            )
            for variable in layer.variables():
                found[f"layers/{name}/{variable.name}"] = variable
        for name, probe in self.network.probes.items():
            found |= {
                f"probes/{name}/{variable.name}": variable
                for variable in probe.variables(self.network.layers)
            }
        for name, synapses in self.synapses.items():
            found |= {f"connections/{name}/{variable.name}": variable for variable in synapses.variables()}
        for name, owner in self.patched.items():
            link = self.wirings[name].link
            assert link is not None
            weights = owner.weights(link)
            found[f"connections/{name}/weights"] = weights
            if not link.scatter:
                p = link.patches
                found[f"connections/{name}/patches"] = Variable(
                    "patches",
                    (p.groups, p.features, p.length),
                    ("group", "feature", "weight"),
                    "the weights seen from the post layer",
                    per=weights.per,
                    checkpoint=False,
                )
            if owner.learn is not None:
                own = [*owner.learn.variables(weights), *self._update_variables(name, owner, weights)]
                found |= {f"connections/{name}/{variable.name}": variable for variable in own}
        return found

    @cached_property
    def summed(self) -> dict[str, tuple[str, ...]]:
        """What the updates of each plastic connection need of the slices, by the names of its arrays.

        The product of pre and post, the counts of the rule, how often features were active, and other sums;
        of single synapses the change since the last update.
        """
        found = {}
        for name, owner in self.plastic.items():
            link = self.wirings[name].link
            assert link is not None
            assert owner.learn is not None
            further = tuple(one.name for one in owner.learn.sums(owner.weights(link)))
            every = ("product", "counts", ACTIVE, *further)
            found[name] = tuple(one for one in every if f"connections/{name}/{one}" in self.variables)
        return found | {
            name: (CHANGE,) for name, one in self.learning_synapses.items() if one.per == "network"
        }

    def patches_of(self, weights: str | None) -> str:
        """Return the key of weights as the post layer sees them: patches that are derived, or themselves."""
        derived = f"connections/{weights}/patches"
        return derived if derived in self.variables else f"connections/{weights}/weights"

    def taken(self, connection: str) -> tuple[int, int, int]:
        """Return the shape of what a connection takes of its pre layer, where ranks have parts of it."""
        ny, nx, nf = self.network.layers[self.network.connections[connection].pre].shape
        rows, features = self.tiling.shares.get(connection, ALL), self.shares.get(connection, ALL)
        return rows.taken(ny, self.tiling.part), nx, features.taken(nf, self.part)

    def given(self, connection: str) -> tuple[int, int, int]:
        """Return the shape of what a connection makes for its post layer, where ranks have parts of it."""
        ny, nx, nf = self.network.layers[self.network.connections[connection].post].shape
        rows, features = self.tiling.shares.get(connection, ALL), self.shares.get(connection, ALL)
        return rows.given(ny, self.tiling.part), nx, features.given(nf, self.part)

    def reset_lookback(self, source: str, layer: str) -> int:
        """Return how many steps before the activity of `source` was made that `layer` is reset to."""
        return int(self.levels[source] >= self.levels[layer])

    def margins(self, layer: str) -> tuple[int, int]:
        """Return how many rows and columns beyond its edges the connections from a layer see."""
        rows, columns = 0, 0
        for name, connection in self.network.connections.items():
            link = self.wirings[name].link
            if connection.pre == layer and link is not None:
                y, x = (
                    axis.margin if link.scatter else max(axis.before, axis.after)
                    for axis in (link.patches.y, link.patches.x)
                )
                rows, columns = max(rows, y), max(columns, x)
        return rows, columns

    def _update_variables(self, name: str, owner: PatchOwner, weights: Variable) -> list[Variable]:
        """Declare what the updates of a plastic connection need in addition to its rule's state."""
        output = self.network.output.connections.get(name)
        usage = replace(
            weights,
            name="usage",
            shape=(1, 1, weights.shape[2]),
            dims=weights.dims[:3],
            description="how often each feature was active at the last update, over positions and slices",
        )
        counted = owner.revive is not None or (output is not None and "usage" in output.variables)
        sums = [replace(weights, name="product")]
        if owner.learn is not None and owner.learn.counted:
            # All post features of a place see the same pre units.
            sums += [replace(weights, name="counts", shape=(*weights.shape[:-1], 1))]
        sums += [replace(usage, name=ACTIVE)] if counted else []
        sums += owner.learn.sums(weights) if owner.learn is not None else []
        late = self.network.run.reduce == "overlapped" and weights.per == "network"
        return [
            *(replace(one, per="slice", checkpoint=False) for one in sums),
            *(replace(one, name=f"late_{one.name}") for one in sums if late),
            *([usage] if counted else []),
            *([replace(usage, name="idle", description="updates without activity")] if owner.revive else []),
        ]

    def border(self, layer: str) -> Border:
        """Return the border rule of a layer."""
        return self.network.layers[layer].border
