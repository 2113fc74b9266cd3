"""Loading of params files into a validated network, with all errors reported at once."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from petabatch.arguments import whole_number
from petabatch.errors import ParamsError, PetabatchError, Problem, did_you_mean, no_attribute, similar_path
from petabatch.regular_files import read_text
from petabatch.spec import syntax, toml
from petabatch.spec.all_problems import Found, all_problems
from petabatch.spec.memory import InMemory
from petabatch.spec.model import CONSENT, DERIVED
from petabatch.spec.network import Network
from petabatch.spec.override import override
from petabatch.spec.plugins import import_plugins
from petabatch.spec.python import defines_parts, run_python, tables
from petabatch.spec.source_location import SourceLocation

_MARKS = {
    ".toml": re.compile(r"^\s*(\[\s*run\b|run\s*[.=])", re.MULTILINE),
    ".py": re.compile(r"^network\b", re.MULTILINE),
}
"""What params files have and other files of their suffix do not."""


@dataclass(frozen=True)
class Loaded:
    """A network and the text it was read from."""

    network: Network
    text: str = ""
    """Contents of the params file; empty for a network built in Python."""
    location: SourceLocation = field(default_factory=SourceLocation)

    @property
    def file(self) -> str:
        """The path of the file, as given."""
        return self.location.file

    def placed(self, error: ParamsError) -> ParamsError:
        """Return an error found later with the lines of its problems in the file."""
        return self.location.placed(error)

    def on(self, device: Literal["cpu", "gpu"] | None) -> Loaded:
        """Return the network on another device; None leaves it where it is."""
        run = self.network.run
        if device is None or device == run.device:
            return self
        kernel = run.kernel if run.kernel == "array" else "auto"  # the other kernels are specific to a device
        changed = run.model_copy(update={"device": device, "kernel": kernel})
        return replace(self, network=self.network.model_copy(update={"run": changed}))

    def with_parts(self, **parts: int | None) -> Loaded:
        """Return the network with other numbers of parts of slices, such as `rows=2`, where they are given.

        Raises ArgumentError for numbers that are none.
        """
        given = {name: whole_number(name, count, 1) for name, count in parts.items() if count is not None}
        if not given:
            return self
        parallel = self.network.parallel.model_copy(update={"batch": None, **given})
        return replace(self, network=self.network.model_copy(update={"parallel": parallel}))

    @contextmanager
    def placing(self) -> Iterator[None]:
        """Give errors that are found within the block the lines of their problems in the file."""
        try:
            yield
        except ParamsError as error:
            raise self.placed(error) from None

    @classmethod
    def from_json(
        cls,
        text: str,
        file: str,
        arrays: Path | None = None,
        objects: Sequence[object] = (),
        derived: Mapping[Any, Any] | None = None,
    ) -> Loaded:
        """Return the network that `resolved` wrote as JSON.

        `arrays` is the folder of in-memory arrays, `objects` are the objects of Python that it names,
        `derived` is what a run has stored of the derivations of its layers.
        """
        data, location = json.loads(text), SourceLocation(file)
        found = import_plugins(data, Path(file).parent)
        return cls(
            _validate(data, location, found, arrays=arrays, objects=objects, derived=derived), text, location
        )

    @classmethod
    def from_network(cls, network: Network) -> Loaded:
        """Return a network built in Python, with absolute paths: the run can be resumed from anywhere."""
        return cls(_validate(tables(network), SourceLocation(), folder=Path()))

    if not TYPE_CHECKING:  # a type checker would take any name

        def __getattr__(self, name: str) -> Any:
            hint = f"its network has it: .network.{name}" if name in Network.model_fields else ""
            raise no_attribute(self, name, hint)

    def _repr_html_(self) -> str:
        """Return what a notebook shows of the network."""
        return self.network._repr_html_()

    def __repr__(self) -> str:
        network = self.network
        named = (("layers", network.layers), ("connections", network.connections), ("probes", network.probes))
        tables = "; ".join(f"{kind} {', '.join(names)}" for kind, names in named if names)
        return f"<network {self.file}: batch {network.batch}, {network.run.length} steps; {tables}>"


def load(path: Path, overrides: Sequence[str] = (), execute: bool = True) -> Loaded:
    """Read a `.toml` file, or a `.py` file that defines `network`; `overrides` are `key.path=value` strings.

    Without `execute`, its plug-ins are not imported, and a `.py` file is refused. Raises ParamsError with all
    errors found. Built-in types must have been imported before.
    """
    path = Path(path)
    text = _read(path)
    if path.suffix != ".py":
        return parse(text, str(path), path.parent, overrides, execute)
    if not execute:
        problem = Problem("", "this params file is a Python program, which was not executed", hint=CONSENT)
        raise ParamsError([problem], str(path))
    network = run_python(path)
    data = tables(network)
    done, found = override(data, overrides)
    data["plugins"] = list(data.get("plugins", ()))
    found += import_plugins(data, path.parent)
    if defines_parts(network):
        data["plugins"].append(str(path.resolve()))  # a resumed run needs its classes, not its network
    location = SourceLocation(str(path), overrides=done)
    return Loaded(_validate(data, location, found, path.parent), text, location)


def parse(
    text: str,
    file: str = "network",
    folder: Path = Path(),
    overrides: Sequence[str] = (),
    execute: bool = True,
    lines: Mapping[tuple[str, ...], int] | None = None,
) -> Loaded:
    """Return the network of a TOML text; plug-ins and input files are searched for in `folder` first.

    Without `execute`, plug-ins are not imported. `lines` are those of the tables in `file`, where that is not
    the text itself. Raises ParamsError with all errors found.
    """
    try:
        data = syntax.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ParamsError([syntax.problem(error, text)], file) from None
    done, found = override(data, overrides)
    location = SourceLocation(file, toml.positions(text) if lines is None else lines, done)
    found += import_plugins(data, folder, execute)
    return Loaded(_validate(data, location, found, folder, execute=execute), text, location)


def resolved(network: Network) -> dict[str, Any]:
    """Return the network as a JSON-serialisable dictionary, with all defaults filled in.

    Raises PetabatchError for an object of a plug-in that has no such form; arrays have.
    """
    try:
        return network.model_dump(mode="json", fallback=_array_text)
    except PydanticSerializationError as error:
        raise PetabatchError(
            f"params: a value of a plug-in cannot be written\n    found:    {error}\n"
            "    expected: numbers, texts, lists and tables of them, and numpy arrays\n"
            "    hint:     give its field a serializer of pydantic's, such as PlainSerializer(repr)"
        ) from None


def _array_text(value: Any) -> str:
    """Return the text of an array in a field of a plug-in, whose other objects are refused."""
    if not isinstance(value, np.ndarray):
        raise PydanticSerializationError(f"{type(value).__module__}.{type(value).__qualname__}")
    return repr(InMemory(value))


def _read(path: Path) -> str:
    try:
        return read_text(path)
    except FileNotFoundError:
        problem = Problem("", "there is no such file", hint=similar_path(path))
    except UnicodeDecodeError as error:
        problem = Problem("", f"this is not a text file in UTF-8: {error.reason} at byte {error.start}")
    except IsADirectoryError:
        problem = Problem("", "this is a directory", expected="a params file", hint=_inside(path))
    except OSError as error:
        problem = Problem("", f"cannot be read: {error.strerror}")
    raise ParamsError([problem], str(path))


def _inside(folder: Path) -> str:
    """Return a hint at the params files in a folder."""
    if (folder / "checkpoints").is_dir() and (folder / "params.json").is_file():
        return f"it is a run directory: petabatch resume {folder}"
    found = []
    for file in sorted(folder.iterdir()):
        with suppress(OSError, UnicodeDecodeError):
            words = _MARKS.get(file.suffix)
            if words is not None and file.is_file() and words.search(read_text(file)):
                found.append(str(file))
    return f"it contains {', '.join(found[:5])}" if found else ""


def _validate(
    data: dict[str, Any],
    location: SourceLocation,
    before: Sequence[Problem] = (),
    folder: Path | None = None,
    arrays: Path | None = None,
    objects: Sequence[object] = (),
    execute: bool = True,
    derived: Mapping[Any, Any] | None = None,
) -> Network:
    skipped = () if execute else data.get("plugins", ())
    context = {"folder": folder, "arrays": arrays, "objects": objects, "not executed": skipped}
    context[DERIVED] = derived or {}
    wrong = Found([], [], data)
    try:
        network = Network.model_validate(data, context=context)
    except ValidationError as error:
        wrong = all_problems(error, Network, data, context)
    if before or wrong.problems:
        sound = _valid_part(wrong.data, [*before, *_as_written(wrong.left, location)])
        raise PartlyWrong([*before, *_as_written(wrong.problems, location)], sound, data, location)
    return network


def _as_written(found: Iterable[Problem], location: SourceLocation) -> list[Problem]:
    """Return problems with key paths as written in the file, from which values by key path were moved."""
    written = {".".join(path) for path in location.lines}

    def key_of(key: str) -> str:
        for moved, place in (("slices.", ""), ("over_time.", ""), ("sweep.values.", "sweep.")):
            if key.startswith(moved) and key not in written:
                return place + key.removeprefix(moved)
        return key

    return [replace(problem, key=key_of(problem.key)) for problem in found]


class PartlyWrong(ParamsError):
    """Some tables are invalid; `sound` is the network of the others, whose wiring can still be checked."""

    def __init__(
        self, found: Sequence[Problem], sound: Network | None, data: dict[str, Any], location: SourceLocation
    ) -> None:
        super().__init__(location.located(found), location.file)
        self.found, self.sound, self.data, self.location = tuple(found), sound, data, location

    def joined(self, wiring: Iterable[Problem]) -> ParamsError:
        """Return the error with problems of the wiring added, except names that invalid tables define."""
        kinds = (self.data.get(kind) for kind in ("layers", "connections"))
        defined = {str(name) for kind in kinds if isinstance(kind, dict) for name in kind}
        missing = [_with_hint(problem, defined) for problem in wiring if problem.found not in defined]
        return self.location.error([*self.found, *missing])


def _with_hint(problem: Problem, names: Iterable[str]) -> Problem:
    """Return the problem with the most similar name as a hint, unless it already has a hint."""
    return problem if problem.hint else replace(problem, hint=did_you_mean(problem.found, names))


def _valid_part(data: dict[str, Any], found: Sequence[Problem]) -> Network | None:
    """Return the network without the tables that have errors, None if the rest is not a network."""
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
