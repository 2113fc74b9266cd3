"""Schedules: every N steps, every N displays, or never."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import PlainSerializer, PlainValidator, WithJsonSchema
from pydantic_core import PydanticCustomError

from petabatch.clock import Clock
from petabatch.errors import meant

_FORM = re.compile(r"^(?:(\d{1,15})\s+)?(step|steps|display|displays)$")


@dataclass(frozen=True)
class Every:
    """A period in steps or displays; a schedule with count 0 never fires."""

    count: int
    unit: str = "steps"

    def steps(self, display: int) -> int:
        """Return the period in steps for a display period of `display` steps; 0 means never."""
        return Clock(display).length(self.count) if self.unit == "displays" else self.count

    def __str__(self) -> str:
        if self.count == 0:
            return "never"
        return self.unit.rstrip("s") if self.count == 1 else f"{self.count} {self.unit}"


DISPLAY = Every(1, "displays")
STEP = Every(1, "steps")
NEVER = Every(0)


def _parse(value: Any) -> Every:
    if isinstance(value, Every):
        return value
    if isinstance(value, int) and not isinstance(value, bool) and 1 <= value < 10**15:
        return Every(value)
    if isinstance(value, str):
        if value == "never":
            return Every(0)
        match = _FORM.match(value.strip())
        if match and match[1] != "0":
            return Every(int(match[1] or 1), "steps" if match[2].startswith("step") else "displays")
    word = value.split()[-1].strip("0123456789.") if isinstance(value, str) and value.split() else ""
    near = "never" if value == 0 else meant(word, ("display", "displays", "step", "steps", "never"))
    raise PydanticCustomError(
        "schedule",
        "this is not a schedule",
        {
            "expected": '"display", "10 displays", "50 steps", a number of steps, or "never"',
            "hint": f'did you mean "{near}"?' if near else "",
        },
    )


def _serialise(every: Every) -> str:
    """Return the text in `params.json`: always with the count, as in files of earlier versions."""
    return f"{every.count} {every.unit}" if every.count else "never"


Schedule = Annotated[
    Every,
    PlainValidator(_parse),
    PlainSerializer(_serialise),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}),
]
