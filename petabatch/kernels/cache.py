"""The cache of compiled kernels on disk: its folders, and the name of a file in them.

A kernel is compiled for a *target*, not for one processor: x86-64-v3 (AVX2 and FMA) or x86-64-v4 (AVX-512).
So its file serves all machines of a cluster. Its folder is named after what it was made of, not after times:

    FOLDER / identity / target / module.function-signature.kernel

The *identity* is a hash of the sources of all kernels and of the versions of Python, numba and llvmlite, and
of what the environment asks of numba.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from pathlib import Path

from petabatch.logs import log

GIVEN = "NUMBA_CACHE_DIR"
"""The environment variable that names a folder for the cache."""
_HERE = Path(__file__).parent
SHIPPED = _HERE / "compiled"
"""Kernels that were installed with the package."""
OWN = _HERE / "__pycache__" / "kernels"
"""Kernels beside their sources."""
_KEPT = 30 * 86400
"""Seconds for which kernels of other sources, or of another environment of the checkout, are kept."""
_SETTINGS = (
    "NUMBA_BOUNDSCHECK",
    "NUMBA_CPU_FEATURES",
    "NUMBA_OPT",
    "NUMBA_LOOP_VECTORIZE",
    "NUMBA_SLP_VECTORIZE",
)
"""Environment variables that change compiled code."""


@cache
def identity() -> str:
    """Return the hash of all that kernels are made of, as it was when they were imported."""
    return _hashed()


def _hashed() -> str:
    found = hashlib.sha256()
    settings = [f"{name}={value}" for name in _SETTINGS if (value := os.environ.get(name))]
    for one in (sys.implementation.cache_tag, version("numba"), version("llvmlite"), *settings):
        found.update(f"{one}\n".encode())
    for file in sorted(_HERE.rglob("[!.]*.py")):
        found.update(f"{file.relative_to(_HERE)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:16]


def find(name: str, target: str) -> Path | None:
    """Return the file of a kernel compiled for a target; None if there is none."""
    for folder in (*folders(), SHIPPED):
        file = folder / identity() / target / name
        if file.exists() and (folder == SHIPPED or _private(folder)):
            return file
    return None


def contents(folder: Path, names: Collection[str]) -> dict[str, int]:
    """Return how many of these kernels a folder has, by target."""
    found = sorted(path for path in (folder / identity()).glob("*") if path.is_dir())
    return {path.name: sum((path / name).exists() for name in names) for path in found}


def new_file(name: str, target: str) -> Path | None:
    """Return the file that a kernel compiled for a target is written to; None if it cannot be kept.

    Tells once, in a warning, that no folder is writable.
    """
    folder = writable_folder()
    if folder is None or _hashed() != identity():  # sources have changed since they were imported
        return None
    try:
        (folder / identity() / target).mkdir(parents=True, exist_ok=True)
    except OSError:
        return None
    return folder / identity() / target / name


def folders() -> list[Path]:
    """Return the folders that are read: the given one, or that beside the sources and that of the user."""
    if given := os.environ.get(GIVEN):
        return [Path(given).absolute()]
    return [OWN, _user()]


def _user() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "petabatch").absolute()


def writable_folder() -> Path | None:
    """Return the folder that kernels are written to; None if there is none."""
    return _writable_folder(os.environ.get(GIVEN, ""), os.environ.get("XDG_CACHE_HOME", ""))


@cache
def _writable_folder(given: str, user: str) -> Path | None:
    found = next((folder for folder in folders() if _writable(folder) and _private(folder)), None)
    if found is None:
        tried = ", ".join(map(str, folders()))
        log.warning(
            "compiled kernels are not kept: no permission to write, no room, or files of other users, in %s\n"
            "    hint:     export %s=/a/directory/of/yours",
            tried,
            GIVEN,
        )
    elif found == OWN:
        for former in found.iterdir():
            if former.name != identity() and time.time() - former.stat().st_mtime > _KEPT:
                shutil.rmtree(former, ignore_errors=True)
    return found


def _private(folder: Path) -> bool:
    """Return whether only its owner can write to a folder below one such as /tmp, where every user can."""
    folder = folder.resolve()
    if not any(path.stat().st_mode & stat.S_IWOTH for path in (folder, *folder.parents)):
        return True
    about = folder.stat()
    return about.st_uid in (os.getuid(), 0) and not about.st_mode & 0o022


def _writable(folder: Path) -> bool:
    """Return whether files can be written in a folder, which is created if it is missing."""
    try:
        folder.mkdir(0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(bytes(4096))
    except OSError:
        return False
    return True


def write(file: Path, content: bytes) -> None:
    """Write a file of the cache, whole or not at all; a full disk costs the next start, not this run."""
    part = file.with_name(f".{file.name}.{os.getpid()}")
    try:
        part.write_bytes(content)
        part.replace(file)
    except OSError as error:
        log.warning("%s: this compiled kernel is not kept: %s", file, error)
        with suppress(OSError):
            part.unlink()


identity()  # before kernels are imported, whose sources may change while a process runs
