"""Report on what became of each group of a parameter file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from petabatch.petavision.network import Translation

_MOST = 20
"""Files that are not found, of those that are listed."""


def report(found: Translation) -> str:
    """Return the report: every group in file order, and what to do where it is not supported."""
    lines = list(_lines(found))
    counts = {"mapped": 0, "differs": 0, "not supported": 0, "left out": 0}
    for name in found.draft.source.groups:
        counts[_status(found, name)] += 1
    shown = [f"{count} {word}" for word, count in counts.items() if count]
    missing = [*found.draft.files.missing]
    lines += [f"file not found: {path}" for path in missing[:_MOST]]
    lines += [f"and {len(missing) - _MOST} more files are not found"] if len(missing) > _MOST else []
    lines += ["    hint: --path OLD=NEW, for a folder that has moved"] if missing else []
    for character, place in found.draft.source.ignored[:5]:
        lines.append(f"line {place.line}, column {place.column}: {character!r} is ignored, as in PetaVision")
    lines += found.draft.source.notes
    return "\n".join([*lines, f"{len(found.draft.source.groups)} groups: {', '.join(shown)}"])


def _status(found: Translation, name: str) -> str:
    if name in found.refused:
        return "not supported"
    if name in found.ignored:
        return "left out"
    part = found.draft.parts[name]
    if part.differences:
        return "differs"
    return "mapped"


def _lines(found: Translation) -> Iterator[str]:
    for name, group in found.draft.source.groups.items():
        status = _status(found, name)
        part = found.draft.parts.get(name)
        phase = group.entries.get("phase")
        when = (
            f", phase {phase.value:g}"
            if phase is not None and isinstance(phase.value, float) and phase.value
            else ""
        )
        becomes = f" -> {', '.join(part.becomes)}" if part is not None and part.becomes else ""
        yield f"{status:14} {group.keyword} {name}{when}{becomes}"
        if name in found.refused:
            said = found.refused[name]
            more = (("found", said.found), ("expected", said.expected), ("hint", said.hint))
            yield f"    line {said.line}, {said.message}"
            yield from (f"        {word}: {text}" for word, text in more if text)
        if name in found.ignored:
            yield f"    {found.ignored[name]}"
        if part is not None:
            notes: Sequence[str] = [
                *part.differences,
                *part.left_out,
                *([] if name in found.refused else part.unread()),
            ]
            yield from (f"    {note}" for note in notes)


def header(found: Translation) -> list[str]:
    """Return the first lines of the params file: where it comes from, and what is not in it."""
    draft = found.draft
    lines = [f"From PetaVision's {draft.source.file.rpartition('/')[2]}, by petabatch import."]
    for name, why in found.ignored.items():
        lines.append(f"Left out: {name}; {why}.")
    for name, said in found.refused.items():
        text = said.message.partition(": ")[2] or said.message
        lines.append(
            f"NOT SUPPORTED: {name}, line {said.line}; {text}." + (f" Use {said.hint}." if said.hint else "")
        )
    return lines


def comments(found: Translation) -> dict[tuple[str, str], list[str]]:
    """Return comments where rules differ, by kind and name of the table."""
    lines: dict[tuple[str, str], list[str]] = {}
    for where, part in found.draft.origin.items():
        if part.differences:
            kind, name, *_ = where
            lines[kind, name] = list(dict.fromkeys((*lines.get((kind, name), ()), *part.differences)))
    return lines
