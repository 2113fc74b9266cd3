"""The check of a network in Python, and what its page begins with."""

from __future__ import annotations

from pathlib import Path

import pytest

import petabatch
from petabatch.errors import ParamsError
from support.commands import Command


def test_the_check_of_python_is_the_page_of_the_command(small: Path) -> None:
    found = petabatch.check(small)
    lines = found.text.splitlines()
    assert lines[0].startswith(f"{small}: valid")
    assert str(found) == repr(found) == found.text
    assert all(note in " ".join(found.text.split()) for note in (*found.warnings, *found.notes))


def test_the_command_prints_the_same(small: Path, petabatch: Command) -> None:
    from petabatch.checking import check

    printed = petabatch("check", small).stdout
    assert printed == f"{check(small)}\n"
    assert petabatch("check", small, "--explain").stdout == f"{check(small, explain=True)}\n"


def test_notes_are_counted_and_raise_nothing(small: Path) -> None:
    settings = ["connections.recon_to_error.strength=0", "run.displays=1"]
    found = petabatch.check(petabatch.load(small, settings))
    assert any("its strength is 0" in note for note in found.notes)
    assert f"{len(found.notes)} note" in found.text.splitlines()[0]


def test_all_errors_are_raised(small: Path) -> None:
    with pytest.raises(ParamsError, match="larger than 0"):
        petabatch.check(petabatch.load(small, ["layers.V1.tau=-1"]))
