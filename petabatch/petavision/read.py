"""Reading of PetaVision's parameter files: from the text to networks as TOML."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from petabatch import builtins  # noqa: F401  (makes every built-in type known)
from petabatch.errors import ParamsError, Problem, similar_path
from petabatch.network.build import build
from petabatch.petavision.draft import Table
from petabatch.petavision.files import Files
from petabatch.petavision.grammar import ParamsFile, parse
from petabatch.petavision.lua import Environment, parse_lua
from petabatch.petavision.names import usable
from petabatch.petavision.network import Translation, translate
from petabatch.petavision.report import comments, header, report
from petabatch.petavision.sweep import points, swept
from petabatch.petavision.text import toml
from petabatch.regular_files import read_text
from petabatch.spec.load import Loaded
from petabatch.spec.load import parse as parse_toml


@dataclass(frozen=True)
class Imported:
    """A network from a parameter file."""

    translation: Translation
    tables: Table
    text: str
    """The params file, TOML."""

    @property
    def report(self) -> str:
        """What became of each group."""
        return report(self.translation)

    def wrong(self) -> ParamsError | None:
        """Return what `check` would say of the network, without its files; None where nothing is wrong."""
        file = Path(self.translation.draft.source.file)
        try:
            loaded = parse_toml(self.text, str(file), file.parent, lines=self.lines)
            with loaded.placing():
                build(loaded.network)
        except ParamsError as error:
            return error
        return None

    @property
    def lines(self) -> Mapping[tuple[str, ...], int]:
        """The line of the parameter file that each table comes from."""
        draft = self.translation.draft
        found: dict[tuple[str, ...], int] = {("run",): draft.column.group.place.line}
        for where, part in draft.origin.items():
            found[where] = part.group.place.line
        return found


def read(
    file: Path,
    target: Path | None = None,
    moved: Sequence[tuple[str, str]] = (),
    checkpoint: Path | None = None,
    environment: Environment | None = None,
) -> list[Imported]:
    """Translate a parameter file: to one network, or to one for each value of a ParameterSweep.

    Paths are relative to the folder `target`, or absolute. `moved` are beginnings of paths and what is in
    their place; `checkpoint` is a directory of PetaVision to start from. Groups that are not supported are in
    the report. A file in Lua is executed in its `environment`; it may write several networks. Raises
    ParamsError if it is not a parameter file of a network.
    """
    text = _text(file)
    lua = file.suffix == ".lua"
    sources = parse_lua(text, file, environment or Environment()) if lua else [parse(text, str(file))]
    return [
        one for source in sources for one in _networks(source, Files(file.parent, target, moved, checkpoint))
    ]


def _networks(source: ParamsFile, files: Files) -> list[Imported]:
    """Return the network of a parameter file, or one for each value that is swept."""
    found = [translate(usable(point), files) for point in points(source)]
    if len(found) > 1 and all(one.error() is None for one in found):
        together = swept([one.tables for one in found])
        if together is not None:
            return [_imported(found[0], together)]
    return [_imported(one, one.tables) for one in found]


def load(file: Path, overrides: Sequence[str] = ()) -> Loaded:
    """Return the network of a parameter file; raises ParamsError with its lines.

    Raises ParamsError also for a sweep that is several networks.
    """
    found = read(file)
    if len(found) > 1:
        problem = Problem(
            "",
            "this ParameterSweep is several networks",
            f"{len(found)}",
            hint=f"petabatch import {file} -o FILE.toml",
        )
        raise ParamsError([problem], str(file))
    (one,) = found
    if (error := one.translation.error()) is not None:
        raise error
    return parse_toml(one.text, str(file), file.parent, overrides, lines=one.lines)


def _imported(found: Translation, tables: Table) -> Imported:
    return Imported(found, tables, toml(tables, header(found), comments(found)))


def _text(file: Path) -> str:
    try:
        return read_text(file, "utf-8", "replace")
    except FileNotFoundError:
        problem = Problem("", "there is no such file", hint=similar_path(file))
    except IsADirectoryError:
        problem = Problem("", "this is a directory", expected="a parameter file")
    except OSError as error:
        problem = Problem("", f"cannot be read: {error.strerror}")
    raise ParamsError([problem], str(file))
