"""Reading of parameter files in Lua."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from petabatch.errors import ParamsError, Problem
from petabatch.petavision.grammar import Entry, Group, ParamsFile, Place, parse, problem

SECONDS = 10
"""Processor time of a file."""
_WAIT = 60
"""Seconds after which its process is ended in any case."""
_SWEEP = re.compile(r'"([^"]*)":(\w+)')
_NAMED = re.compile(r'"([^"\n]*)"|\b(\w+)\s*=\s*\{')
"""Where a group may be named: in quotes, or as the field of a table."""
_PLACE = re.compile(r"(?:.*?):(\d+): (.*)", re.DOTALL)
_ARGUMENTS = "--arg VALUE gives the arguments of a file: it asks for arg[{}]"
_HERE = Path(__file__).parent


@dataclass(frozen=True)
class Environment:
    """What a file in Lua is executed with."""

    variables: Mapping[str, str] = field(default_factory=dict)
    """What `os.getenv` returns."""
    arguments: Sequence[str] = ()
    """`arg[1]`, `arg[2]`, ..."""
    root: Path | None = None
    """The folder from which modules and files are read; by default that of the file."""


def parse_lua(text: str, file: Path, given: Environment) -> list[ParamsFile]:
    """Return the groups of the network that a file in Lua prints by PetaVision's `PVModule`.

    Of a file that writes parameter files, these are returned, one after the other; nothing is written. It is
    executed in a process of its own, without access to files but Lua files below `root`, and with limits of
    processor time and memory. Places are those where a group is first named. Raises ParamsError for errors of
    the file.
    """
    if find_spec("lupa") is None:
        hint = "pip install 'petabatch[petavision]', or `lua FILE.lua > FILE.params`"
        raise ParamsError([Problem("", "files in Lua need the package lupa", hint=hint)], str(file))
    answer = _executed(text, file, given)
    if (wrong := answer.get("error")) is not None:
        raise _error(wrong, file, answer)
    notes = tuple(f"os.execute does nothing here: {command}" for command in answer.get("commands", ()))
    found = []
    for one in answer["networks"]:
        network = parse(one["text"], str(file)) if "text" in one else _network(one["groups"], text, file)
        found.append(replace(network, notes=notes, written=one["file"]))
    return found


def _network(found: list[Any], text: str, file: Path) -> ParamsFile:
    """Return the groups of a network; places are those where a group is first named in the text."""
    groups: dict[str, Group] = {}
    sweeps: dict[tuple[str, str], tuple[Entry, ...]] = {}
    places = _places(text)
    last = len(places), Place(1, 1)
    # Lua's tables have no order: groups come in that in which the file first names them.
    for name, keyword, entries in sorted(found, key=lambda one: (places.get(one[0], last)[0], one[0])):
        place = places.get(name, last)[1]
        values = [(key, _entry(value, place, name, file)) for key, value in entries if key != "groupType"]
        if keyword in ("ParameterSweep", "BatchSweep"):
            match = _SWEEP.fullmatch(name)
            if match is None or {key for key, _ in values} != set(range(1, len(values) + 1)) or not values:
                raise ParamsError([problem(place, "this is no sweep", name)], str(file))
            sweeps[match[1], match[2]] = tuple(entry for _, entry in sorted(values, key=lambda one: one[0]))
        elif wrong := next((key for key, _ in values if not isinstance(key, str)), None):
            raise ParamsError([problem(place, "this parameter has no name", f"{name}[{wrong}]")], str(file))
        else:
            groups[name] = Group(keyword, name, dict(values), place)
    return ParamsFile(str(file), groups, sweeps)


def _executed(text: str, file: Path, given: Environment) -> Any:
    request = {
        "sandbox": _source("sandbox"),
        "modules": {"PVModule": _source("PVModule")},
        "folder": str(file.parent.absolute()),
        "root": str((given.root or file.parent).absolute()),
        "name": file.name,
        "text": text,
        "variables": dict(given.variables),
        "arguments": list(given.arguments),
        "seconds": SECONDS,
    }
    if not (file.parent / "PVSubnets.lua").exists():
        request["modules"]["PVSubnets"] = _source("PVSubnets")  # type: ignore[index]
    try:
        done = subprocess.run(
            [sys.executable, "-I", str(_HERE / "child.py")],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=_WAIT,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"the file does not end within {_WAIT} s"}
    if done.returncode in (-signal.SIGXCPU, -signal.SIGKILL):
        return {"error": f"the file needs more than {SECONDS} s of processor time"}
    if done.returncode or not done.stdout:
        return {"error": f"the file cannot be executed: {done.stderr.decode(errors='replace')[-200:]}"}
    return json.loads(done.stdout)


def _source(module: str) -> str:
    return (_HERE / f"{module}.lua").read_text(encoding="latin-1")


def _error(message: str, file: Path, answer: Mapping[str, Any]) -> ParamsError:
    """Return the error of a file, with its line where it is one of this file."""
    message = message.partition("\nstack traceback")[0]
    match = _PLACE.fullmatch(message)
    line = int(match[1]) if match and message.startswith(f"{file.name}:") else None
    text = match[2] if match and line is not None else message
    hint = ""
    if "nil value" in text or "got nil" in text:
        if variables := list(dict.fromkeys(answer.get("variables", ()))):
            hint = f"--env NAME=VALUE gives what os.getenv returns: {', '.join(variables[:5])}"
        elif answer.get("argument"):
            hint = _ARGUMENTS.format(answer["argument"])
        elif asked := list(dict.fromkeys(answer.get("asked", ()))):
            hint = f"io.open reads no files here: {', '.join(asked[:5])}"
        elif match := re.search(r"call a nil value \(\w+ '(\w+)'\)", text):
            hint = f"there is no function {match[1]} for files in Lua here"
    elif "prints no network" in text:
        hint = _ARGUMENTS.format(answer["argument"]) if answer.get("argument") else ""
        hint += "".join(f"\n              it printed: {one}" for one in answer.get("printed", ()))
    return ParamsError([Problem("", text, hint=hint.strip(), line=line)], str(file))


def _places(text: str) -> dict[str, tuple[int, Place]]:
    """Return where each name is first: its number among them, and its place."""
    found: dict[str, tuple[int, Place]] = {}
    line, start = 1, 0
    for match in _NAMED.finditer(text):
        line += text.count("\n", start, match.start())
        start = match.start()
        column = start - text.rfind("\n", 0, start)
        found.setdefault(match[1] or match[2] or "", (len(found), Place(line, column)))
    return found


def _entry(value: Any, place: Place, name: str, file: Path) -> Entry:
    if not isinstance(value, list):
        return Entry(value, place)
    if len({type(one) for one in value} - {float, str}) or len({type(one) for one in value}) > 1:
        raise ParamsError([problem(place, "this array is not one of numbers", name)], str(file))
    return Entry(tuple(value), place)
