"""Standard streams that are closed, full or not UTF-8, and logs that cannot be written."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from petabatch import logs
from petabatch.errors import StorageError
from petabatch.threads import ThreadPool
from support.commands import alone
from support.processes import PATIENCE


def shell(small: Path, command: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of shell in the folder of a params file; `petabatch` is the command line."""
    line = command.replace("petabatch", f"{sys.executable} -m petabatch", 1)
    return subprocess.run(
        ["sh", "-c", line], cwd=small.parent, capture_output=True, check=False, timeout=PATIENCE
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("command", "code", "said"),
    [
        ("petabatch info >&-", 1, "standard output: Bad file descriptor\n"),
        ("petabatch info >/dev/full", 1, "standard output: No space left on device\n"),
        ("petabatch check small.toml >/dev/full", 1, "standard output: No space left on device\n"),
        ("petabatch check nowhere.toml 2>&-", 2, ""),
        ("petabatch check nowhere.toml 2>/dev/full", 2, ""),
    ],
)
def test_output_that_goes_nowhere_is_an_error_and_messages_change_no_exit_code(
    small: Path, command: str, code: int, said: str
) -> None:
    done = shell(small, command)
    assert (done.returncode, done.stderr.decode(), done.stdout) == (code, said, b"")


def test_a_run_without_standard_streams_writes_into_no_file_of_its_own(small: Path) -> None:
    assert shell(small, "petabatch run small.toml --out out --no-mpi <&- >&- 2>&-").returncode == 0
    expected = alone(small, "whole")
    for file in ("run.h5", "params.json"):
        assert (small.parent / "out" / file).stat().st_size == (expected / file).stat().st_size


def test_paths_that_are_not_utf_8_are_run_and_shown(small: Path) -> None:
    name = os.fsdecode(b"caf\xe9")
    small.rename(small.with_name(f"{name}.toml"))
    done = shell(small, f"petabatch run {name}.toml --out {name} --no-mpi")
    assert done.returncode == 0, done.stderr
    assert rb"caf\udce9/run.h5" in done.stderr
    assert "written" not in (small.parent / name / "log.txt").read_text()
    assert rb"caf\udce9" in shell(small, f"petabatch info {name}").stdout


def test_runs_on_threads_have_logs_of_their_own(small: Path) -> None:
    """The second begins and ends within the first, and the other way round."""
    levels = logs.log.level, list(logs.log.filters), list(logs.log.handlers)
    turns = {name: threading.Event() for name in ("b began", "a ended")}

    def run(name: str, wait_for: str, then: str) -> None:
        with logs.shown(quiet=True), logs.to_file(small.parent / f"{name}.txt", 0):
            logs.log.info("%s began", name)
            if name == "b":
                turns["b began"].set()
            assert turns[wait_for].wait(60)
            with ThreadPool(1) as pool:
                pool.submit(logs.log.info, "%s works", name).result()
            logs.log.info("%s ended", name)
        turns[then].set()

    orders = {"a": ("b began", "a ended"), "b": ("a ended", "b began")}
    threads = [threading.Thread(target=run, args=(name, *order)) for name, order in orders.items()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in "ab":
        lines = [line.split(" ", 2)[2] for line in (small.parent / f"{name}.txt").read_text().splitlines()]
        assert lines == [f"{name} began", f"{name} works", f"{name} ended"]
    assert (logs.log.level, logs.log.filters, logs.log.handlers) == levels


def test_two_runs_on_threads_log_what_each_does(small: Path) -> None:
    outs = [small.parent / name for name in ("first", "second")]
    threads = [
        threading.Thread(target=alone, args=(small, out.name, "run.kernel=array", "run.displays=3"))
        for out in outs
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for out in outs:
        text = (out / "log.txt").read_text()
        assert [text.count(word) for word in ("started in", "done: ", "display 3 of 3")] == [1, 1, 1]
        assert f"started in {out}\n" in text


def test_a_log_that_cannot_be_written_hides_no_error(caplog: pytest.LogCaptureFixture) -> None:
    def fail() -> None:
        with logs.to_file(Path("/dev/full"), 0):
            logs.log.warning("one")
            logs.log.warning("two")
            raise StorageError("the real error")

    with caplog.at_level(logging.WARNING, logs.log.name), pytest.raises(StorageError, match="the real error"):
        fail()
    once = "/dev/full: cannot be written: No space left on device; the run goes on without it"
    said = [record.getMessage() for record in caplog.records]
    assert said.count(once) == 1
    assert {"one", "two"} <= set(said)
