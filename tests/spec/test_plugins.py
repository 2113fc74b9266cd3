"""Installed plug-ins."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from petabatch.spec.plugins import import_plugins


def test_a_plug_in_is_found_also_one_that_is_installed_while_the_process_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    os.utime(tmp_path, (1, 1))  # the clock of files may stand still for some milliseconds
    assert import_plugins({}, tmp_path) == []
    (tmp_path / "test_plugins_given.py").write_text("raise ValueError('it was imported')\n")
    about = tmp_path / "given-1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: given\nVersion: 1\n")
    (about / "entry_points.txt").write_text("[petabatch.plugins]\ngiven = test_plugins_given\n")
    (problem,) = import_plugins({}, tmp_path)
    assert "it was imported" in problem.message
