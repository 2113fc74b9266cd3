"""Processes that tests wait for, stop and kill."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any


def wait_for(path: Path, process: subprocess.Popen[Any]) -> None:
    """Wait until a running process has created this file; otherwise kill the process."""
    end = time.monotonic() + 200  # on a busy machine two ranks need a minute to start
    while time.monotonic() < end and process.poll() is None:
        if path.exists():
            return
        time.sleep(0.02)
    problem = (
        f"{path} never appeared" if process.poll() is None else "the run ended before it could be stopped"
    )
    process.terminate()
    _, errors = process.communicate(timeout=60)
    raise AssertionError(f"{problem}\n{errors}")


def process_of(log: Path) -> int:
    """Return the process id that a rank writes to its log."""
    match = re.search(r"process (\d+)", log.read_text())
    assert match is not None
    return int(match[1])


def killed_at(number: int, work: Callable[[], None]) -> bool:
    """Run `work` in a child that dies without clean-up at change `number` of the disk; say if it died."""
    child = os.fork()
    if child == 0:
        code, count = 1, 0
        try:

            def deadly(real: Callable[..., object], *arguments: object) -> object:
                nonlocal count
                count += 1
                if count > number:
                    os._exit(9)
                return real(*arguments)

            for name in ("replace", "unlink", "fsync", "ftruncate"):
                setattr(os, name, partial(deadly, getattr(os, name)))
            work()
            code = 0
        finally:
            os._exit(code)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, 9)
    return code == 9
