"""Operations of a step: when they are made, what they read and write."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from petabatch.clock import fires
from petabatch.geometry import Patches
from petabatch.kernels.array import ArrayKernels
from petabatch.kernels.operations.fields import Out, Source, fields_of, short
from petabatch.variable import Array


@dataclass(frozen=True)
class When:
    """The steps in which an operation is made."""

    period: int = 1
    offset: int = 0
    """At steps t with (t - offset) % period == 0; a period of 0 is never."""
    stands: bool = False
    """At all other steps instead."""
    window: int = 0
    """If not 0, only in the last `window` steps of a run: earlier results are not read."""

    def due(self, step: int) -> bool:
        """Say whether it is made in a step; `window` aside, which depends on the length of a run."""
        return fires(self.period, step, self.offset) != self.stands

    def __str__(self) -> str:
        steps = f"t = {self.offset} mod {self.period}" if self.period else "never"
        text = "" if self.period == 1 else f"  where {'not ' if self.stands else ''}{steps}"
        return text + (f"  last {self.window}" if self.window else "")


ALWAYS = When()


class View(Protocol):
    """What an operation sees on arrays of some slices, `[slices, ...]`, in a step."""

    kernels: ArrayKernels
    step: int

    def see(self, source: Source) -> Any:
        """Return an array; of what is padded where it is read, a `Padded`."""

    def patches(self, weights: str, p: Patches) -> Array:
        """Return weights by their key, as patches `[slices or 1, G, nf, K]`."""

    def synapses(self, connection: str, delayed: bool) -> Mapping[str, Any]:
        """Return the synapses of a connection as `ArrayKernels.scatter` takes them."""

    def added(self, part: Array) -> Array:
        """Return the sum of what ranks with other features have; collective, as those below."""

    def gathered(self, part: Array, tiles: bool) -> Array:
        """Return what ranks have `[slices, n, block]`, those with other `tiles` or features, side by side."""

    def exchanged(self, wide: Array, before: int, after: int, adds: bool) -> Array:
        """Return a tile `[slices, rows, row]` with the rows of the next ones; see `Exchange`."""


@dataclass(frozen=True)
class Operation:
    """Something that is done to an array of a slice, by its key, or to scratch.

    Its fields are its record, see `fields.py`. A kernel reads them by name.
    """

    out: Out
    when: When = field(default=ALWAYS, kw_only=True)

    def __str__(self) -> str:
        return f"{short(self.out)} = {self._text}{self.when}"

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"{type(self).__name__.lower()} {short(self.out)}"

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads: its sources."""
        values = (getattr(self, one.name) for one in fields_of(type(self)))
        several = ((one,) if isinstance(one, Source) else one for one in values)
        found = (one for some in several if isinstance(some, tuple) for one in some)
        return tuple(one for one in found if isinstance(one, Source))

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes."""
        return (self.out,)

    def on(self, view: View) -> Any:
        """Return what it makes on arrays; of operations that deliver activities."""
        raise NotImplementedError(f"{self.label} has no form for arrays")

    @property
    def _text(self) -> str:
        """The right-hand side."""
        return f"{type(self).__name__.lower()} of {', '.join(map(str, self.reads))}"


@dataclass(frozen=True)
class OfSource(Operation):
    """An operation that reads one array."""

    source: Source
