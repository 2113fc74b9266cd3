"""From the groups of a parameter file to the tables of a network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from petabatch.clock import Clock
from petabatch.errors import ParamsError, Problem, did_you_mean
from petabatch.petavision.aliases import CLASSES as FORMER
from petabatch.petavision.aliases import renamed
from petabatch.petavision.connections import connections
from petabatch.petavision.copies import merge_holders
from petabatch.petavision.draft import DEEPEST, Draft, Table
from petabatch.petavision.files import Files
from petabatch.petavision.grammar import Group, ParamsFile, problem
from petabatch.petavision.images import seeds
from petabatch.petavision.keys import CLASSES
from petabatch.petavision.layers import layers
from petabatch.petavision.part import Part, Refused
from petabatch.petavision.probes import probes, time_scales
from petabatch.petavision.states import start_activities
from petabatch.petavision.weights import join_groups, keep_norms

_LARGEST_BATCH = 1 << 20
"""Elements, each of which has a number in lists of first frames."""
_KEYS = {keyword: one.keys for keyword, one in CLASSES.items()}


@dataclass(frozen=True)
class Translation:
    """The network of a parameter file, and what is to be said of each group."""

    draft: Draft
    refused: Mapping[str, Problem]
    """Groups that are not supported, by name."""
    ignored: Mapping[str, str]
    """Groups that change nothing of the network, and why."""

    @property
    def tables(self) -> Table:
        """The tables of the params file."""
        d = self.draft
        found: Table = {"title": Path(d.source.file).stem, "run": d.run}
        found |= {"layers": d.layers, "connections": d.connections, "probes": d.probes}
        output = {"layers": d.layer_output, "connections": d.connection_output}
        found["output"] = {kind: named for kind, named in output.items() if named}
        found["checkpoint"] = d.checkpoint
        return {key: value for key, value in found.items() if value}

    def error(self) -> ParamsError | None:
        """Return the error with all groups that are not supported, None without any.

        Probes that only measure change nothing: one that is not supported is only in the report.
        """
        needed = [said for name, said in self.refused.items() if not self._measures(name)]
        if not needed:
            return None
        found = sorted(needed, key=lambda one: one.line or 0)
        return ParamsError(found, self.draft.source.file)

    def _measures(self, name: str) -> bool:
        """Return whether a group is a probe that no time scale follows."""
        part = self.draft.parts.get(name)
        if part is None or part.kind.role != "probe" or part.kind.becomes.startswith("time scale"):
            return False
        return name not in self._followed

    @cached_property
    def _followed(self) -> set[object]:
        """Probes that others follow."""
        followers = (one.group.entries.get("targetName") for one in self.draft.of_role("probe"))
        return {entry.value for entry in followers if entry is not None}


def translate(source: ParamsFile, files: Files) -> Translation:
    """Return the network of a parameter file; raises ParamsError if it is not one of a network."""
    groups = {name: renamed(group, _KEYS) for name, group in source.groups.items()}
    refused: dict[str, Problem] = {}
    ignored: dict[str, str] = {}
    parts = {}
    for name, (group, former) in groups.items():
        if group.keyword in CLASSES:
            parts[name] = Part(group, former)
        elif group.keyword.endswith("Probe") or group.keyword == "Checkpointer":
            ignored[name] = f"there is no class {group.keyword}" + _class_hint(group.keyword)
        else:
            refused[name] = _unknown(group)
    columns = [part for part in parts.values() if part.kind.role == "column"]
    if len(columns) != 1:
        message = "this file has no group of class HyPerCol" if not columns else "a network has one HyPerCol"
        raise ParamsError([Problem("", message)], source.file)
    draft = Draft(source, parts, files, columns[0])
    _each(draft, [columns[0]], lambda part: column(draft, part), refused)
    if columns[0].name in refused:
        raise ParamsError([refused[columns[0].name]], source.file)
    _each(draft, _originals_first(draft), lambda part: layers(draft, part), refused)
    draft.layers = {name: draft.layers[name] for name in draft.parts if name in draft.layers} | draft.layers
    for role, add in (("connection", connections), ("probe", probes)):
        _each(draft, draft.of_role(role), lambda part, add=add: add(draft, part), refused)  # type: ignore[misc]
    for finish in (seeds, join_groups, keep_norms, merge_holders, time_scales, start_activities):
        try:
            finish(draft)
        except Refused as error:
            refused.setdefault(str(error.problem.key).split(".")[0], error.problem)
    return Translation(draft, refused, ignored)


def _originals_first(draft: Draft) -> list[Part]:
    """Return the layers in file order, but that those that name an original come after it."""
    found: dict[str, Part] = {}

    def visit(part: Part, below: tuple[str, ...]) -> None:
        entry = part.group.entries.get("originalLayerName")
        original = draft.parts.get(str(entry.value)) if entry is not None else None
        known = original is not None and original.kind.role == "layer" and original.name not in below
        if original is not None and known and original.name not in found and len(below) <= DEEPEST:
            visit(original, (*below, original.name))
        found.setdefault(part.name, part)

    for part in draft.of_role("layer"):
        visit(part, (part.name,))
    return list(found.values())


def _each(
    draft: Draft, parts: Iterable[Part], add: Callable[[Part], None], refused: dict[str, Problem]
) -> None:
    for part in list(parts):
        try:
            add(part)
        except Refused as error:
            refused[part.name] = error.problem


def column(draft: Draft, part: Part) -> None:
    """Set the tables `run` and `checkpoint`."""
    for axis in ("nx", "ny", "nbatch"):
        if part.whole(axis) < 1:
            part.refuse(axis, "this is not a positive number", str(part.whole(axis)))
    if draft.batch > _LARGEST_BATCH:
        part.refuse("nbatch", "this batch is too large", str(draft.batch), f"at most {_LARGEST_BATCH}")
    if draft.batch > 1:
        draft.run["batch"] = draft.batch
    display, length = draft.display, draft.length
    if display > 1:
        draft.run["display"] = display
    clock = Clock(max(1, display))
    if display > 1 and clock.ends(length):
        draft.run["displays"] = clock.complete(length)
    else:
        draft.run["steps"] = length
    if draft.dt != 1:
        draft.run["dt"] = draft.dt
    if part.optional_number("randomSeed") is not None:
        draft.run["seed"] = int(abs(part.finite("randomSeed")))
    if part.optional_text("initializeFromCheckpointDir") is not None:
        flags = [one.group.entries.get("initializeFromCheckpointFlag") for one in draft.parts.values()]
        if not any(flag is not None and flag.value in (1.0, True) for flag in flags):
            part.idle("initializeFromCheckpointDir", "no group has initializeFromCheckpointFlag")
    if part.flag("checkpointWrite"):
        draft.checkpoint |= _checkpoint(draft, part)


def _checkpoint(draft: Draft, part: Part) -> Table:
    mode = part.choice(
        "checkpointWriteTriggerMode", {"step": "step", "time": "time", "clock": "clock", "": "step"}
    )
    if mode == "clock":
        part.differs("checkpoints by the clock are not supported; run.wall_limit ends a run in time")
        return {}
    if mode == "step":
        steps = part.whole("checkpointWriteStepInterval")
    else:
        steps = draft.steps(part, "checkpointWriteTimeInterval", part.finite("checkpointWriteTimeInterval"))
    keep = part.whole("numCheckpointsKept") if part.flag("deleteOlderCheckpoints") else 0
    if keep == 0:
        part.differs("the newest two checkpoints are kept: checkpoint.keep")
    # Beyond the end, there is the one of the last step, as in every run.
    found: Table = {"every": draft.every(max(1, steps))} if steps <= draft.length else {}
    return found | ({"keep": keep} if keep not in (0, 2) else {})


def _unknown(group: Group) -> Problem:
    hint = _class_hint(group.keyword).removeprefix("; ")
    return problem(
        group.place,
        f"the class {group.keyword} is not supported",
        group.name,
        hint=INSTEAD.get(group.keyword, hint),
    )


def _class_hint(keyword: str) -> str:
    hint = did_you_mean(keyword, [*CLASSES, *FORMER])
    return f"; {hint}" if hint else ""


INSTEAD = {
    "WTALayer": "a layer of type rescale with the method softmax",
    "FilenameParsingLayer": "an input layer whose source has the classes as arrays",
    "PvpListLayer": "one .pvp file with all frames",
}
"""What to use in place of classes that are not supported."""
