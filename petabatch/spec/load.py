"""From a params file to a validated network, with every error in it at once."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from petabatch.errors import ParamsError, Problem, did_you_mean, nearest
from petabatch.spec import toml
from petabatch.spec.network import Network
from petabatch.spec.override import override
from petabatch.spec.plugins import plug_in
from petabatch.spec.problems import problems
from petabatch.spec.python import defines_parts, run_python, tables
from petabatch.spec.source_location import Place


@dataclass(frozen=True)
class Loaded:
    """A network with the text it came from."""

    network: Network
    text: str = ""
    """The params file as given; empty for a network built in Python."""
    place: Place = field(default_factory=Place)

    @property
    def file(self) -> str:
        """The name of the file, as given."""
        return self.place.file

    def error(self, found: Iterable[Problem]) -> ParamsError:
        """Return the error for problems found later, placed in the file."""
        return self.place.error(found)

    @classmethod
    def from_json(cls, text: str, file: str, arrays: Path | None = None) -> Loaded:
        """Return the network of `resolved`, as a run directory keeps it, and in `arrays` those in memory."""
        data, place = json.loads(text), Place(file)
        found = plug_in(data, Path(file).parent)
        return cls(_validate(data, place, found, arrays=arrays), text, place)

    @classmethod
    def from_network(cls, network: Network) -> Loaded:
        """Return a network built in Python, its paths in full, so that the run can be resumed anywhere."""
        return cls(_validate(tables(network), Place(), folder=Path()))


def load(path: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Read a `.toml` file, or a `.py` file that defines `network`; `overrides` are `key.path=value` strings.

    Raises ParamsError with everything that is wrong. Built-in types must have been imported before.
    """
    path = Path(path)
    text = _read(path)
    if path.suffix != ".py":
        return parse(text, str(path), path.parent, overrides)
    network = run_python(path)
    data = tables(network)
    done, found = override(data, overrides)
    data["plugins"] = list(data["plugins"])
    found += plug_in(data, path.parent)
    if defines_parts(network):
        data["plugins"].append(str(path.resolve()))  # a resumed run needs its classes, not its network
    place = Place(str(path), overrides=done)
    return Loaded(_validate(data, place, found, path.parent), text, place)


def parse(text: str, file: str = "params", folder: Path = Path(), overrides: Sequence[str] = ()) -> Loaded:
    """Return the network of a TOML text; plug-ins and input files are looked for in `folder` first.

    Raises ParamsError with everything that is wrong.
    """
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParamsError([toml.problem(error, text)], file) from None
    done, found = override(data, overrides)
    place = Place(file, toml.positions(text), done)
    found += plug_in(data, folder)
    return Loaded(_validate(data, place, found, folder), text, place)


def resolved(network: Network) -> dict[str, Any]:
    """Return the network with every default filled in, ready for JSON."""
    return network.model_dump(mode="json")


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")  # some editors begin a file with a byte-order mark
    except FileNotFoundError:
        names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
        near = nearest(path.name, names)
        told = Problem(
            "", "there is no such file", hint=f"did you mean {path.parent / near}?" if near else ""
        )
    except UnicodeDecodeError as error:
        told = Problem("", f"this is not a text file in UTF-8: {error.reason} at byte {error.start}")
    except IsADirectoryError:
        inside = sorted(str(entry) for entry in path.iterdir() if entry.suffix in (".toml", ".py"))
        hint = f"in it are {', '.join(inside[:5])}" if inside else ""
        told = Problem("", "this is a directory", expected="a params file", hint=hint)
    except OSError as error:
        told = Problem("", f"cannot be read: {error.strerror}")
    raise ParamsError([told], str(path))


def _validate(
    data: dict[str, Any],
    place: Place,
    before: Sequence[Problem] = (),
    folder: Path | None = None,
    arrays: Path | None = None,
) -> Network:
    found = list(before)
    try:
        network = Network.model_validate(data, context={"folder": folder, "arrays": arrays})
    except ValidationError as error:
        found += problems(error, Network, data)
    if found:
        raise PartlyWrong(found, _sound_part(data, found), data, place)
    return network


class PartlyWrong(ParamsError):
    """Some tables are wrong; `sound` is the network of the others, whose wiring can still be checked."""

    def __init__(
        self, found: Sequence[Problem], sound: Network | None, data: dict[str, Any], place: Place
    ) -> None:
        super().__init__(place.placed(found), place.file)
        self.found, self.sound, self.data, self.place = tuple(found), sound, data, place

    def joined(self, wiring: Iterable[Problem]) -> ParamsError:
        """Return the error with problems of the wiring added, but for names that wrong tables define."""
        kinds = (self.data.get(kind) for kind in ("layers", "connections"))
        defined = {str(name) for kind in kinds if isinstance(kind, dict) for name in kind}
        missing = [_hinted(problem, defined) for problem in wiring if problem.found not in defined]
        return self.place.error([*self.found, *missing])


def _hinted(problem: Problem, names: Iterable[str]) -> Problem:
    """Return the problem with the nearest name as a hint, if it has none and there is one."""
    return problem if problem.hint else replace(problem, hint=did_you_mean(problem.found, names))


def _sound_part(data: dict[str, Any], found: Sequence[Problem]) -> Network | None:
    """Return the network without the tables in which something was found, None if that is none."""
    bad = [f"{problem.key}." for problem in found]
    kept: dict[str, Any] = {"run": {"steps": 1}}
    for kind in ("layers", "connections", "probes"):
        named = data.get(kind, {})
        if isinstance(named, dict):
            kept[kind] = {
                name: table
                for name, table in named.items()
                if not any(key.startswith(f"{kind}.{name}.") for key in bad)
            }
    if isinstance(data.get("output"), dict) and not any(key.startswith("output.") for key in bad):
        kept["output"] = data["output"]
    try:
        return Network.model_validate(kept)
    except ValidationError:
        return None
