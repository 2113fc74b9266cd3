"""Fingerprints of input files and plug-ins, compared between hosts, and with those of the start on resuming.

A fingerprint is a file's size, modification time and a hash of some of its bytes: of its first and last block
and, in files larger than 2 MiB, of up to 62 blocks in between. Changing a compressed image, or more than a
few numbers of an array, changes the hash. Modification times alone prove nothing: copies have new ones. Of a
plug-in every byte is hashed, and compared before it is executed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from io import BufferedReader

from petabatch.errors import InputError
from petabatch.logs import log
from petabatch.parallel.comm import Comm
from petabatch.parallel.consistency import fingerprint as hash_of
from petabatch.parallel.consistency import name_ranks
from petabatch.regular_files import open_regular
from petabatch.sources.over_files import over_files
from petabatch.spec.network import Network
from petabatch.storage.damaged import naming_damage
from petabatch.storage.directory import RunDirectory
from petabatch.storage.files import INPUTS
from petabatch.storage.seal import read_json

_BLOCK = 4096
"""Bytes per hashed block."""
_SPACING = 1 << 20
"""Bytes between blocks, up to `_MOST` blocks."""
_MOST = 64
"""Largest number of blocks hashed per file."""
_SHORT = 16
"""Digits of the hash of blocks."""
_LISTED = 5
"""Files listed in a message."""


@dataclass(frozen=True)
class Fingerprint:
    """What identifies the content of a file."""

    path: str
    size: int
    """Bytes; -1 for a missing file."""
    modified: int
    """Modification time in ns."""
    digest: str

    @property
    def content(self) -> tuple[int, str]:
        """The part that must not change: size and hash."""
        return self.size, self.digest


def fingerprints(network: Network) -> list[Fingerprint]:
    """Return the fingerprint of every file that a network reads while it runs, in the order shown."""
    sources = [layer.images.source for layer in network.layers.values() if layer.images is not None]
    if network.evaluate is not None:
        sources.append(network.evaluate.source)
    paths = [path for source in sources for path in source.paths()]
    paths += _programs(network.plugins)
    if network.sweep is not None and network.run.start_from is not None:
        paths.append(network.run.start_from)  # from which points that are made later start, too
    return over_files(_fingerprint, paths, f"fingerprinting {len(paths):,} input files")


def table(files: Iterable[Fingerprint]) -> dict[str, object]:
    """Return fingerprints as a table for JSON."""
    return {"files": [[file.path, file.size, file.modified, file.digest] for file in files]}


def recorded(directory: RunDirectory) -> list[Fingerprint]:
    """Return the fingerprints recorded when a run started."""
    with naming_damage(directory.inputs):
        return [Fingerprint(*file) for file in read_json(directory.inputs)["files"]]


def summary(directory: RunDirectory) -> dict[str, object]:
    """Return the number, total size and combined hash of the input files, for the run file."""
    files = recorded(directory)
    whole = hashlib.sha256(json.dumps([file.content for file in files]).encode()).hexdigest()[:16]
    return {"files": len(files), "bytes": sum(file.size for file in files), "sha256": whole}


def compare_plugins(directory: RunDirectory, plugins: Sequence[str], changed_input: bool) -> None:
    """Compare plug-in files with the fingerprints recorded when the run started, before they are executed.

    Raises InputError when one has changed, unless `changed_input` allows it.
    """
    paths = _programs(plugins)
    before = {file.path: file for file in recorded(directory)}
    old = [before[path] for path in paths if path in before]
    now = [file for file in map(_fingerprint, paths) if file.size >= 0]
    if changed_input or [file.content for file in old] == [file.content for file in now]:
        return
    raise InputError(
        f"{directory.path}: plug-ins have changed since the run started; they were not executed\n"
        f"    found:    {_differences(old, now)}\n"
        f"    expected: those recorded in {directory.inputs}\n"
        f"    hint:     restore them, or resume with --changed-input, which executes them"
    )


def compare(directory: RunDirectory, now: Sequence[Fingerprint], changed_input: bool | None = None) -> None:
    """Compare the input files with the fingerprints recorded when the run started.

    Raises InputError when one has changed, unless `changed_input` allows it; then the new fingerprints
    replace the old ones. None says that the command has no such option. Logs a warning when only modification
    times differ.
    """
    before = recorded(directory)
    if [file.content for file in before] == [file.content for file in now]:
        pairs = zip(before, now, strict=True)
        dated = [new.path for old, new in pairs if old.path == new.path and old.modified != new.modified]
        if dated:
            log.warning("input files have new modification times but the same content: %s", _listed(dated))
        return
    found = _differences(before, now)
    if not changed_input:
        allow = ", or resume with --changed-input (results then differ from those of an uninterrupted run)"
        other = ", or choose another directory with --out"
        raise InputError(
            f"{directory.path}: the input files have changed since the run started\n    found:    {found}\n"
            f"    expected: the {len(before):,} file{'s' * (len(before) != 1)} listed in {directory.inputs}\n"
            f"    hint:     restore them{other if changed_input is None else allow}"
        )
    log.warning("resuming with changed input files: %s", found)
    directory.write(INPUTS, table(now))


def of_hosts(comm: Comm, network: Network) -> list[Fingerprint]:
    """Return the fingerprints of the files that this host reads, nothing on all its ranks but the first.

    Collective. Raises InputError on all ranks when a host has other files than rank 0.
    """
    mine = fingerprints(network) if comm.local_rank == 0 else []
    content = [file.content for file in mine] if comm.local_rank == 0 else None
    digests = comm.broadcast(comm.gather(None if content is None else hash_of(json.dumps(content))))
    others = [rank for rank, digest in enumerate(digests) if digest not in (None, digests[0])]
    if others:
        lists: list[list[Fingerprint]] = comm.broadcast(
            comm.gather(mine if comm.rank in (0, others[0]) else [])
        )
        raise InputError(
            "the files that the run reads are not the same on all hosts\n"
            f"    found:    {name_ranks(others, comm.hosts)}: {_differences(lists[0], lists[others[0]])}\n"
            f"    expected: the files of rank 0 (on {comm.hosts[0]})\n"
            "    hint:     copy them to all hosts again, or read them from a file system that all hosts share"
        )
    return mine


def _differences(before: Sequence[Fingerprint], now: Sequence[Fingerprint]) -> str:
    old, new = ({file.path: file for file in files} for files in (before, now))
    kinds = {
        "changed": [path for path in old if path in new and old[path].content != new[path].content],
        "missing": [path for path in old if path not in new],
        "new": [path for path in new if path not in old],
    }
    parts = [f"{len(paths):,} {kind}: {_listed(paths)}" for kind, paths in kinds.items() if paths]
    return "; ".join(parts) or "the same files in another order"


def _programs(plugins: Iterable[str]) -> list[str]:
    return [plugin for plugin in plugins if plugin.endswith(".py")]


def _listed(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_LISTED]) + (", ..." if len(paths) > _LISTED else "")


def _fingerprint(path: str) -> Fingerprint:
    """Return the fingerprint of a file: of all bytes of a program, and of blocks of other files."""
    try:
        with open_regular(path) as file:
            about = os.fstat(file.fileno())
            is_program = path.endswith(".py")
            digest = _whole(file) if is_program else _sampled(file.fileno(), about.st_size)
    except OSError:
        return Fingerprint(path, -1, 0, "")
    return Fingerprint(path, about.st_size, about.st_mtime_ns, digest)


def _whole(file: BufferedReader) -> str:
    return hashlib.file_digest(file, "sha256").hexdigest()


def _sampled(file: int, size: int) -> str:
    last, count = max(0, size - _BLOCK), min(_MOST, max(2, size // _SPACING))
    offsets = sorted({last * i // (count - 1) for i in range(count)}) if last else [0]
    blocks = [os.pread(file, _BLOCK, offset) for offset in offsets]
    return hashlib.sha256(b"".join(blocks)).hexdigest()[:_SHORT]
