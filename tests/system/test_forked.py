"""Forks that run the commands of tests."""

from __future__ import annotations

import importlib

import pytest

from support.forked import environment_is_changed


def test_commands_run_in_forks_until_a_test_changes_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    importlib.import_module("sklearn")  # which changes it, too
    assert not environment_is_changed()
    monkeypatch.setenv("NUMBA_CACHE_DIR", "elsewhere")
    assert environment_is_changed()
