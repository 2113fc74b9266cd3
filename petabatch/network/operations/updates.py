"""Operations that update layers, of rules, lazily evaluated codes and time scales; what plug-ins do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from petabatch.geometry import Patches
from petabatch.kernels.operations.base import OfSource, Operation, View
from petabatch.kernels.operations.fields import Source, Sources
from petabatch.kernels.operations.transport import Join
from petabatch.kernels.timescale import Growth
from petabatch.spec.compiled import CompiledRule, Term
from petabatch.spec.parts import Connection, Wiring
from petabatch.variable import Array, Border


@dataclass(frozen=True)
class Update(Operation):
    """The rule of a layer on its summed sources."""

    rule: CompiledRule
    sources: Sources
    layer: str
    """Its arrays are those of `layers/<layer>`."""
    sums: Join | None = field(default=None, kw_only=True)
    """The sums over tiles that are made within it."""

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes, with the layer's variables."""
        return (self.out, f"layers/{self.layer}/")

    @property
    def _text(self) -> str:
        buffers = sorted({source.buffer for source in self.sources} | {0})
        sums = (" + ".join(str(s) for s in self.sources if s.buffer == buffer) for buffer in buffers)
        return f"{self.rule.name}({', '.join(sums)})"


@dataclass(frozen=True)
class Drive:
    """What a connection with patches delivers to a code that is lazily evaluated."""

    key: str
    """The array of F, the filtered layer."""
    source: Source
    """The layer that patches are of, padded; its factor is the connection's."""
    weights: str
    patches: Patches

    def __str__(self) -> str:
        return f"project {self.source} by {self.weights.split('/')[1]}"


@dataclass(frozen=True)
class LazyUpdate(Update):
    """The same of a leaky code of whose drives only those are computed that could make a unit active."""

    drives: tuple[Drive, ...]
    history: str
    """The array of G: V is `decay` times G and the drives of filtered layers."""
    decay: str
    """The array of the factor on `history`; 0: V is up to date, and the code starts from it."""
    awake: str
    """The array that says whether all units are computed until the next display."""
    display: int
    """Steps of a display."""
    most: float
    """Share of active units when a display begins above which all are computed."""

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"lazy update {self.layer}"

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return (*super().reads, *(drive.source for drive in self.drives))

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes, with the layer's variables."""
        own = (self.history, self.decay, self.awake, *(drive.key for drive in self.drives))
        return (*super().writes, *own)

    @property
    def _text(self) -> str:
        return f"{super()._text}, lazily: {', '.join(map(str, self.drives))}"


@dataclass(frozen=True)
class Control(Operation):
    """An adaptive time scale (`out`) follows the energy of the step before."""

    layer: str
    terms: tuple[Term, ...]
    scale: Growth
    """The numbers of its controller."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return tuple(Source(f"layers/{term.layer}/A", 1) for term in self.terms)

    @property
    def _text(self) -> str:
        return "time scale after " + " + ".join(map(str, self.terms))


@dataclass(frozen=True)
class Call(Operation):
    """What the layer does itself, in the interpreter: its update, in several slices at once."""

    layer: str
    reason: str
    sources: tuple[Source, ...] | None = None
    """What its input is summed up from; None where a connection is interpreted, too."""
    buffers: int = 1
    """Of its input."""

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return self.sources or ()

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes, with the layer's variables."""
        return (self.out, f"layers/{self.layer}/")

    @property
    def _text(self) -> str:
        return f"interpreted, {self.reason}"


@dataclass(frozen=True)
class Deliver(OfSource):
    """What a connection without an operation delivers itself, on arrays."""

    name: str
    shape: tuple[int, int, int]
    """Of what it takes."""
    connection: Connection
    wiring: Wiring
    border: Border
    margin: Source | None
    """The image with what is around it, if that is the border."""
    weights: str
    """The array of its weights, if it has patches of these."""
    delayed: bool
    """Its synapses have delays."""

    def on(self, view: View) -> Array:
        """Return what it delivers, `[slices, ny, nx, nf]`."""
        border = self.border if self.margin is None else view.see(self.margin)
        layer = view.see(self.source)
        layer = layer.reshape(len(layer), *self.shape)
        return self.connection.deliver(view.kernels, self.wiring, layer, border, self._by(view))

    def _by(self, view: View) -> Any:
        """Return its patches, or its synapses, or nothing."""
        if self.wiring.synapses is not None:
            found = view.synapses(self.name, self.delayed)
            return {**found, "step": view.step} if self.delayed else found
        link = self.wiring.link
        return None if link is None or not self.weights else view.patches(self.weights, link.patches)
