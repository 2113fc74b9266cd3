"""`petabatch import`: parameter files to params files."""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from petabatch.errors import ArgumentError, InputError, ParamsError, Problem
from petabatch.petavision.lua import Environment
from petabatch.petavision.read import Imported, read


@dataclass(frozen=True)
class Converted:
    """A params file that has been written, or is to be printed."""

    path: Path | None
    text: str
    report: str
    incomplete: bool
    """Groups are not supported."""
    wrong: bool = False
    """It is no network, or `check` refuses the params file."""


def convert(
    source: Path,
    output: Path | None,
    moved: Sequence[tuple[str, str]],
    checkpoint: Path | None,
    force: bool,
    environment: Environment,
) -> Iterator[Converted]:
    """Translate a parameter file, or all of a folder and those below; yield each params file once written.

    Of a folder, files in Lua are named and not executed. Raises ArgumentError if a file would be replaced
    without `force`, ParamsError for a single file that is not of the grammar.
    """
    if checkpoint is not None and not checkpoint.is_dir():
        raise ArgumentError("--checkpoint", "there is no such directory", str(checkpoint))
    if environment.root is not None and not environment.root.is_dir():
        raise ArgumentError("--root", "there is no such folder", str(environment.root))
    if source.is_dir():
        found = [path for path in sorted(source.rglob("*")) if path.is_file()]
        files = [path for path in found if path.suffix in (".params", ".pv")]
        programs = [path for path in found if path.suffix == ".lua"]
        hint = f"petabatch import {programs[0]}" if programs else ""
        if not files:
            expected = "files .params or .pv in it, or in folders below"
            problem = Problem("", "there is no parameter file in this folder", "", expected, hint)
            raise InputError(problem.render(str(source)))
        if output is not None and output.suffix == ".toml":
            raise ArgumentError("--output", "a folder of parameter files becomes a folder", str(output))
        targets = [None if output is None else output / name for name in _names(files, source)]
        for path in programs:
            yield Converted(None, "", f"{path}: not executed; petabatch import {path}", False)
    else:
        files, targets = [source], [output]
        if output is not None and output.suffix != ".toml":
            output.mkdir(parents=True, exist_ok=True)
            targets = [output / f"{source.stem}.toml"]
    for file, target in zip(files, targets, strict=True):
        folder = Path() if target is None else target.parent
        try:
            networks = read(file, folder, moved, checkpoint, environment)
        except ParamsError as error:
            if not source.is_dir():
                raise
            yield Converted(None, "", str(error), False, True)
            continue
        yield from _written(file, target, networks, force)


def _names(files: Sequence[Path], folder: Path) -> list[Path]:
    """Return the params file that each file of a folder becomes; two that differ in their suffix keep it."""
    found = [file.relative_to(folder).with_suffix(".toml") for file in files]
    often = Counter(found)
    return [
        name.with_name(f"{file.name}.toml") if often[name] > 1 else name
        for name, file in zip(found, files, strict=True)
    ]


def _written(file: Path, target: Path | None, found: Sequence[Imported], force: bool) -> Iterator[Converted]:
    paths: list[Path | None] = [target]
    if target is not None and len(found) > 1:
        paths = [target.with_stem(f"{target.stem}_{number}") for number in range(1, len(found) + 1)]
    elif len(found) > 1:
        paths = [None] * len(found)
    for path in paths:
        if path is not None and path.exists() and not force:
            raise ArgumentError("--output", "this file exists", str(path), hint="--force replaces it")
    for number, (path, one) in enumerate(zip(paths, found, strict=True)):
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, one.text)
        incomplete = one.translation.error() is not None
        where = (
            "" if path is None else f"\n{path}{': incomplete, see NOT SUPPORTED in it' if incomplete else ''}"
        )
        written = one.translation.draft.source.written
        same = number and written == found[number - 1].translation.draft.source.written
        said = where.strip() if same else f"{file}{f': {written}' if written else ''}\n{one.report}{where}"
        wrong = None if incomplete else one.wrong()
        said += "" if wrong is None else f"\nnot valid: {wrong}"
        yield Converted(path, one.text, said, incomplete, wrong is not None)


def _write(path: Path, text: str) -> None:
    """Write a file that is complete or not there at all."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise
