"""`petabatch import`: parameter files to params files."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from petabatch.errors import ArgumentError
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


def convert(
    source: Path,
    output: Path | None,
    moved: Sequence[tuple[str, str]],
    checkpoint: Path | None,
    force: bool,
    environment: Environment,
) -> Iterator[Converted]:
    """Translate a parameter file, or all of a folder; yield each params file once it is written.

    Raises ArgumentError if a file would be replaced without `force`, ParamsError for a file that is not of
    the grammar.
    """
    if checkpoint is not None and not checkpoint.is_dir():
        raise ArgumentError("--checkpoint", "there is no such directory", str(checkpoint))
    if source.is_dir():
        files = sorted(source.glob("*.params"))
        if not files:
            raise ArgumentError("FOLDER", "there is no .params file in this folder", str(source))
        if output is not None and output.suffix == ".toml":
            raise ArgumentError("--output", "a folder of parameter files becomes a folder", str(output))
        targets = [None if output is None else output / f"{file.stem}.toml" for file in files]
    else:
        files, targets = [source], [output]
        if output is not None and output.suffix != ".toml":
            output.mkdir(parents=True, exist_ok=True)
            targets = [output / f"{source.stem}.toml"]
    for file, target in zip(files, targets, strict=True):
        folder = Path() if target is None else target.parent
        yield from _written(file, target, read(file, folder, moved, checkpoint, environment), force)


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
        said = where.strip() if number else f"{file}\n{one.report}{where}"  # points of a sweep are alike
        yield Converted(path, one.text, said, incomplete)


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
