"""The ledger of a sweep in waves: its finished points with what they recorded, in files that only grow.

Each process writes one file, to which it appends a frame for each commit: a prefix with the sizes and the
checksum of what follows, a text in JSON and the rows of an array, one row for each point. A kill leaves at
most an incomplete last frame, which is ignored. Files are never changed, so that processes on any number of
hosts need no locks.
"""

from __future__ import annotations

import json
import mmap
import os
import re
import struct
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from petabatch.errors import DamagedError, FormatError, StorageError
from petabatch.storage.atomic import new_file, replace, sync_directory
from petabatch.storage.damaged import naming_damage
from petabatch.storage.files import LEDGER, LOST, POINTS

FORMAT = 1
_MAGIC = b"pbwaves\n"
_PREFIX = struct.Struct("<8sIIQI")
"""Mark, number of rows, bytes of the text, bytes of the rows, checksum of both."""
_CHECK = struct.Struct("<I")
"""Checksum of the prefix."""
_WHOLE = _PREFIX.size + _CHECK.size
VALUES, FAILED = "values", "failed"
"""Fields of a row: the values of the point, and the step at which it failed, -1 if it did not."""


@dataclass(frozen=True)
class Layout:
    """What the rows of a ledger hold."""

    network: str
    """Digest of the network without its points."""
    paths: tuple[str, ...]
    """Key paths of the values."""
    batch: int
    """Slices of each point."""
    streams: tuple[Mapping[str, Any], ...]
    """What is recorded of each point: the fields of `Stream`, with the shape of one point."""
    steps: Mapping[str, Sequence[int]]
    """Steps at whose end they are recorded, by path."""

    @property
    def dtype(self) -> np.dtype:
        """The type of a row."""
        fields: list[tuple[str, Any, tuple[int, ...]]] = [
            (VALUES, "<f8", (len(self.paths),)),
            (FAILED, "<i8", ()),
        ]
        for stream in self.streams:
            shape = (len(self.steps[stream["path"]]), *stream["shape"])
            if stream["batched"] and 0 not in shape:
                fields.append((stream["path"], np.dtype(stream["dtype"]).newbyteorder("<"), shape))
        return np.dtype(fields)

    @property
    def table(self) -> dict[str, Any]:
        """The same for JSON."""
        steps = {path: list(map(int, steps)) for path, steps in self.steps.items()}
        about = {"network": self.network, "paths": self.paths, "batch": self.batch}
        return {**about, "streams": self.streams, "steps": steps}

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> Layout:
        """Return the layout that `table` describes."""
        return cls(
            table["network"], tuple(table["paths"]), table["batch"], tuple(table["streams"]), table["steps"]
        )


@dataclass(frozen=True)
class Ledger:
    """One file of a ledger, as far as it is whole."""

    path: Path
    layout: Layout
    software: Mapping[str, Any]
    """Versions of what made the points, as in the provenance of a run."""
    common: Mapping[str, np.ndarray]
    """What was recorded once for all points, by path."""
    rows: Sequence[np.ndarray]
    """The rows of each frame, in the file."""
    failures: Mapping[int, str]
    """Why points failed, by the number of their row."""


class LedgerWriter:
    """A new file of a ledger, made at the first commit."""

    def __init__(self, path: Path, layout: Layout, software: Mapping[str, Any] | None = None) -> None:
        self.path, self._layout, self._software = path, layout, software or {}
        self._made = self._has_common = False

    def commit(
        self, rows: np.ndarray, failures: Mapping[int, str], common: Mapping[str, np.ndarray] | None = None
    ) -> None:
        """Append finished points, durably; raises StorageError if they cannot be written.

        `failures` say why points failed, by the number of their row, `common` is what was recorded once for
        all points, by path.
        """
        frames = [] if self._made else [_frame(self._head, b"", 0)]
        if common and not self._has_common:
            about = [[path, values.dtype.str, values.shape] for path, values in common.items()]
            body = b"".join(np.ascontiguousarray(values).tobytes() for values in common.values())
            frames.append(_frame({"common": about}, body, 0))
        reasons = {str(row): text for row, text in failures.items()}
        frames.append(_frame({"failures": reasons}, rows.tobytes(), len(rows)))
        flags = os.O_WRONLY | os.O_APPEND | (0 if self._made else os.O_CREAT | os.O_EXCL)
        try:
            descriptor = os.open(self.path, flags, 0o666)
            try:
                _append(descriptor, b"".join(frames))
            except OSError:
                if not self._made:  # the next attempt makes it
                    self.path.unlink()
                raise
            finally:
                os.close(descriptor)
            if not self._made:
                sync_directory(self.path.parent)
        except OSError as error:
            raise StorageError(
                f"{self.path}: cannot be written: {error.strerror}\n"
                "    hint:     points committed before are intact; free disk space, then resume"
            ) from error
        self._made, self._has_common = True, self._has_common or bool(common)

    @property
    def _head(self) -> dict[str, Any]:
        return {"format": FORMAT, "software": self._software, **self._layout.table}


def _append(descriptor: int, content: bytes) -> None:
    """Append to a file, durably; where that fails, as on a full disk, none of it is left."""
    before, left = os.fstat(descriptor).st_size, memoryview(content)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
        os.fsync(descriptor)
    except OSError:
        os.ftruncate(descriptor, before)
        raise


def new_name(folder: Path, chunk: int, chunks: int) -> Path:
    """Return the name of a file that does not exist yet, for chunk `chunk` of `chunks`, from 1."""
    stem = f"{chunk:0{len(str(chunks))}}-of-{chunks}"
    taken = [int(path.name.split(".")[0].rpartition("_")[2]) for path in folder.glob(f"{stem}_*")]
    return folder / f"{stem}_{max(taken, default=0) + 1}{LEDGER}"


def files_of(root: Path) -> list[Path]:
    """Return the files of the ledger of a run directory, in the order of their names."""
    return sorted(
        (root / POINTS).glob(f"*{LEDGER}"), key=lambda path: [int(n) for n in re.findall(r"\d+", path.name)]
    )


def read(path: Path) -> Ledger | None:
    """Return what a file holds, None if not even its head is complete.

    Raises DamagedError if a frame is not what was written, FormatError for another format.
    """
    found = list(_frames(path))
    if bad := next((frame for frame in found if frame.problem), None):
        raise DamagedError(f"{path}: this file is damaged: {bad.problem}")
    return _ledger(path, found) if found else None


def _ledger(path: Path, found: Sequence[_Frame]) -> Ledger:
    head, *frames = found
    with naming_damage(path):
        if head.text.get("format") != FORMAT:
            raise FormatError(f"{path}: not a ledger of format {FORMAT}")
        layout, common = Layout.of(head.text), {}
        for name, dtype, shape, body in (one for frame in frames for one in _common(frame)):
            common[name] = np.frombuffer(body, dtype).reshape(shape)
        frames = [frame for frame in frames if frame.count]
        rows = [np.frombuffer(frame.body, layout.dtype, frame.count) for frame in frames]
    failures, before = dict[int, str](), 0
    for frame in frames:
        failures |= {before + int(row): str(text) for row, text in frame.text["failures"].items()}
        before += frame.count
    return Ledger(path, layout, head.text.get("software", {}), common, rows, failures)


def _common(frame: _Frame) -> Iterator[tuple[str, str, Sequence[int], Any]]:
    """Yield path, dtype, shape and bytes of the arrays in a frame that were recorded once for all points."""
    at = 0
    for path, dtype, shape in frame.text.get("common", ()):
        end = at + int(np.prod(shape)) * np.dtype(dtype).itemsize
        yield path, dtype, shape, frame.body[at:end]
        at = end


def repair(path: Path) -> bool:
    """Take damaged frames out of a file; return whether there were any. Their points are not finished then.

    The damaged file is kept as `NAME.lost`.
    """
    found = list(_frames(path))
    if not any(frame.problem for frame in found):
        return False
    whole = [frame for frame in found if not frame.problem]
    if whole and whole[0].text.get("format") != FORMAT:  # without its head, nothing can be read
        whole = []

    def rename(temporary: Path, path: Path) -> None:
        replace(path, path.with_name(f"{path.name}{LOST}"))
        replace(temporary, path)

    with new_file(path, rename) as file:
        for frame in whole:
            file.write(_frame(frame.text, bytes(frame.body), frame.count))
    return True


@dataclass(frozen=True)
class _Frame:
    """A frame of a file, or a part of it that is none."""

    count: int
    text: Mapping[str, Any]
    body: Any
    problem: str = ""


def _frame(text: Mapping[str, Any], body: bytes, rows: int) -> bytes:
    coded = json.dumps(text).encode()
    prefix = _PREFIX.pack(_MAGIC, rows, len(coded), len(body), zlib.crc32(body, zlib.crc32(coded)))
    return b"".join((prefix, _CHECK.pack(zlib.crc32(prefix)), coded, body))


def _frames(path: Path) -> Iterator[_Frame]:
    """Yield the frames of a file, without an incomplete last one."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size == 0:
                return
            view = memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise DamagedError(f"{path}: cannot be read: {error.strerror}") from error
    at = 0
    while size - at >= _WHOLE:
        prefix = view[at : at + _PREFIX.size]
        (stated,) = _CHECK.unpack(view[at + _PREFIX.size : at + _WHOLE])
        if stated != zlib.crc32(prefix):
            following = _next_mark(view, at + 1)
            yield _Frame(0, {}, b"", f"byte {at:,} begins no frame")
            at = size if following is None else following
            continue
        _, rows, text_bytes, body_bytes, crc = _PREFIX.unpack(prefix)
        middle, end = at + _WHOLE + text_bytes, at + _WHOLE + text_bytes + body_bytes
        if end > size:
            return
        coded, body = view[at + _WHOLE : middle], view[middle:end]
        if zlib.crc32(body, zlib.crc32(coded)) == crc:
            yield _Frame(rows, json.loads(bytes(coded)), body)
        else:
            yield _Frame(0, {}, b"", f"the frame at byte {at:,} has changed")
        at = end


def _next_mark(view: memoryview, start: int) -> int | None:
    """Return the place of the next prefix, None if there is none."""
    while (at := view.obj.find(_MAGIC, start)) >= 0:  # type: ignore[attr-defined]
        prefix = view[at : at + _PREFIX.size]
        if len(view) - at >= _WHOLE and _CHECK.unpack(view[at + _PREFIX.size : at + _WHOLE])[0] == zlib.crc32(
            prefix
        ):
            return int(at)
        start = at + 1
    return None
