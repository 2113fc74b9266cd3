"""Shared by the tests of damaged and lost files: a run, and the same one stopped on the way."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from support.damage import make_runs


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, `whole` and `stopped` at display 4 of 6, with checkpoints at displays 3 and 4."""
    folder = tmp_path_factory.mktemp("runs")
    make_runs(folder)
    return folder


@pytest.fixture
def stopped(runs: Path, tmp_path: Path) -> Path:
    """A copy of the run that was stopped, to be damaged."""
    return shutil.copytree(runs / "stopped", tmp_path / "stopped")
