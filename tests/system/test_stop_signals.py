"""Every process can be ended: a second signal does it, whatever the process does."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

import petabatch as pb
from petabatch import cli
from petabatch.errors import StoppedEarly
from petabatch.session import RunSession
from petabatch.stop_signals import watch
from support.commands import BIN, alone
from support.forked import forked_code_on_ranks
from support.processes import PATIENCE, processor_time, wait_for, wait_until

BUSY = """
import collections, itertools, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it
from petabatch.stop_signals import interrupt_once, watch
{before}
print("ready", flush=True)
collections.deque(itertools.repeat(0), maxlen=0)  # never returns to the interpreter, and keeps its lock
"""

FULL = """
import os
os.set_blocking(2, False)
try:
    while True:
        os.write(2, bytes(4096))
except BlockingIOError:
    os.set_blocking(2, True)
"""
"""Write to standard error until its pipe is full."""

STOPPING = "stopping with a checkpoint; a second signal ends the process at once\n"


@contextmanager
def started(command: Sequence[str | Path], folder: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a command for four minutes at most."""
    with subprocess.Popen(
        command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        limit = threading.Timer(240, process.kill)
        limit.start()
        try:
            yield process
        finally:
            limit.cancel()
            process.kill()


@contextmanager
def busy(before: str) -> Iterator[subprocess.Popen[str]]:
    with started([sys.executable, "-c", BUSY.format(before=before)]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        began = processor_time(process.pid)  # a signal before the long call is answered by the interpreter
        wait_until(lambda: processor_time(process.pid) > began + 0.2)
        yield process


def ended_by(number: signal.Signals, process: subprocess.Popen[str]) -> int:
    """Return the exit code after a second signal, sent again where a busy machine took both for one."""
    for _ in range(30):
        process.send_signal(number)
        with suppress(subprocess.TimeoutExpired):
            return process.wait(1)
    raise AssertionError("no signal ended it")


def test_a_second_signal_ends_a_process_that_does_not_answer() -> None:
    with busy("watching = watch('stopping with a checkpoint'); watching.__enter__()") as process:
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGCONT):
            process.send_signal(number)  # it receives three together, as those that `timeout` sends
        assert process.stderr is not None
        assert process.stderr.readline() == STOPPING
        time.sleep(0.5)
        assert process.poll() is None, "signals that are sent together count as one"
        assert ended_by(signal.SIGINT, process) == 128 + signal.SIGINT
        assert process.stderr.read() == "ended by a second signal\n"


def test_a_second_signal_ends_a_process_whose_messages_nobody_reads() -> None:
    with busy(f"{FULL}\nwatching = watch('stopping with a checkpoint'); watching.__enter__()") as process:
        assert ended_by(signal.SIGTERM, process) == 128 + signal.SIGTERM


def test_other_signals_do_not_end_it() -> None:
    """Such as the timers of a program that calls `petabatch.run`."""
    handler = "import signal; signal.signal(signal.SIGALRM, lambda *about: None)"
    with busy(f"{handler}\nwatching = watch(); watching.__enter__()") as process:
        for number in (signal.SIGALRM, signal.SIGALRM, signal.SIGTERM, signal.SIGALRM):
            process.send_signal(number)
            time.sleep(0.3)
        assert process.poll() is None
        assert ended_by(signal.SIGTERM, process) == 128 + signal.SIGTERM


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="sigaction is that of Linux")
def test_outside_of_the_steps_the_kernel_ends_it() -> None:
    with busy("interrupt_once()\nwith watch(): pass") as process:
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
        assert process.poll() is None
        assert ended_by(signal.SIGINT, process) == -signal.SIGINT


def test_an_interrupt_of_a_callback_is_not_dropped() -> None:
    code = (
        "import signal, threading, time\nfrom petabatch.stop_signals import interrupt_once\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored by jobs in the background
        "interrupt_once()\n"
        "start = threading.Thread.start\n"  # on a busy machine it takes a while
        "threading.Thread.start = lambda thread: (start(thread), time.sleep(0.5))\n"
        "class Dropping:\n"
        "    def __del__(self):\n        print('ready', flush=True)\n        time.sleep(200)\n"
        "try:\n    Dropping()\n    while True:\n        time.sleep(0.01)\n"
        "except KeyboardInterrupt:\n    print('interrupted')"
    )
    with started([sys.executable, "-c", code]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60) == ("interrupted\n", "")


def test_a_run_whose_threads_hang_ends_at_the_second_signal(small: Path) -> None:
    hanging = small.parent / "hanging"
    (small.parent / "hanging.py").write_text(
        "import time\nfrom pathlib import Path\nfrom typing import Literal\n"
        "from petabatch.layers import Linear\n"
        "class Hanging(Linear):\n    type: Literal['test_hanging'] = 'test_hanging'\n"
        "    def update(self, *arguments):\n"
        f"        Path({str(hanging)!r}).touch()\n        time.sleep(1000)\n"
    )
    text = small.read_text().replace('"linear"', '"test_hanging"', 1)
    text = text.replace("[run]", '[run]\nkernel = "array"')  # nothing to compile
    small.write_text('plugins = ["hanging.py"]\n' + text)
    with started([BIN / "petabatch", "run", small, "--out", "out"], small.parent) as process:
        wait_for(hanging, process)
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        assert STOPPING in process.stderr
        assert ended_by(signal.SIGTERM, process) == 128 + signal.SIGTERM
        assert process.stderr.read() == "ended by a second signal\n"


SEGMENTS = 'sys.modules["petabatch.storage.sink"]'
SIGNALLED = """
import atexit, os, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # jobs in the background of a shell ignore it
from petabatch import simulation
from petabatch.main import main
from petabatch.session import RunSession
from petabatch.storage.directory import RunDirectory

def signalled(*arguments, **keys):
    found = real(*arguments, **keys)
    if not sent:
        sent.append(os.kill(os.getpid(), {number:d}))
    return found

sent = []
if "{name}":
    real = getattr({place}, "{name}")
    setattr({place}, "{name}", signalled)
else:
    atexit.register(os.kill, os.getpid(), {number:d})
main()
"""


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("place", "name", "number", "code"),
    [
        ("RunDirectory", "create", signal.SIGTERM, 3),
        ("RunSession", "checkpoint", signal.SIGINT, 3),
        ("RunSession", "_finish", signal.SIGTERM, 0),
        ("simulation", "open_results", signal.SIGINT, 0),
        ("atexit", "", signal.SIGTERM, 0),
    ],
)
def test_from_the_run_directory_on_one_signal_stops_a_run_or_finds_it_done(
    small: Path, place: str, name: str, number: signal.Signals, code: int
) -> None:
    script = small.parent / "signalled.py"
    script.write_text(SIGNALLED.format(number=number, place=place, name=name))
    command = [sys.executable, script, "run", small, "--out", "out", "-s", "run.kernel=array", "-q"]
    ended = subprocess.run(command, cwd=small.parent, capture_output=True, text=True, timeout=PATIENCE)
    assert (ended.returncode, "Traceback" in ended.stderr) == (code, False), ended.stderr
    with pb.open(small.parent / "out") as run:
        assert run.status == ("done" if code == 0 else "stopped")


def test_a_resumed_run_stops_from_its_first_write_on(small: Path) -> None:
    script = small.parent / "signalled.py"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunSession, "_out_of_time", lambda self: True)
        with pytest.raises(StoppedEarly):
            alone(small, "out", "run.kernel=array")
    script.write_text(SIGNALLED.format(number=signal.SIGTERM, place=SEGMENTS, name="drop_after"))
    command = [sys.executable, script, "resume", "out", "-q"]
    ended = subprocess.run(command, cwd=small.parent, capture_output=True, text=True, timeout=PATIENCE)
    assert ended.returncode == 3, ended.stderr
    with pb.open(small.parent / "out") as run:
        assert run.status == "stopped"


def test_one_signal_stops_all_ranks_from_the_run_directory_on(small: Path) -> None:
    script = small.parent / "signalled.py"
    script.write_text(SIGNALLED.format(number=signal.SIGTERM, place="RunSession", name="checkpoint"))
    out = small.parent / "out"
    ended = forked_code_on_ranks(2, script, "run", small, "--out", out, "-s", "run.kernel=array", "-q")
    assert ended.returncode == 3, ended.stderr
    with pb.open(out) as run:
        assert run.status == "stopped"


def test_handlers_are_those_of_before_when_a_run_has_ended() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)]
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    with watch() as flag:
        signal.raise_signal(signal.SIGUSR1)
    assert flag.received == signal.SIGUSR1
    assert [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1)] == before
    assert signal.set_wakeup_fd(wakeup) == wakeup


def test_every_command_says_that_it_was_interrupted(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("petabatch.simulation.read", interrupt)
    monkeypatch.setattr(sys, "argv", ["petabatch", "bench"])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 128 + signal.SIGINT
    assert capsys.readouterr().err == "interrupted\n"
