"""The process that executes a parameter file in Lua: a file and its surroundings in, groups out, as JSON.

It is started by `petabatch.petavision.lua.read`, imports nothing of petabatch, and limits itself: processor
time, memory, no files written. No object of Python is within reach of the file.
"""

from __future__ import annotations

import json
import math
import os
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
_TOLD = 100
"""Variables and commands that are told of."""
_MODULE = re.compile(r"\w+(?:\.\w+)*", re.ASCII)

_WRITTEN = re.compile("\x01(\\d+)\x01")
"""What stands for a network in a file that is written."""


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
    said: dict[str, Any] = {}
    told: Any = None
    try:
        sandbox = runtime.compile(given["sandbox"])
        run, told = sandbox(
            _reader(Path(given["folder"]), Path(given["root"])),
            runtime.table_from({_bytes(name): _bytes(value) for name, value in given["variables"].items()}),
            runtime.table_from([_bytes(one) for one in given["arguments"]]),
            runtime.table_from(given["modules"]),
        )
        printed, names, files = run(_bytes(given["text"]), _bytes(given["name"]))
        said["networks"] = _networks(printed, names, files, lua.lua_type)
        if len(json.dumps(said)) > _LONGEST:
            raise Wrong("this network is too large to be one of PetaVision")
    except Exception as error:
        what = (
            f"the file needs more than {MEGABYTES} MB of memory"
            if isinstance(error, MemoryError)
            else _text(str(error))
        )
        said = {"error": what[:2000] or type(error).__name__}
    if told is not None:
        said |= {
            key: [_text(one)[:200] for one in told[key].values()][:_TOLD]
            for key in ("variables", "commands", "printed", "asked")
        }
        said["argument"] = told["argument"]
    sys.stdout.write(json.dumps(said))


def _nothing(owner: object, name: object, setting: bool) -> object:
    raise AttributeError("no attribute of Python is within reach")


def _reader(folder: Path, root: Path) -> Any:
    """Return the function that reads a module or file below `root`: (text, None), or (None, message).

    It never raises.
    """

    def read(name: object, is_path: bool) -> tuple[str | None, str | None]:
        if not isinstance(name, str) or not (is_path or _MODULE.fullmatch(name)):
            return None, f"{_shown(name)} is no name of a module"
        what = f"the {'file' if is_path else 'module'} {_text(name)}"
        path = _text(name) if is_path else f"{name.replace('.', '/')}.lua"
        try:
            places = [place / path for place in (root, folder)[:: 1 if is_path else -1]]
            file = next((place for place in places if place.exists()), places[0])
            if not Path(os.path.realpath(file)).is_relative_to(root.resolve()):  # also of loops of links
                return None, _bytes(f"{file} is outside the root folder {root}, which --root sets")
            if file.exists() and not file.is_file():
                return None, _bytes(f"{what} cannot be read: it is no regular file: {file}")
            return file.read_bytes().decode("latin-1"), None
        except Exception as error:  # as well of files larger than the memory
            why = (isinstance(error, OSError) and error.strerror) or type(error).__name__
            return None, _bytes(f"{what} cannot be read: {why}: {path if is_path else places[0]}")

    return read


def _networks(printed: Any, names: Any, files: Any, kind: Any) -> list[dict[str, Any]]:
    """Return the networks that are written to files, or else the one that is printed, or global.

    Each has the name of its file, and its groups, or the text that is no network of PVModule.
    """
    found: list[dict[str, Any]] = []
    for _, file in _items(files):
        name, text = file[1], file[2]
        if match := _WRITTEN.search(text):
            found.append({"file": _text(name), "groups": _groups(printed[int(match[1])], kind)})
        elif name.endswith((".params", ".pv")):
            found.append({"file": _text(name), "text": _text(text)})
    if found:
        return found
    networks = [value for _, value in _items(printed)]
    if not networks:
        networks = [value for value in names.values() if _network(value, kind)]
        if len(networks) != 1:
            what = "several networks" if networks else "no network"
            raise Wrong(f"the file prints {what}: PVModule.printConsole(groups) is what petabatch reads")
    return [{"file": "", "groups": _groups(networks[-1], kind)}]


def _groups(printed: Any, kind: Any) -> list[Any]:
    """Return name, class and parameters of each group."""
    groups = []
    for name, group in _items(printed):
        if not isinstance(name, str) or kind(group) != "table":
            raise Wrong(f"{_shown(name)} is no group of parameters")
        keyword = group["groupType"]
        if not isinstance(keyword, str):
            raise Wrong(f"the group {_shown(name)} has no groupType")
        entries = [(key, _value(value, kind, name, key)) for key, value in _items(group)]
        groups.append([name, _text(keyword), entries])
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
    """Return a value of Lua, of a text what its bytes say in UTF-8."""
    return value.encode("latin-1").decode("utf-8", "replace") if isinstance(value, str) else value


def _bytes(text: str) -> str:
    """Return a text as Lua has it: a character for each byte of its UTF-8."""
    return text.encode("utf-8", "replace").decode("latin-1")


def _shown(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__


if __name__ == "__main__":
    main()
