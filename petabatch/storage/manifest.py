"""Manifest of a run directory: the checksums of its files, as text.

One line per file: checksum of the rest of the line, algorithm, checksum, size in bytes, path below the run
directory. Lines of earlier versions have no checksum of their own. Rank 0 appends lines; it rewrites the
manifest, before it removes files, without theirs. A file is whole if it matches one of the last two lines
with its name: `run.h5` gets its line just before it is replaced. Without its newline the last line is
incomplete and ignored. A file without a line is not damaged, since the run may have been killed in between,
but only its seal can prove it.
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
from petabatch.storage import seal
from petabatch.storage.atomic import new_file, replace, unwritable
from petabatch.storage.files import ARRAY, CHECKPOINTS, DATA, HEAD, MANIFEST, PARTS, SEGMENT
from petabatch.storage.seal import checksum, stated_checksum

_ALGORITHM = "crc32"
"""2 GB/s with zlib on any processor; SHA-256 reaches that only with instructions of its own."""
_NAME = rf"{PARTS}/{SEGMENT}|{CHECKPOINTS}/{HEAD}|{DATA}/{ARRAY}|(?!\.\.?$)[^/\0]+"
"""A line names a segment, a head, an array or a file of the run directory: an untrusted manifest cannot name
files elsewhere, such as a device."""
UNPROVEN = "this file cannot be verified: the manifest does not name it, and it has no seal"
_LINE = re.compile(
    rf"(?:([0-9a-f]{{8}}) )?({_ALGORITHM} ([0-9a-f]{{8}}) ([0-9]{{1,18}}) ({_NAME}))", re.ASCII
)


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
        """The line, with its own checksum and its newline."""
        text = f"{_ALGORITHM} {self.checksum} {self.size} {self.name}"
        return f"{_checksum(text)} {text}\n"

    @classmethod
    def of(cls, path: Path, name: str) -> Entry:
        """Return the line that describes a whole file `path` under the name `name`; raises OSError."""
        crc, size = stated_checksum(path)
        return cls(f"{crc:08x}", size, name)


@dataclass(frozen=True)
class Manifest:
    """What a manifest says."""

    entries: dict[str, tuple[Entry, ...]]
    """The last lines with each name, at most two."""
    bad_lines: tuple[int, ...] = ()
    """Numbers of the lines that are none."""

    def problem(self, root: Path) -> str:
        """Return what is wrong with a manifest that has bad lines."""
        return f"{root / MANIFEST}: this file is damaged in line {', '.join(map(str, self.bad_lines))}"

    def check(self, root: Path, name: str, contents: bool = True) -> bool:
        """Compare a file with its lines, or its seal if it has none; return False if it has neither.

        Raises DamagedError if it differs from them; without `contents`, only if its size does.
        """
        entries = self.entries.get(name, ())
        if not entries:
            return seal.verify(root, name, contents)
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
    """Verify a file as a whole; return False if it has neither a line in the manifest nor a seal.

    Raises DamagedError if the file differs from it. A file that is replaced meanwhile is verified
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
        raise unwritable(root / MANIFEST, error) from error


def rename(temporary: Path, path: Path) -> None:
    """Give a complete file its name in the run directory, and its line; called on rank 0 only.

    Raises OSError or StorageError. A file that is replaced gets the line first, a new one afterwards: a kill
    in between damages neither.
    """
    entry, new = Entry.of(temporary, path.name), not path.exists()
    if not new:
        append(path.parent, [entry])
    replace(temporary, path)
    if new:
        append(path.parent, [entry])


def write(path: Path, text: str) -> None:
    """Write or replace a file of text in the run directory, with its line; called on rank 0 only.

    Raises StorageError.
    """
    with new_file(path, rename) as file:
        file.write(text.encode())


def forget(root: Path, names: Collection[str]) -> None:
    """Rewrite the manifest without the lines of these files, which are about to be removed."""
    manifest = read(root)
    if any(name in manifest.entries for name in names):
        rewrite(root, [e for name, es in manifest.entries.items() if name not in names for e in es])


def rewrite(root: Path, entries: Iterable[Entry]) -> None:
    """Replace the manifest; called on rank 0 only."""
    with new_file(root / MANIFEST) as file:
        file.write("".join(entry.line for entry in entries).encode())


def _parse(line: str) -> Entry | None:
    found = _LINE.fullmatch(line)
    if found is None or found[1] not in (None, _checksum(found[2])):
        return None
    return Entry(found[3], int(found[4]), found[5])


def _checksum(text: str) -> str:
    return f"{zlib.crc32(text.encode()):08x}"


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        about = path.stat()
    except OSError:
        return None
    return about.st_ino, about.st_mtime_ns
