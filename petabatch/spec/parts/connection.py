"""Connections between layers, and the weights that some of them own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import numpy as np

from petabatch.spec.model import Finite, Flag, Index, Part
from petabatch.spec.plasticity import Plasticity
from petabatch.spec.synapses import Ends, Synapses
from petabatch.spec.weights import Initial, Learning, Normalize
from petabatch.variable import Array, Border, Variable

if TYPE_CHECKING:
    from petabatch.geometry import Link
    from petabatch.kernels.array import ArrayKernels
    from petabatch.spec.parts.layer import Layer

Operation = Literal[
    "copy",
    "forward",
    "transposed",
    "pool_max",
    "pool_sum",
    "pool_average",
    "sparse",
    "largest",
    "background",
    "other",
]
"""Of a connection: the activity as it is, through patches of weights, through them the other way, pooled over
windows, over single synapses, the largest feature, features and their background, or else."""


@dataclass(frozen=True)
class Wiring:
    """The wiring of a connection: the link between its two layers, and the owner of its weights."""

    link: Link | None = None
    weights: str | None = None
    """Name of the connection that owns the weights."""
    synapses: Ends | None = None
    """The units that it joins by single synapses of its own."""


class Connection(Part):
    """A connection from layer `pre` to a channel of layer `post`."""

    kind: ClassVar[str] = "connection"
    answers = ("plain",)
    type: str
    pre: str
    """Name of the presynaptic layer, which provides the activity."""
    post: str
    """Name of the postsynaptic layer, which receives the input."""
    channel: str = "exc"
    """Input channel of the post layer, usually `exc` (added) or `inh` (subtracted); `none` delivers no
    input."""
    target: str | None = None
    """For post layers of type `neurons`, in place of `channel`: the variable that what arrives is added to,
    or the current that it is."""
    strength: Finite = 1.0
    """Factor on the delivered input."""
    delay_steps: Index = 0
    """Additional transmission delay, in steps."""
    feedback: Flag = False
    """Feedback connection: it closes a cycle and transmits the activity of the previous step."""

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        """Give a subclass that delivers in a way of its own no operation but one that it names.

        Refuse a type that delivers in no way.
        """
        super().__pydantic_init_subclass__(**kwargs)
        before = [vars(one) for one in cls.__mro__[: _place(cls, "deliver") + 1]]
        for name in ("operation", "carries"):
            if not any(name in one for one in before):
                setattr(cls, name, vars(Connection)[name])
        named = isinstance(cls.model_fields["type"].default, str)
        if named and cls.deliver is Connection.deliver and cls.operation is Connection.operation:
            raise TypeError(f"the connection {cls.__name__} has neither `deliver` nor `operation`")

    @property
    def into(self) -> str:
        """The name of what it delivers to: its target or its channel."""
        return self.channel if self.target is None else self.target

    @property
    def operation(self) -> Operation:
        """What it does with the activity of the pre layer."""
        return "other"

    @property
    def carries(self) -> str:
        """The variable of the pre layer that it delivers: its activity, unless it says otherwise."""
        return "A"

    @property
    def later(self) -> bool:
        """Whether it delivers in the next step at the earliest, so that it closes no cycle."""
        return False

    def plain(self, keys: Sequence[str]) -> bool:
        """Return whether a number under `keys` is valid if it is finite, and changes numbers of steps alone.

        Points of a sweep that differ in such numbers are checked, and their steps planned, once for all.
        """
        return False

    @property
    def owner(self) -> WeightOwner | None:
        """This connection as one with weights of its own, None where it has none."""
        return None

    @property
    def patch_owner(self) -> PatchOwner | None:
        """This connection as one with patches of weights of its own, None where it has none."""
        return None if self.owner is None else self.owner.as_patches

    @property
    def borrows(self) -> str | None:
        """Name of the connection whose weights it uses, None where it uses none of another."""
        return None

    @property
    def learns_against(self) -> str | None:
        """Name of the layer against which borrowed weights learn here too, None where they do not."""
        return None

    def synapses(self, ends: Ends, rng: np.random.Generator, dt: float) -> Synapses:
        """Return its synapses, in steps of `dt`; of connections whose wiring has `synapses`."""
        raise NotImplementedError(f"connections of type {self.type} have no synapses")

    def expected(self, ends: Ends) -> float:
        """Return about how many synapses a slice has; nothing is drawn, and it takes no longer for many."""
        raise NotImplementedError(f"connections of type {self.type} have no synapses")

    def room(self, ends: Ends, dt: float) -> tuple[int, int]:
        """Return how many synapses a slice has at most, and the longest delay in steps; nothing is drawn."""
        raise NotImplementedError(f"connections of type {self.type} have no synapses")

    @abstractmethod
    def wire(
        self, layers: Mapping[str, Layer], connections: Mapping[str, Connection], report: Callable[..., None]
    ) -> Wiring | None:
        """Return the wiring, or None after `report(key, message, found=, expected=, hint=)` of an error.

        `pre` and `post` are guaranteed to exist.
        """

    def deliver(
        self,
        kernels: ArrayKernels,
        wiring: Wiring,
        activity: Array,
        border: Border,
        patches: Array | None,
    ) -> Array:
        """Return the input of the post layer, `[lanes, ny, nx, nf]`, without `strength` and sign applied.

        Of connections without an operation alone. `patches` are those of its weights, or the arrays of its
        synapses by name, and the `step`, in which those with delays deliver what is pending.
        """
        raise NotImplementedError(
            f"connections of type {self.type} inherit no `deliver`: built-in types have an `operation`\n"
            "    hint:     call operators of `kernels`, such as\n"
            "              kernels.project(activity, patches, wiring.link.patches, border)"
        )


def _place(kind: type, name: str) -> int:
    """Return the place of the first class among a class and its bases that defines a name."""
    return next(n for n, one in enumerate(kind.__mro__) if name in vars(one))


class WeightOwner(Protocol):
    """A connection with weights of its own, whether of patches or of single synapses.

    They are the array `weights` of the connection. What can be done with any weights, such as recording them,
    asks for no more than this.
    """

    @property
    def pre(self) -> str:
        """Layer the activity comes from."""

    @property
    def post(self) -> str:
        """Layer it goes to."""

    @property
    def mode(self) -> str:
        """The weight mode."""

    @property
    def init(self) -> Initial | None:
        """How the weights start; None where they are given with the synapses."""

    @property
    def learns(self) -> bool:
        """Whether they ever change: there is a rule, and it does not say `never`."""

    @property
    def plasticity(self) -> Plasticity | None:
        """What happens at the spikes of single synapses that learn; None of patches, and where they stay."""

    @property
    def learned(self) -> Collection[str]:
        """The names of further variables that change with the weights of single synapses."""

    @property
    def as_patches(self) -> PatchOwner | None:
        """This as an owner of patches, None where the weights are those of single synapses."""


class PatchOwner(WeightOwner, Protocol):
    """A connection with patches of weights of its own; see `connections/conv.py`."""

    @property
    def init(self) -> Initial:
        """How the weights start."""

    @property
    def learn(self) -> Learning | None:
        """The learning rule, None where they stay."""

    @property
    def normalize(self) -> Normalize | None:
        """What is done to them at the start and after each update."""

    @property
    def decorrelate(self) -> float:
        """How far features are pushed apart at each update."""

    @property
    def revive(self) -> Any:
        """When and how dead features start again (`learning.revive.Revive`), or None."""

    def link(self, layers: Mapping[str, Layer]) -> Link:
        """Return the link between the two layers; raises GeometryError when they do not go together."""

    def weights(self, link: Link) -> Variable:
        """Declare the weights of a link between the two layers, or between parts of them."""
