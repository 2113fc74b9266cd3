"""Manifest of a run directory: the checksums of its files, as text.

One line per file: algorithm, checksum, size in bytes, path below the run directory. Rank 0 appends lines; it
rewrites the manifest, before it removes files, without theirs. A file is whole if it matches one of the last
two lines with its name: `run.h5` gets its line just before it is replaced. Without its newline the last line
is incomplete and ignored, and a file without a line is not damaged: the run was killed in between.
"""

from __future__ import annotations

import os
import re
import stat
import zlib
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path

from petabatch.errors import DamagedError, StorageError

MANIFEST = "manifest.txt"
_ALGORITHM = "crc32"
"""2 GB/s with zlib on any processor; SHA-256 reaches that only with instructions of its own."""
_LINE = re.compile(
    rf"{_ALGORITHM} ([0-9a-f]{{8}}) ([0-9]{{1,18}}) ((?:(?:parts|checkpoints|data)/)?(?!\.\.?$)[^/\0]+)"
)
"""A line names a file of the run directory or of a folder in it: an untrusted manifest cannot name files
elsewhere, such as a device."""
_BLOCK = 1 << 22


@dataclass(frozen=True)
class Entry:
    """One line: what a file must contain."""

    checksum: str
    size: int
    """Bytes."""
    name: str
    """Path below the run directory."""

    @property
    def line(self) -> str:
        """The line, with its newline."""
        return f"{_ALGORITHM} {self.checksum} {self.size} {self.name}\n"

    @classmethod
    def of(cls, path: Path, name: str) -> Entry:
        """Return the line that describes the file `path` under the name `name`; raises OSError."""
        crc, size = checksum(path)
        return cls(f"{crc:08x}", size, name)


@dataclass(frozen=True)
class Manifest:
    """What a manifest says."""

    entries: dict[str, tuple[Entry, ...]]
    """The last lines with each name, at most two."""
    bad_lines: tuple[int, ...] = ()
    """Numbers of the lines that are none."""

    def check(self, root: Path, name: str, contents: bool = True) -> bool:
        """Compare a file with its lines; return False if it has none.

        Raises DamagedError if it differs from them; without `contents`, only if its size does.
        """
        entries = self.entries.get(name, ())
        if not entries:
            return False
        try:
            about = (root / name).stat()
            if not stat.S_ISREG(about.st_mode):
                raise DamagedError(f"{root / name}: this is not a file")
            size = about.st_size
            alike = [entry for entry in entries if entry.size == size]
            if alike and contents:
                found = f"{checksum(root / name)[0]:08x}"
                alike = [entry for entry in alike if entry.checksum == found]
        except OSError as error:
            raise DamagedError(f"{root / name}: cannot be read: {error.strerror}") from error
        if not alike:
            resized = size not in {entry.size for entry in entries}
            what = (
                f"it has {size:,} bytes, expected {entries[-1].size:,}"
                if resized
                else "its bytes have changed"
            )
            raise DamagedError(f"{root / name}: this file is damaged: {what}")
        return True


def read(root: Path) -> Manifest:
    """Return the manifest of a run directory; it is empty for runs of format 1."""
    try:
        text = (root / MANIFEST).read_bytes().decode("utf-8", "replace")
    except FileNotFoundError:
        return Manifest({})
    except OSError as error:
        raise StorageError(f"{root / MANIFEST}: cannot be read: {error.strerror}") from error
    entries: dict[str, tuple[Entry, ...]] = {}
    bad = []
    for number, line in enumerate(text.split("\n")[:-1], 1):
        entry = _parse(line)
        if entry is None:
            bad.append(number)
        else:
            entries[entry.name] = (*entries.get(entry.name, ())[-1:], entry)
    return Manifest(entries, tuple(bad))


def verify(root: Path, name: str) -> bool:
    """Verify a file as a whole; return False if the manifest has no line for it.

    Raises DamagedError if the file differs from its line. A file that is replaced meanwhile is verified
    again.
    """
    for _ in range(3):
        before = _identity(root / name)
        try:
            return read(root).check(root, name)
        except DamagedError as error:
            damage = error
        if _identity(root / name) == before:
            break
    raise damage


def append(root: Path, entries: Iterable[Entry]) -> None:
    """Add lines; called on rank 0 only. Raises StorageError when they cannot be written."""
    text = "".join(entry.line for entry in entries)
    if not text:
        return
    try:
        with (root / MANIFEST).open("a+b") as file:
            file.seek(0)
            whole = file.read().rfind(b"\n") + 1
            file.truncate(whole)  # a kill may have left an incomplete line
            file.write(text.encode())
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise _unwritable(root, error) from error


def replace(root: Path, temporary: Path, name: str) -> None:
    """Rename a complete file to `name`, and add its line; called on rank 0 only.

    Raises OSError or StorageError.

    A file that is replaced gets the line first, a new one afterwards: a kill in between damages neither.
    """
    entry, new = Entry.of(temporary, name), not (root / name).exists()
    if not new:
        append(root, [entry])
    os.replace(temporary, root / name)
    if new:
        append(root, [entry])


def forget(root: Path, names: Collection[str]) -> None:
    """Rewrite the manifest without the lines of these files, which are about to be removed."""
    manifest = read(root)
    if any(name in manifest.entries for name in names):
        rewrite(root, [e for name, es in manifest.entries.items() if name not in names for e in es])


def rewrite(root: Path, entries: Iterable[Entry]) -> None:
    """Replace the manifest; called on rank 0 only."""
    temporary = root / f".{MANIFEST}.tmp"
    try:
        with temporary.open("wb") as file:
            file.write("".join(entry.line for entry in entries).encode())
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, root / MANIFEST)
    except OSError as error:
        raise _unwritable(root, error) from error


def checksum(path: Path) -> tuple[int, int]:
    """Return (CRC-32, size in bytes) of a file; raises OSError."""
    crc = size = 0
    with path.open("rb", buffering=0) as file:
        while block := file.read(_BLOCK):
            crc, size = zlib.crc32(block, crc), size + len(block)
    return crc, size


def _parse(line: str) -> Entry | None:
    found = _LINE.fullmatch(line)
    return None if found is None else Entry(found[1], int(found[2]), found[3])


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns


def _unwritable(root: Path, error: OSError) -> StorageError:
    return StorageError(
        f"{root / MANIFEST}: cannot be written: {error.strerror}\n"
        f"    hint:     files written before are intact; free disk space or check permissions, then resume"
    )
