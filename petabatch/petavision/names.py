"""Names of groups that petabatch cannot use, and those that they have here."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import replace

from petabatch.petavision.grammar import Entry, Group, ParamsFile

_UNUSABLE = re.compile(r"[^A-Za-z0-9_-]")


def usable(source: ParamsFile) -> ParamsFile:
    """Return a parameter file whose groups have names of letters, digits, _ and -, also where values do."""
    names: dict[str, str] = {}
    taken = set(source.groups)
    for name in source.groups:
        if _UNUSABLE.search(name) or not name:
            found = _plain(name)
            while found in taken:
                found += "_"
            taken.add(found)
            names[name] = found
    if not names:
        return source
    groups = [_renamed(group, names) for group in source.groups.values()]
    notes = [f"{old} is {new} here: names have letters, digits, _ and -" for old, new in names.items()]
    return replace(source, groups={one.name: one for one in groups}, notes=(*source.notes, *notes))


def _plain(name: str) -> str:
    """Return a name with letters without accents, and _ for what is left."""
    letters = "".join(one for one in unicodedata.normalize("NFKD", name) if not unicodedata.combining(one))
    return _UNUSABLE.sub("_", letters) or "_"


def _renamed(group: Group, names: Mapping[str, str]) -> Group:
    entries = {
        key: Entry(names[entry.value], entry.place)
        if isinstance(entry.value, str) and entry.value in names
        else entry
        for key, entry in group.entries.items()
    }
    name = names.get(group.name, group.name)
    return replace(group, name=name, entries=entries, title=group.title or group.name)
