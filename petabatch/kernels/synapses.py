"""Single synapses on a GPU, sorted by their targets, so that the order of a sum depends on no timing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from petabatch.kernels.segments import Segments
from petabatch.variable import Array


@dataclass(frozen=True)
class SortedSynapses:
    """Where the synapses of all slices, or of each, come from, and in which order they are added up."""

    sources: Array
    """The pre unit of each synapse, `[slices or 1, synapses]`."""
    onto: Segments
    """What is added up for each place of each slice, and last what belongs to no synapse."""
    places: int
    """Places of a slice."""

    @classmethod
    def of(
        cls, xp: Any, arrays: Mapping[str, Array], delays: Array | None, units: int, places: int
    ) -> SortedSynapses:
        """Sort the synapses in `starts` and `targets`, `[slices or 1, ...]`, onto `units` post units.

        The place of a synapse is that of its target, after those of all synapses with a shorter one of the
        `delays`. Sorted once; on a GPU the host waits for the number of sums.
        """
        starts, targets = arrays["starts"], arrays["targets"]
        slices, count = targets.shape
        pre = starts.shape[1] - 1
        # Of all slices in one sorted array: those of a slice are at most `count`.
        first = xp.arange(slices)[:, None]
        ends = (starts[:, 1:] + first * (count + 1)).reshape(-1)
        numbers = xp.arange(count) + first * (count + 1)
        sources = xp.searchsorted(ends, numbers.reshape(-1), side="right").reshape(slices, count)
        sources = sources - first * pre
        place = targets.astype(numbers.dtype) + first * places
        if delays is not None:
            place = place + delays * units
        # A slice may have fewer synapses than there is room for.
        place = xp.where(sources < pre, place, slices * places)
        onto = Segments.of(xp, place.reshape(-1), slices * places + 1)
        return cls(xp.minimum(sources, pre - 1), onto, places)

    def carry(self, xp: Any, units: Array, weights: Array) -> Array:
        """Return what arrives at each place from units `[L, positions, pre]`, `[L, positions, places]`."""
        slices, count = self.sources.shape
        if slices == 1:
            carried = units[:, :, self.sources[0]] * weights[:, None]
            return self.onto.add_up(xp, carried)[..., : self.places]
        lanes = xp.arange(slices)[:, None] if len(units) > 1 else xp.zeros((1, 1), int)
        carried = units.swapaxes(0, 1)[:, lanes, self.sources] * weights
        sums = self.onto.add_up(xp, carried.reshape(len(carried), slices * count))
        return sums[:, :-1].reshape(len(sums), slices, self.places).swapaxes(0, 1)
