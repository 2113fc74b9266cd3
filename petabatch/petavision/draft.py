"""A network while it is translated: its groups by role, and the tables that they become."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from petabatch.clock import Clock
from petabatch.errors import did_you_mean
from petabatch.petavision.files import Files
from petabatch.petavision.grammar import ParamsFile
from petabatch.petavision.part import Part

Table = dict[str, Any]
DEEPEST = 64
"""Groups that name each other in a chain, at most: triggers, originals and copies of copies."""
_INPUTS = ("ImageLayer", "PvpLayer")


@dataclass
class Draft:
    """The parts of a parameter file, and the tables of the params file."""

    source: ParamsFile
    parts: dict[str, Part]
    files: Files
    column: Part
    run: Table = field(default_factory=dict)
    layers: dict[str, Table] = field(default_factory=dict)
    connections: dict[str, Table] = field(default_factory=dict)
    probes: dict[str, Table] = field(default_factory=dict)
    layer_output: dict[str, Table] = field(default_factory=dict)
    connection_output: dict[str, Table] = field(default_factory=dict)
    checkpoint: Table = field(default_factory=dict)
    origin: dict[tuple[str, ...], Part] = field(default_factory=dict)
    """The group that a table comes from."""
    leaving: dict[str, list[tuple[Part, Part]]] = field(default_factory=dict)
    """Connections from a layer and their post layers, once they have been asked for; see `delivery`."""

    def of_role(self, role: str) -> Iterator[Part]:
        """Yield the parts of a role, in file order."""
        return (part for part in self.parts.values() if part.kind.role == role)

    @cached_property
    def titles(self) -> dict[str, str]:
        """The name of each group by that in its file."""
        return {part.title: name for name, part in self.parts.items()}

    @cached_property
    def place(self) -> dict[str, int]:
        """The number of each group in the file."""
        return {name: number for number, name in enumerate(self.parts)}

    @cached_property
    def terms(self) -> dict[object, list[Part]]:
        """Probes by the energy that they are terms of."""
        found: dict[object, list[Part]] = {}
        for part in self.of_role("probe"):
            entry = part.group.entries.get("energyProbe")
            if entry is not None and "energyProbe" in part.kind.keys:
                found.setdefault(entry.value, []).append(part)
        return found

    def named(self, part: Part, key: str, role: str) -> Part:
        """Return the part that a parameter names; raises Refused if there is none of this role."""
        name = part.text(key)
        return self.find(part, key, name, role)

    def find(self, part: Part, key: str, name: str, role: str) -> Part:
        """Return the part of a name; raises Refused with the place of `key` if there is none of this role."""
        found = self.parts.get(name)
        if found is None or found.kind.role != role:
            if name in self.source.groups:
                part.refuse(key, f"this {role} is not supported: see its group", found=name)
            names = [one.name for one in self.of_role(role)]
            part.refuse(key, f"there is no {role} of this name", found=name, hint=did_you_mean(name, names))
        return found

    def add(self, kind: str, part: Part, table: Table, name: str = "") -> None:
        """Add the table that a part becomes."""
        name = name or part.name
        {"layers": self.layers, "connections": self.connections, "probes": self.probes}[kind][name] = table
        self.origin[kind, name] = part
        part.becomes.append(f"{kind}.{name}")

    @property
    def dt(self) -> float:
        """The time step."""
        dt = self.column.finite("dt")
        if dt <= 0:
            self.column.refuse("dt", "the time step is not positive", found=f"{dt:g}")
        return dt

    @property
    def batch(self) -> int:
        """The number of batch elements."""
        return self.column.whole("nbatch")

    def steps(self, part: Part, key: str, value: float) -> int:
        """Return a time in steps, rounded."""
        count = Clock(dt=self.dt).steps(value)
        if not abs(count) < 2**53:
            part.refuse(key, "this time is too long", found=f"{value:g}")
        if abs(count - round(count)) > 1e-4:
            part.differs(f"{key} = {value:g} is {round(count)} steps of dt = {self.dt:g}")
        return round(count)

    def shape(self, layer: Part) -> list[int]:
        """Return `[ny, nx, nf]` of a layer; raises Refused if it is not one of whole numbers."""
        sizes = []
        for axis in ("ny", "nx"):
            scale = layer.finite(f"{axis}Scale")
            size = self.column.whole(axis) * scale
            if abs(size - round(size)) > 1e-4 or round(size) < 1:
                layer.refuse(f"{axis}Scale", "the size of the layer is not an integer", f"{size:g}")
            sizes.append(round(size))
        nf = layer.whole("nf")
        if nf < 1:
            layer.refuse("nf", "the layer has no features", str(nf))
        return [*sizes, nf]

    def is_input(self, layer: Part) -> bool:
        """Return whether a layer shows images."""
        return layer.keyword in _INPUTS

    def schedule(self, layer: Part, seen: tuple[str, ...] = ()) -> tuple[int, int]:
        """Return (period, offset): the layer updates in steps 1 + offset + k period; period 0 for never.

        Source: PetaVision's `LayerUpdateController.cpp:240-335`.
        """
        if layer.name in seen:
            layer.refuse("triggerLayerName", "the triggers of these layers form a cycle", " -> ".join(seen))
        if len(seen) > DEEPEST:
            layer.refuse("triggerLayerName", f"more than {DEEPEST} layers trigger each other")
        if self.is_input(layer):
            return self.steps(layer, "displayPeriod", max(0.0, layer.finite("displayPeriod"))), 0
        if layer.keyword == "ConstantLayer":
            return 0, 0
        if layer.keyword == "InputRegionLayer":
            original = self.named(layer, "originalLayerName", "layer")
            return self.schedule(original, (*seen, layer.name))
        trigger = layer.optional_text("triggerLayerName")
        if trigger is None or layer.text("triggerBehavior") != "updateOnlyOnTrigger":
            return 1, 0
        return self.trigger(layer, (*seen, layer.name))

    def trigger(self, part: Part, seen: tuple[str, ...] = ()) -> tuple[int, int]:
        """Return (period, offset) of the triggers of a part; the trigger layer is asked ahead of time."""
        layer = self.named(part, "triggerLayerName", "layer")
        period, offset = self.schedule(layer, seen)
        if period == 0 and self.is_input(layer):
            period = self.length + 2  # it updates in step 1 and never again
        return period, offset - self.steps(part, "triggerOffset", part.finite("triggerOffset"))

    @cached_property
    def display(self) -> int:
        """The display period in steps, of the input that others follow, else the longest; 0 for none."""
        inputs = [part for part in self.of_role("layer") if self.is_input(part)]
        entries = [part.group.entries.get("triggerLayerName") for part in self.parts.values()]
        followed = {entry.value for entry in entries if entry is not None}
        periods = {part.name: self.schedule(part)[0] for part in inputs}
        for name, period in periods.items():
            if period and name in followed:
                return period
        return max(periods.values(), default=0)

    @property
    def length(self) -> int:
        """Steps of the run."""
        return max(1, self.steps(self.column, "stopTime", self.column.finite("stopTime")))

    def every(self, period: int) -> str:
        """Return the schedule of a period of steps."""
        clock = Clock(max(1, self.display))
        if period == 0:
            return "never"
        if period == clock.display and period > 1:
            return "display"
        if clock.display > 1 and clock.ends(period):
            return f"{clock.complete(period)} displays"
        return "step" if period == 1 else f"{period} steps"

    def from_checkpoint(self, part: Part, what: str) -> str | None:
        """Return how a params file names a part's file of a checkpoint, None where it has none."""
        file = self.checkpoint_file(part, what)
        return None if file is None else self.files.named(file)

    def checkpoint_file(self, part: Part, what: str) -> str | None:
        """Return the file of a part's state in a checkpoint directory, such as `V.pvp`.

        The directory is that of the column, for parts that ask for it, or the one that is imported with the
        parameter file. None where the part does not start from it.
        """
        if self.files.checkpoint is not None:
            file = self.files.checkpoint / f"{part.title}_{what}"
            part.read.add("initializeFromCheckpointFlag")
            return str(file.absolute()) if file.exists() else None
        if not part.flag("initializeFromCheckpointFlag"):
            return None
        folder = self.column.optional_text("initializeFromCheckpointDir")
        if folder is None:
            part.idle("initializeFromCheckpointFlag", "no effect without initializeFromCheckpointDir")
            return None
        return f"{folder.rstrip('/')}/{part.title}_{what}"
