"""The names of recorded arrays, and the errors about names that were not recorded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from petabatch.errors import UnknownName, did_you_mean
from petabatch.results.series import Series


def recorded(file: Any) -> tuple[str, ...]:
    """Return the paths of all recorded arrays in an open run file."""
    found: list[str] = []

    def visit(path: str, item: Any) -> None:
        if "sparse" in item.attrs:
            found.append(path)

    file.visititems(visit)
    return tuple(found)


def members(file: Path, names: Iterable[str], folder: str, kind: str, name: str) -> list[str]:
    """Return what was recorded of a layer, connection, probe or input; raises UnknownName if nothing was."""
    places = [place.split("/") for place in names if place.startswith(f"{folder}/")]
    found = [place[2] for place in places if place[1] == name]
    if not found:
        raise unknown(f"{file}: no {kind} named {name} was recorded", name, {place[1] for place in places})
    return found


def unknown(message: str, name: str, known: Iterable[str], near: Iterable[str] = ()) -> UnknownName:
    """Return the error; `near` are the names to suggest, by default the most similar one."""
    names = sorted(known)
    lines = [
        message,
        f"    expected: {', '.join(names)}" if names else "    expected: nothing: none was recorded",
    ]
    if hint := next(iter(near), ""):
        lines.append(f"    hint:     did you mean {hint}?")
    elif hint := did_you_mean(str(name), names):
        lines.append(f"    hint:     {hint}")
    return UnknownName("\n".join(lines))


class Quantities(dict[str, Series]):
    """The quantities of a probe, by name."""

    def __init__(self, file: Path, probe: str, found: Mapping[str, Series]) -> None:
        super().__init__(found)
        self._file, self._probe = file, probe

    def __missing__(self, name: str) -> Series:
        raise unknown(f"{self._file}: probe {self._probe} does not measure {name}", name, self)
