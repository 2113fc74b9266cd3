"""Processes that tests wait for, hold, stop and kill.

The machine may stand still for seconds at any moment: what a test waits for stays until it goes on.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

PATIENCE = 240
"""Seconds in which everything ends: a busy machine needs a minute to start two ranks, more to compile."""

GATE = """
import time
from pathlib import Path
from petabatch import session

gate, drive = Path({gate!r}), session.drive

def drive_and_wait(engine, *hooks, **more):
    for step in drive(engine, *hooks, **more):
        with engine.blocking_io:
            while step == {step} and gate.exists():
                time.sleep(0.01)
        yield step

if gate.exists():
    session.drive = drive_and_wait
"""


def wait_for(path: Path, process: subprocess.Popen[Any]) -> None:
    """Wait until a running process has created this file; otherwise kill the process."""
    _wait(path.exists, f"{path} never appeared", process)


def wait_for_checkpoint(out: Path, step: int, process: subprocess.Popen[Any]) -> None:
    """Wait until a run has written a checkpoint of this step, or a later one in its place."""

    def written() -> bool:
        return newest_checkpoint(out) >= step

    _wait(written, f"{out} never had a checkpoint of step {step}", process)


def newest_checkpoint(out: Path) -> int:
    """Return the step of the newest checkpoint, -1 if there is none."""
    return max((int(path.stem[5:]) for path in out.glob("checkpoints/step_?????????.h5")), default=-1)


def wait_until(reached: Callable[[], bool]) -> None:
    """Wait until something holds."""
    end = time.monotonic() + PATIENCE
    while not reached():
        assert time.monotonic() < end, "it never came to that"
        time.sleep(0.005)


def _wait(reached: Callable[[], bool], otherwise: str, process: subprocess.Popen[Any]) -> None:
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and process.poll() is None:
        if reached():
            return
        time.sleep(0.02)
    problem = otherwise if process.poll() is None else "the run ended before it could be stopped"
    process.terminate()
    said = (text for text in process.communicate(timeout=60) if text)
    raise AssertionError("\n".join([problem, *map(str, said)]))


def with_gate(file: Path, step: int) -> tuple[Path, Path]:
    """Return a copy of a params file, and a file as long as which is there its runs are held at `step`.

    They have written the checkpoint of that step then, and answer signals.
    """
    gate, held = file.with_name("gate"), file.with_name(f"held_{file.name}")
    gate.touch()
    file.with_name("gate.py").write_text(GATE.format(step=step, gate=str(gate)))
    held.write_text('plugins = ["gate.py"]\n' + file.read_text())
    return held, gate


def kill_all(process: subprocess.Popen[Any]) -> None:
    """Kill a process and all that it has started, and wait until they have ended."""
    family = [process.pid, *descendants(process.pid)]
    for pid in family:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait(PATIENCE)
    wait_for_end(family)


def wait_for_end(processes: Iterable[int]) -> None:
    """Wait until these processes have ended."""
    end = time.monotonic() + PATIENCE
    while left := [pid for pid in processes if not _ended(pid)]:
        assert time.monotonic() < end, f"processes {left} outlive the run"
        time.sleep(0.01)


def processor_time(pid: int) -> float:
    """Return the seconds for which a process was on a processor."""
    user, system = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those that they have."""
    children: dict[int, list[int]] = {}
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(status.read_text().rpartition(")")[2].split()[1])
        except (FileNotFoundError, ProcessLookupError):
            continue
        children.setdefault(parent, []).append(int(status.parent.name))
    waiting, found = [pid], list[int]()
    while waiting:
        waiting += (more := children.get(waiting.pop(), []))
        found += more
    return found


def _ended(pid: int) -> bool:
    """Say whether a process has ended with all its threads, which hold its locks, or is only waited for."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        return state in "ZX" and len(os.listdir(f"/proc/{pid}/task")) <= 1
    except (FileNotFoundError, ProcessLookupError):
        return True


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
