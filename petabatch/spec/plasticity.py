"""Rules by which single synapses change: at the spikes of their units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, ClassVar

from petabatch.equations.source import event_source, row_function
from petabatch.equations.synapses import (
    CHANGE,
    HIGH,
    LOW,
    Event,
    Place,
    SynapseModel,
    SynapseTexts,
    rate,
    read_model,
)
from petabatch.kernels.rows import Form
from petabatch.spec.model import Part
from petabatch.spec.schedule import DISPLAY, Schedule
from petabatch.spec.weights import Initial
from petabatch.variable import LAYER_DIMS, Variable

if TYPE_CHECKING:
    from petabatch.spec.synapses import Ends

CHANGED: Mapping[Place, str] = {"synapse": "changed", "pre": "changed_pre", "post": "changed_post"}
"""The arrays with the steps in which the traces of each place have last changed."""
_DIMS: Mapping[Place, tuple[str, ...]] = {
    "synapse": ("synapse",),
    "pre": tuple(f"pre_{name}" for name in LAYER_DIMS),
    "post": LAYER_DIMS,
}
_OF: Mapping[Place, str] = {"synapse": "each synapse", "pre": "each pre unit", "post": "each post unit"}


@dataclass(frozen=True)
class Plasticity:
    """What a rule says: texts, and numbers. See `learning/synapses.py` for what they mean."""

    on_pre: str | None
    on_post: str | None
    traces: Mapping[str, float] = field(default_factory=dict)
    """Time constants, in the unit of `run.dt`."""
    variables: Collection[str] = ()
    parameters: Mapping[str, float] = field(default_factory=dict)
    factors: Mapping[str, str] = field(default_factory=dict)
    """Layers whose activity is read, by the name in texts."""
    bounds: tuple[float, float] | None = None
    start: Mapping[str, float | Initial] = field(default_factory=dict)

    def texts(self, delayed: bool, held: bool) -> SynapseTexts:
        """Return the texts, of synapses with delays of their own or without.

        `held` says that weights are those of all slices, which stand still between updates.
        """
        drawn = frozenset(name for name, one in self.start.items() if not isinstance(one, float))
        return SynapseTexts(
            self.on_pre, self.on_post, tuple(self.traces), tuple(self.variables), tuple(self.parameters),
            tuple(self.factors), drawn, self.bounds is not None, delayed, held,
        )  # fmt: skip

    def model(self, delayed: bool, held: bool) -> SynapseModel:
        """Return the model of the texts; raises WrongTexts."""
        return read_model(self.texts(delayed, held))

    def numbers(self, dt: float) -> dict[str, float]:
        """Return the numbers that events read, by name, dt first."""
        found = {"dt": dt, **self.parameters, **{rate(name): dt / tau for name, tau in self.traces.items()}}
        if self.bounds is not None:
            found |= zip((LOW, HIGH), self.bounds, strict=True)
        return found

    def arrays(self, ends: Ends, count: int, delayed: bool, held: bool) -> tuple[Variable, ...]:
        """Declare the variables of `count` synapses and of the units that they join."""
        model = self.model(delayed, held)
        shapes: Mapping[Place, tuple[int, ...]] = {
            "synapse": (count,),
            "pre": ends.pre_shape,
            "post": ends.shape,
        }
        found = []
        if held:
            text = "by how much the weights have changed in a slice since the last update"
            # One scale for all in the exact sum.
            found.append(Variable(CHANGE, (1, 1, 1, count), ("", "", "", "synapse"), text))
        for name, place in model.places.items():
            text = f"{'trace' if name in self.traces else 'variable'} of {_OF[place]}, at its last change"
            start = self.start.get(name, 0.0)
            initial = start if isinstance(start, float) else 0.0
            found.append(Variable(name, shapes[place], _DIMS[place], text, initial=initial))
        for place in model.stamped:
            text = f"step in which traces of {_OF[place]} have last changed"
            found.append(Variable(CHANGED[place], shapes[place], _DIMS[place], text, "steps", "int32"))
        return tuple(found)

    @cached_property
    def starts(self) -> Mapping[str, tuple[str, Initial]]:
        """Initialisers of variables that start with a value of each synapse, each with its key."""
        return {
            name: (f"start.{name}", one) for name, one in self.start.items() if not isinstance(one, float)
        }


@lru_cache(maxsize=256)
def row_of(event: Event, model: SynapseModel) -> tuple[Callable[..., None], Form]:
    """Return the row function of an event, and its form."""
    numbers, arrays = ("dt", *model.numbers), model.arrays(event)
    parameters = tuple((name, "double", 0) for name in numbers)
    form = Form(parameters, arrays, 0, (), "t" in event.names)
    return row_function(event_source(event, numbers, arrays)), form


class SynapticRule(Part):
    """Change of single synapses at the spikes of their units."""

    kind: ClassVar[str] = "learning rule of synapses"
    type: str
    every: Schedule = DISPLAY
    """Update schedule of mode `extra_non_shared`: at the end of these steps the changes in all slices are
    added to the weights. In mode `non_shared` a slice has the changes at once, and this has no meaning."""

    @property
    @abstractmethod
    def plasticity(self) -> Plasticity:
        """What happens at the spikes."""

    @property
    def starts(self) -> Mapping[str, tuple[str, Initial]]:
        """Initialisers of variables that start with a value of each synapse, each with its key."""
        return self.plasticity.starts
