"""Seals: the checksum that a file carries itself, with the identity of its run.

The manifest has the checksum of every file. A seal proves those that the manifest does not name, because the
run was killed in between or because the manifest is damaged. That of an HDF5 file is a line after the bytes
of HDF5, which HDF5 ignores; it covers all bytes before its digits. That of `run.json` is a key.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import stat
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from petabatch.errors import DamagedError
from petabatch.storage.files import DESCRIPTION, RUN_FILE

_LINE = re.compile(rb"\npetabatch run ([0-9a-f]{16}) crc32 ([0-9a-f]{8})\n")
_LENGTH = len(b"\npetabatch run 0123456789abcdef crc32 01234567\n")
_DIGITS = len(b"01234567\n")
"""Bytes that a seal does not cover."""
_KEY = "crc32"
_BLOCK = 1 << 22


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
    """Append its seal to a complete HDF5 file; raises OSError."""
    crc, size = _crc(descriptor, None)
    line = f"\npetabatch run {run_id} crc32 ".encode()
    line += f"{zlib.crc32(line, crc):08x}\n".encode()
    while line:
        written = os.pwrite(descriptor, line, size)
        line, size = line[written:], size + written


def sealed_json(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return a table for JSON with its checksum."""
    return {**table, _KEY: _json_checksum(table)}


def sealed_by(path: Path) -> str | None:
    """Return the run that an HDF5 file belongs to, None without a seal; its bytes are not verified."""
    try:
        with path.open("rb", buffering=0) as file:
            found = _seal(file.fileno(), os.fstat(file.fileno()).st_size)
    except OSError:
        return None
    return None if found is None else found[1].decode()


def recorded_run_id(root: Path) -> str | None:
    """Return the identity of the run in a directory, by its `run.json`.

    Empty for a run of an earlier version, None where it is not known.
    """
    try:
        return str(json.loads((root / DESCRIPTION).read_bytes())["provenance"].get("run_id", ""))
    except (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return None


def verify(root: Path, name: str, contents: bool = True) -> bool:
    """Verify a file of a run directory by its seal; return False if it has none.

    Without `contents`, only that it belongs to the run. Raises DamagedError if it differs from its seal or
    belongs to another run.
    """
    path = root / name
    try:
        if not stat.S_ISREG(path.stat().st_mode):
            return False
        if name == DESCRIPTION:
            return _verify_json(path)
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            found = _seal(file.fileno(), size)
            if found is None:
                return False
            crc = _crc(file.fileno(), size - _DIGITS)[0] if contents else int(found[2], 16)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read: {error.strerror}") from error
    if crc != int(found[2], 16):
        raise DamagedError(f"{path}: this file is damaged: its bytes have changed")
    if recorded_run_id(root) not in (None, found[1].decode()):
        raise DamagedError(f"{path}: this file is damaged: it belongs to another run")
    return True


def _verify_json(path: Path) -> bool:
    try:
        stored = json.loads(path.read_bytes())
        if _KEY not in stored:
            return False
        whole = stored.pop(_KEY) == _json_checksum(stored)
        ours = sealed_by(path.parent / RUN_FILE) in (None, stored["provenance"].get("run_id"))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise DamagedError(f"{path}: this file is damaged: {error}") from error
    if not whole:
        raise DamagedError(f"{path}: this file is damaged: its bytes have changed")
    if not ours:
        raise DamagedError(f"{path}: this file is damaged: it belongs to another run")
    return True


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
