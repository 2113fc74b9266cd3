"""Products: what an update of weights sums over slices, from the activities of a lane.

Hebbian product of a connection = pre activity times post activity.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from petabatch.engine.deliveries import Deliveries
from petabatch.engine.state import owned
from petabatch.lazy_property import lazy_property
from petabatch.network.graph import ACTIVE
from petabatch.spec.weights import Learning
from petabatch.variable import Array, Border
from petabatch.weight_mode import over_positions

KnownProduct = Callable[[int, str, str, str, Learning, Array, "Array | None"], bool]
"""`Stepper.products`: step, connection, pre layer, layer learned against, rule, and where the results go."""


class Products:
    """The connections of a lane that learn."""

    def __init__(self, deliveries: Deliveries) -> None:
        self.deliveries, self.kernels = deliveries, deliveries.kernels
        self.graph, self.features = deliveries.graph, deliveries.features

    @lazy_property
    def arrays(self) -> dict[str, Mapping[str, Array]]:
        """The arrays of connections that learn."""
        return {name: owned(self.deliveries.arrays, f"connections/{name}") for name in self.graph.plastic}

    def product(
        self, weights: str, step: int, update: int, slices: Sequence[int], known: KnownProduct
    ) -> None:
        """Compute what an update of `weights` sums over slices, wherever these weights are used and learn.

        They are written to the connection's arrays, of these `slices`: its Hebbian product, what its rule
        counts and measures, and how often features were active. `known` writes what the stepper knows
        already, and returns whether it did.
        """
        sums = {kind: self.arrays[weights][kind] for kind in self.graph.summed[weights]}
        (owner, against), *clones = self.graph.learning_pairs[weights]
        self._write_terms(weights, owner, against, sums, step, known)
        self._measure(weights, against, sums, step, update, slices)
        for clone, against in clones:
            terms = {kind: self.kernels.xp.empty_like(array) for kind, array in sums.items()}
            self._write_terms(weights, clone, against, terms, step, known)
            for kind, values in terms.items():
                sums[kind] += values

    def _border(self, connection: str, step: int) -> Border:
        """Return what a connection sees beyond the edge of its pre layer, at the activity of `step`."""
        layer, tiling = self.graph.network.connections[connection].pre, self.graph.tiling
        margin = self.deliveries.margins.get(layer)
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
        pre, post = self.deliveries.ends(name, against, step)
        beyond = self._border(name, step - connection.delay_steps)
        if not known_already:
            fine, p = self.deliveries.surrounded(name, *((post,) if link.scatter else (pre, beyond)))
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
        pre, post = self.deliveries.ends(weights, against, step)
        units = self.kernels.coarse(pre, link.patches, "zero")[:, 0]
        patches = self.kernels.windows(post, link.patches, "zero")[:, 0]
        owner.learn.measure(
            units, patches, self.deliveries.patches(weights)[:, 0], further, update, slices,
            self.graph.network.batch, self.kernels.multiply,
        )  # fmt: skip

    def _count_once(self, weights: str, name: str, into: Mapping[str, Array]) -> None:
        """Leave what is summed over tiles to the first of those that have made a connection as a whole."""
        if not self.graph.tiling.repeated(name) or self.features.tiles.rank == 0:
            return
        shared = over_positions(self.graph.weighted[weights].mode)
        for kind in into if shared else into.keys() & {ACTIVE}:
            into[kind][...] = 0
