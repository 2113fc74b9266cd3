"""Shared by all tests: a small params file, running it as a user does, and what it leaves."""

from __future__ import annotations

import logging
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from petabatch.stop_signals import WATCHED
from support.commands import BIN, Command, write_small
from support.forked import environment_is_changed, forked, forked_ranks
from support.processes import PATIENCE

# The same examples each time, so that a change passes or fails everywhere; other ones with
# --hypothesis-profile random. However slow the machine is, no example takes too long.
slow = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("repeatable", derandomize=True, **slow)
settings.register_profile("random", **slow)
settings.load_profile("repeatable")

# Without cached bytecode, each process that a test starts compiles hundreds of modules.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let the cases of `sampled` tests that are not in their samples be long."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("sampled") and not item.get_closest_marker("long"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for ones in cases.values():
        marker = ones[0].get_closest_marker("sampled")
        assert marker is not None
        (count,) = marker.args
        sample = random.Random(count).sample(range(len(ones)), min(count, len(ones)))
        for place, item in enumerate(ones):
            if place not in sample:
                item.add_marker(pytest.mark.long)


@pytest.fixture(autouse=True)
def process_as_before() -> Iterator[None]:
    """Leave logging, signals and figures as a test found them: commands called here change them."""
    log = logging.getLogger("petabatch")
    before = list(log.handlers), log.level, log.propagate
    handlers = {number: signal.getsignal(number) for number in WATCHED}
    yield
    if (pyplot := sys.modules.get("matplotlib.pyplot")) is not None:
        pyplot.close("all")
    log.handlers, log.level, log.propagate = before
    for number, handler in handlers.items():
        if signal.getsignal(number) != handler:
            signal.signal(number, handler)


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """A params file that learns a few features from random images in a second."""
    return write_small(tmp_path)


@pytest.fixture
def petabatch(tmp_path: Path) -> Command:
    """Run `petabatch ...` in a process of its own, in the test's folder; `ranks` starts it under mpirun."""

    def command(*arguments: object, ranks: int = 0, **keys: object) -> subprocess.CompletedProcess[str]:
        alone = [str(BIN / "petabatch"), *map(str, arguments)]
        if not (keys or environment_is_changed()):
            return forked_ranks(ranks, alone, tmp_path) if ranks else forked(alone, tmp_path)
        launcher = [str(BIN / "mpirun"), "-n", str(ranks)] if ranks else []
        return subprocess.run(
            [*launcher, *alone],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env={**os.environ, "COLUMNS": "200"},
            **keys,  # type: ignore[call-overload]
        )

    return command
