"""Progress of a run: the rate, the bar on a terminal and in a notebook, the notice about compilation."""

from __future__ import annotations

import fcntl
import io
import logging
import os
import pty
import re
import struct
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest
from numba.core import event

from petabatch import logs, simulation
from petabatch.engine.warm_up import WarmUp
from petabatch.logs import PATIENCE
from petabatch.progress import Progress, Rate
from support.commands import SMALL, alone
from support.processes import wait_until


@contextmanager
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], str]]:
    """Have a terminal as standard error, to which messages are logged; yield what reads to some text."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")

    parts: list[bytes] = []

    def read() -> None:
        """Take what is written, or a long run would wait for room."""
        with suppress(OSError):  # the other end is closed
            while part := os.read(master, 1 << 16):
                parts.append(part)

    def written(last: str) -> str:
        wait_until(lambda: last.encode() in b"".join(parts))
        return b"".join(parts).decode(errors="ignore")

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    with os.fdopen(slave, "w", buffering=1) as stderr, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", stderr)  # not in a fixture, or pytest would replace it
        logs.console(quiet=False)
        yield written
    reader.join()
    os.close(master)


def plain(text: str) -> list[str]:
    """Return the lines on a terminal without their colours; a line that is drawn again counts again."""
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text).replace("\r", "\n").split("\n")


def test_the_rate_is_that_of_the_last_half_minute() -> None:
    rate = Rate(0, 0.0)
    assert rate.note(10, 10.0) == 1.0
    assert rate.note(20, 20.0) == 1.0
    for second in range(21, 60):
        found = rate.note(20 + 100 * (second - 20), float(second))
    assert found == 100.0


def test_time_that_does_not_count_is_not_in_the_rate(caplog: pytest.LogCaptureFixture) -> None:
    now = 0.0
    with caplog.at_level(logging.INFO, "petabatch"), Progress(0, 100, 10, 2, clock=lambda: now) as shown:
        now = 5.0
        shown.update(10, ("sum", 3.0), None)
        now = 50.0
        shown.update(100, None, ("active", 0.25))
        assert shown.summary(100) == "0:50, 4 slice·steps/s"
    assert caplog.messages == [
        "display 1 of 10  sum 3.00  4 slice·steps/s  0:45 left",
        "display 10 of 10  active 25.00%  4 slice·steps/s  0:00 left",
    ]


def test_the_total_of_a_network_that_diverges_has_few_digits(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "petabatch"), Progress(0, 1, 1, 1, clock=lambda: 0.0) as shown:
        shown.update(1, ("energy", 2.76282e65), None)
    assert caplog.messages == ["step 1 of 1  energy 2.76e+65"]


def test_kernels_are_in_the_time_of_a_run_and_not_in_its_rate(caplog: pytest.LogCaptureFixture) -> None:
    now, kernels = 7.0, 2.0
    shown = Progress(0, 100, 10, 2, True, clock=lambda: now, kernels=lambda: kernels)
    with caplog.at_level(logging.DEBUG, "petabatch"):
        now, kernels = 37.0, 32.0  # before the first step
        now = 47.0
        shown.update(20, None, None)
        assert caplog.messages == ["display 2 of 10  4 slice·steps/s  0:40 left"]
        now = 87.0
        assert shown.summary(100) == "1:20, 0:30 of it for kernels, 4 slice·steps/s"


@pytest.mark.parametrize("quiet", [False, True])
def test_a_long_log_has_a_line_a_minute_and_a_short_one_a_line_a_second(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, quiet: bool
) -> None:
    now, displays = 0.0, 40_000
    monkeypatch.setattr("petabatch.progress.time", SimpleNamespace(monotonic=lambda: now))
    when, lines = [], caplog.records
    shown = Progress(0, displays, 1, 1, quiet, clock=lambda: now)
    with caplog.at_level(logging.DEBUG, "petabatch"), shown:
        for display in range(1, displays + 1):  # of half a second
            now += 0.5
            shown.update(display, None, None)
            when += [now] * (len(lines) - len(when))
    assert np.diff(when[:100]).max() == 1
    assert np.diff(when).max() == 60
    assert len(when) < 800
    assert lines[-1].message.startswith("step 40000 of 40000")


def test_displays_that_take_longer_than_a_minute_have_a_line_each(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("petabatch.progress.time", SimpleNamespace(monotonic=lambda: now))
    with caplog.at_level(logging.INFO, "petabatch"), Progress(0, 2000, 10, 1, clock=lambda: now) as shown:
        for step in range(5, 2001, 5):
            now += 31
            shown.update(step, None, None)
    assert len(caplog.records) == 200


def test_the_log_calls_totals_by_their_probes(small: Path) -> None:
    file = small.parent / "sum.toml"
    probe = '[probes.sum]\ntype = "statistics"\nlayer = "V1"\n'
    file.write_text(SMALL.replace("[probes.energy]", f"{probe}\n[probes.energy]"))
    log = (alone(file, "out") / "log.txt").read_text()
    assert re.search(r"display 6 of 6  sum \d+\.\d\d  [\d,]+ slice·steps/s  0:00 left", log)
    assert "energy" not in log
    assert re.search(
        r"done: .*run\.h5 \(\d+:\d\d(, \d+:\d\d of it for kernels)?, [\d,]+ slice·steps/s\)", log
    )


def test_messages_appear_above_the_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as written:
        with Progress(0, 100, 10, 2) as shown:
            logs.log.info("started in /a/%s/run", "long/" * 20)
            shown.update(50, ("energy", 1.5), None)
            logs.log.info("[50] is not markup")
        logs.log.info("after the bar")
        lines = plain(written("after the bar"))
    assert f"started in /a/{'long/' * 20}/run" in lines  # unbroken
    assert "[50] is not markup" in lines
    assert "after the bar" in lines
    assert any(
        re.match(r"display 5 of 10 ━+.* energy 1\.50  [\d,]+ slice·steps/s  \d+:\d\d left", line)
        for line in lines
    )
    assert all(len(line) <= 80 for line in lines if line.startswith("display"))


def test_nothing_is_drawn_below_the_last_message_of_a_run(
    small: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with terminal(monkeypatch) as written:
        simulation.run(simulation.read(small), small.parent / "out", mpi=False, quiet=False, threads=1)
        logs.log.info("after the run")
        lines = [line.strip() for line in plain(written("after the run")) if line.strip()]
    done = next(number for number, line in enumerate(lines) if line.startswith("done:"))
    assert not any(line.startswith("display") for line in lines[done:])
    assert any(line.startswith("display 6 of 6") for line in lines[:done])


def test_a_bar_stands_only_where_messages_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    with terminal(monkeypatch) as written:
        logs.console(quiet=True)
        with Progress(0, 100, 10, 2) as shown:
            shown.update(50, None, None)
        logs.log.warning("nothing before")
        assert written("before").strip() == "nothing before"


def test_a_notebook_has_a_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    class ZMQInteractiveShell:
        pass

    class Shown:
        def update(self, data: dict[str, str], raw: bool) -> None:
            assert raw
            seen.append(data["text/plain"])

    ipython, display = ModuleType("IPython"), ModuleType("IPython.display")
    ipython.get_ipython = ZMQInteractiveShell  # type: ignore[attr-defined]
    display.display = lambda data, raw, display_id: Shown()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    logs.console(quiet=False)
    with Progress(0, 100, 10, 2) as shown:
        shown.update(50, ("energy", 1.5), None)
    assert seen[0].startswith("display 0 of 10 ░░")
    assert re.match(r"display 5 of 10 █{15}░{15} energy 1\.50  [\d,]+ slice", seen[1])


def test_only_compilation_that_takes_long_is_noticed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 0.0
    monkeypatch.setattr("petabatch.engine.warm_up.time", SimpleNamespace(monotonic=lambda: now))
    with caplog.at_level(logging.INFO, "petabatch"):
        loading = WarmUp()
        with loading.watched(), loading:
            now += 2 * PATIENCE
        loading.report()
        assert caplog.messages == []
        compiling = WarmUp()
        with compiling.watched():
            for _ in range(3):
                with event.trigger_event("numba:compile"):
                    now += 1.25
        compiling.report()
        compiling.report()
    assert caplog.messages == [
        "compiling kernels, for up to a minute, once for each installation and kind of network",
        "compiled kernels in 4 s",
    ]
    assert compiling.seconds == 3.75


def test_waiting_for_kernels_of_another_process_is_noticed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("petabatch.engine.warm_up.PATIENCE", 0.05)
    warm_up = WarmUp()
    with caplog.at_level(logging.INFO, "petabatch"), ThreadPoolExecutor(1) as pool:
        with warm_up:
            warm_up.wait_for(pool.submit(lambda: None))
        assert caplog.messages == []
        with warm_up:
            warm_up.wait_for(pool.submit(time.sleep, 0.2))
    assert len(caplog.messages) == 1
    assert caplog.messages[0].startswith("compiling kernels")


def test_the_same_seconds_count_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr("petabatch.engine.warm_up.time", SimpleNamespace(monotonic=lambda: now))
    warm_up = WarmUp()
    with warm_up, warm_up:
        now = 2.0
    assert warm_up.seconds == 2.0
