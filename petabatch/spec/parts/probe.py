"""Probes: measurements of the network, a few numbers per slice."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Protocol

from petabatch.spec.compiled import Lasso, NotSuitable, Term
from petabatch.spec.model import Offset, Part
from petabatch.spec.parts.layer import Layer, Penalty
from petabatch.spec.schedule import STEP, Schedule
from petabatch.variable import Array, Variable


class Reading(Protocol):
    """A probe's read access to the network at the end of a step."""

    def __call__(self, layer: str, variable: str) -> Array:
        """Return a variable of a layer, `[lanes, ny, nx, nf]`; `A` is the activity."""

    @property
    def step(self) -> int:
        """The step."""

    @property
    def dt(self) -> float:
        """Its duration."""

    def own(self, variable: str) -> Array:
        """Return an array that the probe itself declares, `[lanes, ...]`."""

    def through(self, connection: str, activity: Array) -> Array:
        """Return what a connection delivers for the given activity, with its present weights.

        The activity has the shape of the pre layer, the result that of the post layer. The strength of the
        connection is applied, the sign of its channel is not.
        """


class Probe(Part):
    """A measurement of one or more numbers per slice, recorded under `/probes/<name>/`."""

    kind: ClassVar[str] = "probe"
    answers = ("norms", "lasso", "penalty", "slicewise")
    followed: ClassVar[str] = "total"
    """The quantity that adaptive time scales follow, of a probe that has it."""
    type: str
    every: Schedule = STEP
    """Measurement schedule: at the end of these steps."""
    offset: Offset = 0
    """Delay of the measurements, in steps; with `every = "display"`, 1 is the first step of each display."""

    @property
    def penalty(self) -> tuple[str, Penalty] | None:
        """The code layer whose sparsity it takes for penalised, and how; None where it does not."""
        return None

    @property
    def slicewise(self) -> bool:
        """Whether `measure` gives a slice the same bits however many it is called with.

        Those of a group are then measured in one call.
        """
        return False

    @property
    def counts(self) -> str | None:
        """The spiking layer of whose spikes it is told by `count`, None where it reads what it measures."""
        return None

    def variables(self, layers: Mapping[str, Layer]) -> Sequence[Variable]:
        """Declare arrays of its own, in which `count` adds up; they are part of checkpoints.

        `layers` are those of the network.
        """
        return ()

    def count(self, own: Mapping[str, Array], steps: Array, units: Array, numbers: Array) -> None:
        """Take note of spikes of a slice, in the order of their steps; `own` has its arrays of the slice.

        In each of `steps` the unit of `units` spikes `numbers` times.
        """

    def recorded(self, own: Mapping[str, Array], step: int) -> None:
        """Begin anew after `step`, whose values were recorded; `own` has its arrays, `[lanes, ...]`."""

    def norms(self, layers: Mapping[str, Layer]) -> Mapping[str, tuple[Term, ...]]:
        """Return each quantity as a sum of norms, which compiled steps measure inside.

        Raises NotSuitable where a quantity is more than that. `layers` are those of the network.
        """
        raise NotSuitable(f"probes of type {self.type} measure more than norms")

    def lasso(self) -> Lasso:
        """Return the objective whose duality gap is the quantity `relative_gap`.

        Compiled steps then evaluate the gap for `run.until` themselves; `measure` agrees to rounding.

        Raises NotSuitable where there is none.
        """
        raise NotSuitable(f"probes of type {self.type} measure no duality gap of the LASSO")

    @abstractmethod
    def layers(self) -> Sequence[str]:
        """Return the names of the layers it reads, which are checked before the run."""

    def masks(self) -> Sequence[tuple[str, str]]:
        """Return pairs of names (layer, mask) for the layers of which it reads only the units in a mask."""
        return ()

    def connections(self) -> Sequence[str]:
        """Return the names of the connections it reads through; by default none."""
        return ()

    @abstractmethod
    def quantities(self) -> Mapping[str, str]:
        """Return the measured quantities: name to a one-line description with units."""

    @abstractmethod
    def measure(self, read: Reading, xp: Any) -> Mapping[str, Array]:
        """Return each quantity as float64 `[lanes]`; `read(layer, variable)` gives `[lanes, ny, nx, nf]`."""
