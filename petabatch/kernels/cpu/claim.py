"""Claims on kernels that several processes need: one compiles, the others wait for its file."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_BEAT, _LOST = 2.0, 20.0
"""Seconds between two heartbeats of a process that compiles, and after which it counts as lost."""
_LOOK = 0.05


@contextmanager
def turn(file: Path) -> Iterator[None]:
    """Wait until a kernel has its file, or no other process compiles it; claim it while the block runs.

    Works on shared folders without locks; where files cannot be made, every process compiles.
    """
    claim = file.with_name(f".{file.name}.claim")
    while not file.exists():
        try:
            os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            if not _beats(claim, file) and not _drop(claim):
                break
        except OSError:
            break
        else:
            done = threading.Event()
            threading.Thread(target=_beat, args=(claim, done), daemon=True).start()
            try:
                yield
            finally:
                done.set()
                with suppress(OSError):
                    claim.unlink()
            return
    yield


def _drop(claim: Path) -> bool:
    """Remove a claim whose process is lost, and the older ones; return False if it cannot be removed."""
    try:
        lost = claim.stat().st_mtime_ns
        for one in claim.parent.glob(".*.claim"):
            if one.stat().st_mtime_ns <= lost:
                one.unlink()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True


@contextmanager
def leading(folder: Path) -> Iterator[bool]:
    """Tell whether this process is the first of those that are in such a block, of one folder."""
    claim = folder / ".first.claim"
    try:
        os.close(os.open(claim, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    except OSError:
        yield False
        return
    try:
        yield True
    finally:
        with suppress(OSError):
            claim.unlink()


def is_claimed(file: Path) -> bool:
    """Return whether a process is compiling the kernel of a file."""
    return file.with_name(f".{file.name}.claim").exists()


def _beat(claim: Path, done: threading.Event) -> None:
    while not done.wait(_BEAT):
        with suppress(OSError):
            os.utime(claim)


def _beats(claim: Path, file: Path) -> bool:
    """Wait for the file, or the end of the claim; return whether the process that has it is alive.

    Times are compared with one another, not with the clock, which may differ on a shared folder.
    """
    seen, since = 0, time.monotonic()
    while not file.exists():
        try:
            now = claim.stat().st_mtime_ns
        except OSError:
            return True
        if now != seen:
            seen, since = now, time.monotonic()
        elif time.monotonic() - since > _LOST:
            return False
        time.sleep(_LOOK)
    return True
