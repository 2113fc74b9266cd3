"""The process that executes a parameter file in Lua: a file and its surroundings in, groups out, as JSON.

It is started by `petabatch.petavision.lua.read`, imports nothing of petabatch, and limits itself: processor
time, memory, no files written. No object of Python is within reach of the file.
"""

from __future__ import annotations

import json
import math
import re
import resource
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

MEGABYTES = 256
"""Memory of Lua."""
_MOST = 1 << 20
"""Groups, parameters and values of arrays."""
_LONGEST = 1 << 24
"""Characters of the answer, as of a parameter file."""
_MODULE = re.compile(r"\w+(?:\.\w+)*", re.ASCII)


class Wrong(Exception):
    """What the file printed is no network."""


def main() -> None:
    """Read the request from standard input, and print the answer."""
    given = json.load(sys.stdin)
    lua = import_module("lupa.lua54")
    resource.setrlimit(resource.RLIMIT_CPU, (given["seconds"], given["seconds"]))
    resource.setrlimit(resource.RLIMIT_AS, (4 * MEGABYTES << 20, 4 * MEGABYTES << 20))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    runtime = lua.LuaRuntime(
        register_eval=False,
        register_builtins=False,
        encoding="latin-1",
        attribute_filter=_nothing,
        max_memory=MEGABYTES << 20,
        unpack_returned_tuples=True,
    )
    try:
        sandbox = runtime.compile(given["sandbox"])
        run = sandbox(
            _reader(Path(given["folder"])),
            runtime.table_from(given["variables"]),
            runtime.table_from(given["modules"]),
        )
        printed, names = run(given["text"], given["name"])
        answer = json.dumps({"groups": _groups(printed, names, lua.lua_type)})
        if len(answer) > _LONGEST:
            raise Wrong("this network is too large to be one of PetaVision")
    except (lua.LuaError, MemoryError, RecursionError, Wrong) as error:
        said = (
            f"the file needs more than {MEGABYTES} MB of memory"
            if isinstance(error, MemoryError)
            else str(error)
        )
        answer = json.dumps({"error": said[:2000] or type(error).__name__})
    sys.stdout.write(answer)


def _nothing(owner: object, name: object, setting: bool) -> object:
    raise AttributeError("no attribute of Python is within reach")


def _reader(folder: Path) -> Any:
    """Return the function that reads a module: (text, None), or (None, message); it never raises."""

    def read(name: object) -> tuple[str | None, str | None]:
        if not isinstance(name, str) or not _MODULE.fullmatch(name):
            return None, f"{name!r} is no name of a module"
        file = folder / f"{name.replace('.', '/')}.lua"
        try:
            if file.exists() and not file.is_file():
                return None, f"the module {name} cannot be read: {file} is no file"
            inside = file.resolve().is_relative_to(folder.resolve())
            return (file.read_bytes().decode("latin-1"), None) if inside else (None, f"{file} is elsewhere")
        except OSError as error:
            return None, f"the module {name} cannot be read: {error.strerror}: {file}"

    return read


def _groups(printed: Any, names: Any, kind: Any) -> list[Any]:
    """Return name, class and parameters of each group."""
    if printed is None:
        found = [value for value in names.values() if _network(value, kind)]
        if len(found) != 1:
            what = "several networks" if found else "no network"
            raise Wrong(f"the file prints {what}: PVModule.printConsole(groups) is what petabatch reads")
        (printed,) = found
    groups = []
    for name, group in _items(printed):
        if not isinstance(name, str) or kind(group) != "table":
            raise Wrong(f"{_shown(name)} is no group of parameters")
        keyword = group["groupType"]
        if not isinstance(keyword, str):
            raise Wrong(f"the group {_shown(name)} has no groupType")
        entries = [(key, _value(value, kind, name, key)) for key, value in _items(group)]
        groups.append([_text(name), _text(keyword), entries])
    return groups


def _network(value: Any, kind: Any) -> bool:
    if kind(value) != "table":
        return False
    return any(kind(group) == "table" and group["groupType"] == "HyPerCol" for _, group in _items(value))


def _items(table: Any) -> list[tuple[Any, Any]]:
    found = []
    for item in table.items():
        found.append(item)
        if len(found) > _MOST:
            raise Wrong("this table is too large")
    return [(_text(key), value) for key, value in found]


def _value(value: Any, kind: Any, name: object, key: object, inside: bool = False) -> Any:
    """Return a value as the grammar of parameter files has it: a number, a text, a flag, NULL or an array."""
    where = f"{_shown(name)}.{_shown(key)}"
    if kind(value) == "function":
        return None
    if kind(value) == "table" and not inside:
        count = len(value)
        if count > _MOST:
            raise Wrong(f"{where} is too long")
        return [_value(value[at], kind, name, key, True) for at in range(1, count + 1)]
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float) and not math.isnan(value):
        return float(value)
    raise Wrong(f"{where} is neither a number, a text, true, false nor an array")


def _text(value: Any) -> Any:
    return value.encode("latin-1").decode("utf-8", "replace") if isinstance(value, str) else value


def _shown(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


if __name__ == "__main__":
    main()
