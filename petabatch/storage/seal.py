"""Seals: the checksum that each file of a run carries itself, with the identity of the run.

That of HDF5 and of NumPy arrays is a line after their bytes, which their readers ignore; it covers all bytes
before its digits. That of JSON is a key, of a Zarr group an attribute, and covers what the text says, not how
it is laid out. A file is as it was written if it agrees with its seal.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Any

from petabatch.errors import DamagedError
from petabatch.regular_files import open_regular, reason
from petabatch.storage.files import DESCRIPTION, INPUTS, RESOLVED

_LINE = re.compile(rb"\npetabatch run ([0-9a-f]{16}) crc32 ([0-9a-f]{8})\n")
_LENGTH = len(b"\npetabatch run 0123456789abcdef crc32 01234567\n")
_DIGITS = len(b"01234567\n")
"""Bytes that a seal does not cover."""
KEY, _RUN, _FILE, _CRC = "seal", "run_id", "file", "crc32"
_ATTRIBUTES = "attributes"
"""Of the metadata of a Zarr group, which may have no other keys."""
_BLOCK = 1 << 22
_JSON_ERRORS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


def new_run_id() -> str:
    """Return a random identity for a run: 16 hexadecimal digits."""
    return secrets.token_hex(8)


def checksum(path: Path) -> tuple[int, int]:
    """Return (CRC-32, size in bytes) of a file; raises OSError."""
    with path.open("rb", buffering=0) as file:
        return _crc(file.fileno(), None)


def stated_checksum(path: Path) -> tuple[int, int]:
    """Return the same as `checksum` for a file that is whole, without reading it if it is sealed."""
    with path.open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        found = _seal(file.fileno(), size)
        if found is None:
            return _crc(file.fileno(), None)
        digits = found[2]
        return zlib.crc32(digits + b"\n", int(digits, 16)), size


def seal(descriptor: int, run_id: str) -> None:
    """Append its seal to a complete file of bytes; raises OSError."""
    crc, size = _crc(descriptor, None)
    line = f"\npetabatch run {run_id} crc32 ".encode()
    line += f"{zlib.crc32(line, crc):08x}\n".encode()
    while line:
        written = os.pwrite(descriptor, line, size)
        line, size = line[written:], size + written


def sealed_json(table: Mapping[str, Any], run_id: str, name: str) -> str:
    """Return a table as JSON, with its seal, for a file of this name: no other can take its place."""
    of_run = {_RUN: run_id, _FILE: name}
    return json.dumps({**table, KEY: {**of_run, _CRC: _json_checksum({**table, KEY: of_run})}}, indent=1)


def sealed_attributes(table: Mapping[str, Any], run_id: str) -> str:
    """Return the metadata of a group in Zarr as JSON, with its seal among the attributes."""
    of_run = {_RUN: run_id}
    attributes = {**table[_ATTRIBUTES], KEY: of_run}
    crc = _json_checksum({**table, _ATTRIBUTES: attributes})
    return json.dumps({**table, _ATTRIBUTES: {**attributes, KEY: {**of_run, _CRC: crc}}})


def read_json(path: Path) -> dict[str, Any]:
    """Return the table of a sealed JSON file without its seal, which is not verified.

    Raises OSError, or ValueError if it is none.
    """
    table = json.loads(path.read_bytes())
    if not isinstance(table, dict):
        raise ValueError("this is not a table")
    table.pop(KEY, None)
    return table


def sealed_by(path: Path) -> str | None:
    """Return the run that a file of bytes belongs to, None without a seal; its bytes are not verified."""
    try:
        with path.open("rb", buffering=0) as file:
            found = _seal(file.fileno(), os.fstat(file.fileno()).st_size)
    except OSError:
        return None
    return None if found is None else found[1].decode()


def recorded_run_id(root: Path) -> str | None:
    """Return the identity of the run in a directory, by the first of these that is whole; None without."""
    for name in (RESOLVED, INPUTS, DESCRIPTION):
        with suppress(OSError, DamagedError):
            about = (root / name).stat()
            return _run_id(root / name, about.st_ino, about.st_mtime_ns, about.st_size)
    return None


@lru_cache(maxsize=16)
def _run_id(path: Path, *about: int) -> str:
    """Return the run of a JSON file, of which `about` tells that it is still the same: it may be large."""
    return _verify_json(path)


def verify(root: Path, name: str, contents: bool = True) -> None:
    """Raise DamagedError unless a file of a run directory is there, whole by its seal, and of that run.

    Without `contents`, only its seal is read.
    """
    path = root / name
    try:
        run_id = _verify_json(path) if path.suffix == ".json" else _verify_bytes(path, contents)
    except FileNotFoundError:
        raise DamagedError(f"{path}: this file is missing") from None
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read: {reason(error)}") from error
    if recorded_run_id(root) not in (None, run_id):
        raise DamagedError(f"{path}: this file is damaged: it belongs to another run")


def assert_whole(path: Path) -> None:
    """Raise DamagedError unless a file of bytes, which need not be that of a run, is as it was written."""
    _verify_bytes(path, contents=True)


def _verify_bytes(path: Path, contents: bool) -> str:
    """Return the run that a file of bytes belongs to; raises DamagedError, or OSError."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        found = _seal(file.fileno(), size)
        if found is None:
            raise DamagedError(f"{path}: this file is damaged: it has no seal at its end")
        if contents and _crc(file.fileno(), size - _DIGITS)[0] != int(found[2], 16):
            raise DamagedError(f"{path}: this file is damaged: its bytes have changed")
    return found[1].decode()


def _verify_json(path: Path) -> str:
    """Return the run that a JSON file belongs to; raises DamagedError, or OSError."""
    with open_regular(path) as file:
        text = file.read()
    try:
        stored = json.loads(text)
        seal = stored.get(KEY) or stored.get(_ATTRIBUTES, {}).get(KEY)
        if seal is None:
            raise DamagedError(f"{path}: this file is damaged: it has no seal")
        whole = seal.pop(_CRC) == _json_checksum(stored)
        run_id, name = str(seal[_RUN]), seal.get(_FILE, path.name)
    except _JSON_ERRORS as error:
        raise DamagedError(f"{path}: this file is damaged: {error}") from error
    if not whole:
        raise DamagedError(f"{path}: this file is damaged: its content has changed")
    if name != path.name:
        raise DamagedError(f"{path}: this file is damaged: its content is that of {name}")
    return run_id


def _json_checksum(table: Mapping[str, Any]) -> str:
    return f"{zlib.crc32(json.dumps(table).encode()):08x}"


def _seal(descriptor: int, size: int) -> re.Match[bytes] | None:
    return _LINE.fullmatch(os.pread(descriptor, _LENGTH, size - _LENGTH)) if size >= _LENGTH else None


def _crc(descriptor: int, end: int | None) -> tuple[int, int]:
    """Return (CRC-32, number) of the bytes of a file up to `end`."""
    crc = at = 0
    while block := os.pread(descriptor, _BLOCK if end is None else min(_BLOCK, end - at), at):
        crc, at = zlib.crc32(block, crc), at + len(block)
    return crc, at
