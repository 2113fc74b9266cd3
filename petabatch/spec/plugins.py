"""Import of plug-ins, which registers the parts they define before a params file is checked."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path
from typing import Any

from petabatch.errors import Problem, did_you_mean


def import_plugins(data: dict[str, Any], folder: Path, execute: bool = True) -> list[Problem]:
    """Import the installed plug-ins and those listed in `data["plugins"]`; return the problems found.

    An entry that ends in `.py` is a file, relative to `folder`; it is replaced by its absolute path, for
    resumed runs. Any other entry is the name of a module. Without `execute`, those listed are not imported.
    """
    found = []
    for point in _installed(tuple((entry, _changed(entry)) for entry in sys.path)):
        found += _import_problems(point.load, point.value)
    names = data.get("plugins")
    for number, name in enumerate(names if isinstance(names, list) else ()):
        if not isinstance(name, str):
            continue  # reported as a wrong type when the whole table is validated
        if not name.endswith(".py"):
            if execute:
                found += _import_problems(partial(importlib.import_module, name), name)
            continue
        path = resolved(folder / name)
        if path.is_file():
            data["plugins"][number] = str(path)
            if execute:
                found += _import_problems(partial(_import_file, path), name, str(path))
        else:
            files = [entry.name for entry in path.parent.glob("*.py") if entry.is_file()]
            hint = did_you_mean(path.name, files)
            found.append(Problem("plugins", "there is no such plug-in file", str(path), hint=hint))
    return found


@lru_cache(maxsize=1)
def _installed(path: tuple[tuple[str, int], ...]) -> EntryPoints:
    """Return the installed plug-ins; to look for them among all packages takes milliseconds."""
    return entry_points(group="petabatch.plugins")


def _changed(folder: str) -> int:
    """Return when something was last installed in a folder of `sys.path`."""
    try:
        return os.stat(folder).st_mtime_ns
    except OSError:
        return 0


def below_current_directory(file: Path) -> bool:
    """Return whether a file lies below the current directory, once symbolic links are resolved."""
    return resolved(file).is_relative_to(Path.cwd().resolve())


def resolved(path: Path) -> Path:
    """Return an absolute path without symbolic links, but for loops of them, which cannot be opened."""
    return Path(os.path.realpath(path))  # of loops, Path.resolve raises RuntimeError


@contextmanager
def importing_from(folder: Path) -> Iterator[None]:
    """Let a file import modules from its own folder, as Python does for scripts."""
    entry = str(folder.resolve())
    sys.path.insert(0, entry)
    try:
        yield
    finally:
        sys.path.remove(entry)


def line_in(file: str, error: BaseException) -> int | None:
    """Return the line of `file` at which an error was raised, None if the file is not in its traceback."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return error.lineno
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return lines[-1] if lines else None


def _import_problems(do_import: Callable[[], object], name: str, file: str = "") -> list[Problem]:
    try:
        do_import()
    except Exception as error:
        line = line_in(file, error)
        hint = f"the error was raised at {file}:{line}" if line else ""
        message = f"a plug-in cannot be imported: {type(error).__name__}: {error}"
        return [Problem("plugins", message, name, hint=hint)]
    return []


def _import_file(path: Path) -> None:
    """Import a Python file once, so that all networks that name it share the same classes."""
    name = f"petabatch_plugin_{path.stem}_{zlib.crc32(str(path).encode()):08x}"
    if name in sys.modules:
        return
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with importing_from(path.parent):
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
