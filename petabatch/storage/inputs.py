"""What a run reads its images and plug-ins from, as it was when the run began: a resumed run compares.

Of a file its size, its date and a hash of some of its bytes are kept. The hash is of its first and its last
block and, in files of more than 2 MiB, of up to 62 in between: whoever changes a compressed image, or an
array by more than a few of its numbers, changes it. Dates alone prove nothing: copies have new ones.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import astuple, dataclass

from petabatch.errors import InputError
from petabatch.layers import Input
from petabatch.logs import log
from petabatch.progress import with_progress
from petabatch.spec.network import Network
from petabatch.storage.directory import RunDirectory

_BLOCK = 4096
"""Bytes of a block that is hashed."""
_APART = 1 << 20
"""Bytes between blocks, where there are not too many."""
_MOST = 64
"""Blocks hashed of one file."""
_THREADS = 8
"""Files looked at at a time: on a network file system that is mostly waiting."""
_NAMED = 5
"""Files named in a message."""


@dataclass(frozen=True)
class Seen:
    """What a file was like."""

    path: str
    size: int
    """Bytes; -1 of a file that was not there."""
    date: int
    """Time of its last change in ns."""
    digest: str

    @property
    def content(self) -> tuple[int, str]:
        """What must not change."""
        return self.size, self.digest


def survey(network: Network) -> list[Seen]:
    """Look at every file that a network reads while it runs, in the order in which they are shown."""
    sources = [layer.source for layer in network.layers.values() if isinstance(layer, Input)]
    paths = [path for source in sources for path in source.paths()]
    paths += [plugin for plugin in network.plugins if plugin.endswith(".py")]
    with ThreadPoolExecutor(_THREADS, "inputs") as pool:
        seen = pool.map(_look, paths)
        return list(with_progress(seen, len(paths), f"noting what {len(paths):,} input files are like"))


def written(files: Iterable[Seen]) -> str:
    """Return what was seen as text, a file on each line."""
    return "\n".join(json.dumps(astuple(file)) for file in files)


def noted(directory: RunDirectory) -> list[Seen]:
    """Return what was noted of the input files of a run."""
    if not directory.inputs.exists():  # a run of an earlier version
        return []
    lines = directory.inputs.read_text(encoding="utf-8").splitlines()
    return [Seen(*json.loads(line)) for line in lines]


def summary(directory: RunDirectory) -> dict[str, object]:
    """Return what tells one set of input files from another, in a few words."""
    files = noted(directory)
    whole = hashlib.sha256(json.dumps([file.content for file in files]).encode()).hexdigest()[:16]
    return {"files": len(files), "bytes": sum(file.size for file in files), "sha256": whole}


def compare(directory: RunDirectory, now: Sequence[Seen], changed_input: bool) -> None:
    """Compare input files with those that the run began with, which `directory` lists.

    Raises InputError when one has changed, unless `changed_input` says that it may; then the run goes by the
    new ones from now on. Says so when there are only new dates. A run that noted none is not compared.
    """
    before = noted(directory)
    if not directory.inputs.exists():
        return
    if [file.content for file in before] == [file.content for file in now]:
        pairs = zip(before, now, strict=True)
        dated = [new.path for old, new in pairs if old.path == new.path and old.date != new.date]
        if dated:
            log.warning("input files look the same as when the run began, but are newer: %s", _named(dated))
        return
    found = _differences(before, now)
    if not changed_input:
        raise InputError(
            f"{directory.path}: the input files are not those the run began with\n    found:    {found}\n"
            f"    expected: the {len(before):,} files listed in {directory.inputs}\n"
            f"    hint:     put them back; or go on with what is there now: --changed-input "
            f"(the run is then no longer what it would have been without a break)"
        )
    log.warning("goes on with other input files than before: %s", found)
    directory.write_inputs(written(now))


def _differences(before: Sequence[Seen], now: Sequence[Seen]) -> str:
    old, new = ({file.path: file for file in files} for files in (before, now))
    kinds = {
        "changed": [path for path in old if path in new and old[path].content != new[path].content],
        "gone": [path for path in old if path not in new],
        "new": [path for path in new if path not in old],
    }
    parts = [f"{len(paths):,} {kind}: {_named(paths)}" for kind, paths in kinds.items() if paths]
    return "; ".join(parts) or "the same files in another order"


def _named(paths: Sequence[str]) -> str:
    return ", ".join(paths[:_NAMED]) + (", ..." if len(paths) > _NAMED else "")


def _look(path: str) -> Seen:
    try:
        with open(path, "rb", buffering=0) as file:
            about = os.fstat(file.fileno())
            count = min(_MOST, max(2, about.st_size // _APART))
            places = sorted({max(0, about.st_size - _BLOCK) * i // (count - 1) for i in range(count)})
            blocks = [os.pread(file.fileno(), _BLOCK, place) for place in places]
    except OSError:
        return Seen(path, -1, 0, "")
    return Seen(path, about.st_size, about.st_mtime_ns, hashlib.sha256(b"".join(blocks)).hexdigest()[:16])
