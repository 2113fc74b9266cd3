"""Operations of a step: when they are made, what they read and write."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from petabatch.clock import fires


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


@dataclass(frozen=True)
class Operation(ABC):
    """Something that is done to an array of a slice, by its key, or to scratch."""

    out: str
    when: When = field(default=ALWAYS, kw_only=True)

    def __str__(self) -> str:
        return f"{_short(self.out)} = {self._text}{self.when}"

    @property
    def label(self) -> str:
        """Its name in a profile."""
        return f"{type(self).__name__.lower()} {_short(self.out)}"

    @property
    def reads(self) -> Sequence[Source]:
        """The arrays that it reads."""
        return ()

    @property
    def writes(self) -> Sequence[str]:
        """The arrays that it writes."""
        return (self.out,)

    @property
    @abstractmethod
    def _text(self) -> str:
        """The right-hand side."""


@dataclass(frozen=True)
class Source:
    """An array that a layer's input is summed up from, of `lookback` steps ago."""

    key: str
    lookback: int = 0
    factor: float = 1.0
    buffer: int = 0

    def __str__(self) -> str:
        name = _short(self.key) + (f"[-{self.lookback}]" if self.lookback else "")
        return name if self.factor == 1 else f"-{name}" if self.factor == -1 else f"{self.factor:g} {name}"


def _short(key: str) -> str:
    """Return the key of an array as it is printed: V1 for the activity of a layer, V1.V for another."""
    kind, _, name = key.partition("/")
    if kind == "scratch":
        return f"<{name}>"
    if kind == "records":
        return f"<record of {_short(name)}>"
    if kind == "margins":
        return f"<{name} and its margin>"
    layer, _, variable = name.partition("/")
    return layer if variable == "A" else f"{layer}.{variable}"
