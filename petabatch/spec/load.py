"""From a params file to a validated network, with every error in it at once."""

from __future__ import annotations

import importlib
import importlib.util
import json
import runpy
import sys
import tomllib
import traceback
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from petabatch.errors import ParamsError, Problem, did_you_mean, nearest
from petabatch.spec import toml
from petabatch.spec.network import Network
from petabatch.spec.problems import problems

_NOTHING = Network.model_validate({"run": {"steps": 1}, "layers": {}})


@dataclass(frozen=True)
class Loaded:
    """A network with the text it came from."""

    network: Network
    text: str
    """The params file as given; empty for a network built in Python."""
    file: str = "params"
    lines: Mapping[tuple[str, ...], int] = field(default_factory=dict)
    """One-based line of each key."""
    overrides: Mapping[str, str] = field(default_factory=dict)
    """What the command line set, by key."""

    def error(self, found: Iterable[Problem]) -> ParamsError:
        """Return the error for problems found later, placed in the file."""
        return ParamsError(_placed(found, self.lines, self.overrides), self.file)

    @classmethod
    def from_json(cls, text: str, file: str) -> Loaded:
        """Return the network of `resolved`, as a run directory keeps it."""
        data = json.loads(text)
        _plug_in(data, Path(file).parent)
        return cls(_validate(data, file, {}, {}), text, file)


def load(path: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read a `.toml` file, or a `.py` file that defines `network`; `overrides` are `key.path=value` strings.

    Raises ParamsError with everything that is wrong. Built-in types must have been imported before.
    """
    file = str(path)
    text = _read(Path(path))
    if Path(path).suffix == ".py":
        return _run_python(Path(path), text, overrides)
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem = Problem("", f"this is not valid TOML: {error}", line=toml.error_line(error, text))
        raise ParamsError([problem], file) from None
    lines = toml.positions(text)
    set_by_hand = _override(data, overrides, file)
    found = _plug_in(data, Path(path).parent)
    network = _validate(data, file, lines, set_by_hand, found)
    return Loaded(network, text, file, lines, set_by_hand)


def resolved(network: Network) -> dict[str, Any]:
    """Return the network with every default filled in, ready for JSON."""
    return network.model_dump(mode="json")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, names)
        hint = f"did you mean {path.parent / near}?" if near else ""
        raise ParamsError([Problem("", "there is no such file", hint=hint)], str(path)) from None
    except UnicodeDecodeError as error:
        raise ParamsError([Problem("", f"this is not a text file in UTF-8: {error}")], str(path)) from None
    except OSError as error:
        raise ParamsError([Problem("", f"cannot be read: {error.strerror}")], str(path)) from None


def _run_python(path: Path, text: str, overrides: Sequence[str]) -> Loaded:
    try:
        network = runpy.run_path(str(path)).get("network")
    except ValidationError as error:
        raise ParamsError(problems(error, Network, {}), str(path)) from None
    except Exception as error:
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(path)]
        line = frames[-1].lineno if frames else getattr(error, "lineno", None)
        raise ParamsError([Problem("", f"{type(error).__name__}: {error}", line=line)], str(path)) from error
    if not isinstance(network, Network):
        hint = "network = petabatch.Network(run=..., layers=..., connections=...)"
        raise ParamsError(
            [Problem("", "this file defines no `network`", found=repr(network), hint=hint)], str(path)
        )
    if not overrides:
        return Loaded(network, text, str(path))
    data = {name: getattr(network, name) for name in Network.model_fields}
    plain = {name: _plain(value) for name, value in data.items()}
    set_by_hand = _override(plain, overrides, str(path))
    return Loaded(_validate(plain, str(path), {}, set_by_hand), text, str(path), {}, set_by_hand)


def _plain(value: Any) -> Any:
    """Return models as tables, leaving in-memory arrays as they are."""
    if hasattr(value, "model_fields"):
        return {name: _plain(getattr(value, name)) for name in type(value).model_fields}
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def _override(data: dict[str, Any], overrides: Sequence[str], file: str) -> dict[str, str]:
    """Set keys in `data`; returns what was set. Raises ParamsError for text that is no `key=value`."""
    found: dict[str, str] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            problem = Problem("", "an override has the form key=value", found=f"-s {text}")
            raise ParamsError([replace(problem, hint="-s layers.V1.threshold=0.3")], file)
        try:
            parsed = tomllib.loads(f"value = {value}")["value"]
        except tomllib.TOMLDecodeError:
            parsed = value
        *tables, last = key.strip().split(".")
        place = data
        for table in tables:
            inner = place.setdefault(table, {})
            if not isinstance(inner, dict):
                inner = place[table] = {}
            place = inner
        place[last] = parsed
        found[key.strip()] = text
    return found


def _plug_in(data: Mapping[str, Any], folder: Path) -> list[Problem]:
    """Import plug-ins so that their types are known; files are named in full for later runs."""
    found = []
    for point in entry_points(group="petabatch.plugins"):
        point.load()
    names = data.get("plugins", ())
    if not isinstance(names, list):
        return []
    for number, name in enumerate(names):
        try:
            if not str(name).endswith(".py"):
                importlib.import_module(str(name))
                continue
            path = (folder / str(name)).resolve()
            names[number] = str(path)
            _import_file(path)
        except Exception as error:
            found.append(
                Problem(
                    "plugins", f"a plug-in cannot be imported: {type(error).__name__}: {error}", str(name)
                )
            )
    return found


def _import_file(path: Path) -> None:
    """Import a Python file once; a second network that names it gets the same classes."""
    name = f"petabatch_plugin_{path.stem}_{abs(hash(str(path))):x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise


def _validate(
    data: Mapping[str, Any],
    file: str,
    lines: Mapping[tuple[str, ...], int],
    overrides: Mapping[str, str],
    before: Sequence[Problem] = (),
) -> Network:
    found = list(before)
    network = None
    try:
        # Files named in the params are looked for beside the params file first.
        network = Network.model_validate(data, context={"folder": Path(file).parent})
    except ValidationError as error:
        found += problems(error, Network, data)
    if network is None or found:
        raise PartlyWrong(found, _sound_part(data, found), data, Loaded(_NOTHING, "", file, lines, overrides))
    return network


class PartlyWrong(ParamsError):
    """Some tables are wrong; `sound` is the network of the others, whose wiring can still be checked."""

    def __init__(
        self, found: Sequence[Problem], sound: Network | None, data: Mapping[str, Any], place: Loaded
    ) -> None:
        super().__init__(_placed(found, place.lines, place.overrides), place.file)
        self.found, self.sound, self.data, self.place = tuple(found), sound, data, place

    def joined(self, wiring: Iterable[Problem]) -> ParamsError:
        """Return the error with problems of the wiring added, but for names that wrong tables define."""
        defined = {str(name) for kind in ("layers", "connections") for name in self.data.get(kind, {})}
        missing = [_hinted(problem, defined) for problem in wiring if problem.found not in defined]
        return self.place.error([*self.found, *missing])


def _hinted(problem: Problem, names: Iterable[str]) -> Problem:
    """Return the problem with the nearest name as a hint, if it has none and there is one."""
    return problem if problem.hint else replace(problem, hint=did_you_mean(problem.found, names))


def _sound_part(data: Mapping[str, Any], found: Sequence[Problem]) -> Network | None:
    """Return the network without the tables in which something was found, None if that is none."""
    bad = {tuple(problem.key.split(".")[:2]) for problem in found}
    kept: dict[str, Any] = {"run": {"steps": 1}}
    for kind in ("layers", "connections", "probes"):
        tables = data.get(kind, {})
        if isinstance(tables, dict):
            kept[kind] = {name: table for name, table in tables.items() if (kind, name) not in bad}
    if isinstance(data.get("output"), dict) and not any(key[0] == "output" for key in bad):
        kept["output"] = data["output"]
    try:
        return Network.model_validate(kept)
    except ValidationError:
        return None


def _placed(
    found: Iterable[Problem], lines: Mapping[tuple[str, ...], int], overrides: Mapping[str, str]
) -> list[Problem]:
    """Return the problems with their lines, in the order of the file."""
    placed = []
    for problem in found:
        path = tuple(problem.key.split(".")) if problem.key else ()
        by_hand = next((text for key, text in overrides.items() if problem.key.startswith(key)), None)
        if by_hand is not None:
            placed.append(replace(problem, message=f"{problem.message} (set by -s {by_hand})"))
            continue
        known = next((path[:depth] for depth in range(len(path), 0, -1) if path[:depth] in lines), None)
        placed.append(replace(problem, line=lines[known]) if known and problem.line is None else problem)
    return sorted(placed, key=lambda problem: problem.line or 0)
