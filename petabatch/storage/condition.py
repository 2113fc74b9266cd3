"""The condition of the files of a run, as far as it shows without reading them whole."""

from __future__ import annotations

from collections.abc import Iterator

from petabatch.errors import DamagedError, FormatError, StorageError
from petabatch.storage import manifest
from petabatch.storage.checkpoint import check_sizes, checkpoint_heads
from petabatch.storage.directory import RUN_FILE, RunDirectory


def problems(directory: RunDirectory) -> list[str]:
    """Return which files are missing or damaged, one line each: by size, heads of checkpoints by content.

    `run.h5` is left to its readers.
    """
    root = directory.path
    return [problem.removeprefix(f"{root}/").splitlines()[0] for problem in _problems(directory)]


def _problems(directory: RunDirectory) -> Iterator[str]:
    root = directory.path
    try:
        listed = manifest.read(root)
    except StorageError as error:
        yield str(error)
        return
    for name in sorted(listed.entries.keys() - {RUN_FILE}):
        try:
            listed.check(root, name, contents=False)
        except DamagedError as error:
            # a run in progress removes files that it no longer needs, and their lines before
            if name in manifest.read(root).entries:
                yield str(error)
    for head in checkpoint_heads(directory):
        try:
            check_sizes(head)
        except (StorageError, FormatError) as error:
            if head.exists():
                yield str(error)
